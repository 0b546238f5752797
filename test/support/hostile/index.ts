/**
 * The fuzzers of what TypeScript reads from outside. What one finds is kept in build/fuzz/findings. Once it is mended
 * it moves to corpus/NAME, under a name that says what it is, so that it is tried every time.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { ROOT } from '../launch.js';
import type { Fuzzer } from './mutations.js';
import { NIFTI } from './nifti.js';
import { PMI } from './pmi.js';
import { SCHEDULES } from './schedules.js';
import { STORE } from './store.js';

export const HOSTILE: Readonly<Record<string, Fuzzer>> = { store: STORE, pmi: PMI, nifti: NIFTI, schedules: SCHEDULES };

const FINDINGS = join(ROOT, 'build/fuzz/findings');
const CORPUS = join(ROOT, 'test/support/hostile/corpus');

/** Fails with the seed, and with the file that keeps the input. */
export async function playHostile(name: string, seed: number): Promise<void> {
  const input = HOSTILE[name].make(seed);
  try {
    await HOSTILE[name].run(input);
  } catch (error) {
    mkdirSync(FINDINGS, { recursive: true });
    const file = join(FINDINGS, `${name}-seed-${seed}`);
    writeFileSync(file, input);
    const keep = `Once it is mended: mv ${relative(ROOT, file)} ${relative(ROOT, join(CORPUS, name))}/WHAT-IT-IS`;
    throw new Error(`${name}, seed ${seed}: ${(error as Error).message}\n${keep}`, { cause: error });
  }
}

/** The names of the inputs that are kept. */
export function corpusOf(name: string): string[] {
  const folder = join(CORPUS, name);
  return existsSync(folder) ? readdirSync(folder).sort() : [];
}

export function playKept(name: string, file: string): Promise<void> {
  return HOSTILE[name].run(new Uint8Array(readFileSync(join(CORPUS, name, file))));
}
