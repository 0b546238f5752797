/** The fuzzers of native/fuzz, each for a moment, from its corpus on. */
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { ROOT, has, run, timed } from './process.mjs';

export const title = 'fuzz';

const FOLDER = join(ROOT, 'native/fuzz');
const FINDINGS = join(ROOT, 'build/fuzz/findings');
const SECONDS = 10;

/** A filter is "fuzz" or a part of a fuzzer's name. */
export function select(filters) {
  const fuzzers = readdirSync(FOLDER)
    .filter((name) => name.endsWith('.cc'))
    .map((name) => name.slice(0, -'.cc'.length));
  return fuzzers.filter(
    (name) => filters.length === 0 || filters.some((filter) => filter === 'fuzz' || name.includes(filter)),
  );
}

export async function runAll(fuzzers) {
  const total = { passed: 0, failed: 0, leftOut: [], failures: [] };
  const why = has('clang++') ? undefined : 'clang++ not found (apt install clang libclang-rt-14-dev)';
  for (const name of fuzzers) {
    if (why !== undefined) {
      total.leftOut.push({ what: `fuzzer of ${name}`, why });
      continue;
    }
    const [{ ok, how, output }, duration] = await timed(() => fuzz(name));
    total[ok ? 'passed' : 'failed']++;
    const runs = /Done (\d+) runs/.exec(output)?.[1];
    console.log(`fuzzer of ${name}: ${ok ? `nothing found in ${runs} runs` : how} (${duration})`);
    if (ok) continue;
    console.log(output);
    total.failures.push(`fuzzer of ${name}: ${how}`);
    const finding = /Test unit written to (\S+)/.exec(output)?.[1];
    if (finding === undefined) continue;
    const path = relative(ROOT, finding);
    console.log(`The input is in ${path}; again: build/fuzz/${name} ${path}`);
    console.log(
      `Once that is repaired, keep it: mv ${path} native/fuzz/corpus/${name}/, under a name that says what it is.`,
    );
  }
  return total;
}

async function fuzz(name) {
  const built = await run('make', ['-s', '-C', FOLDER, `../../build/fuzz/${name}`]);
  if (!built.ok) return built;
  // New inputs go into a copy, which goes; what finds something stays.
  mkdirSync(FINDINGS, { recursive: true });
  const corpus = mkdtempSync(join(tmpdir(), 'nbc-fuzz-'));
  try {
    cpSync(join(FOLDER, 'corpus', name), corpus, { recursive: true });
    const options = [
      `-max_total_time=${SECONDS}`,
      '-max_len=400000',
      '-print_final_stats=0',
      `-artifact_prefix=${join(FINDINGS, name)}-`,
    ];
    return await run(join(ROOT, 'build/fuzz', name), [...options, corpus], { seconds: 10 * SECONDS });
  } finally {
    rmSync(corpus, { recursive: true, force: true });
  }
}
