/** The experiment of independent progress (test/programs/progress.ts), as several tests make it. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { reports, runRanks, type JobOptions } from '../helpers.js';

/** Of the whole buffer on each rank. */
export const BYTES = 4 * 1024 * 1024;

/** The collectives that test/programs/progress.ts knows. */
export type Collective = 'ialltoall' | 'iallreduce';

/**
 * Runs it, with a computation `times` as long as the collective; returns what the first test() after that said on each
 * rank.
 */
export async function firstTests(
  size: number,
  env: JobOptions['env'] = {},
  memory = 'plain',
  times = 50,
  collective: Collective = 'ialltoall',
): Promise<boolean[]> {
  const directory = mkdtempSync(join(tmpdir(), 'nbc-test-'));
  try {
    const board = join(directory, 'board');
    writeFileSync(board, new Uint8Array(2 * size));
    const args = [`${BYTES}`, board, memory, `${times}`, collective];
    const results = await runRanks('progress', { size, args, env });
    return reports<{ first: boolean }>(results).map(({ first }) => first);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
