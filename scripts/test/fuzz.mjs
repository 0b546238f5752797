/** The fuzzers of native/fuzz, each for a moment, from its corpus on; and random calls of the package, under ASan. */
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { missing, playUnderAsan } from '../fuzz.mjs';
import { result } from './pool.mjs';
import { ROOT, has, run } from './process.mjs';

const FOLDER = join(ROOT, 'native/fuzz');
const FINDINGS = join(ROOT, 'build/fuzz/findings');
const SECONDS = 10;
const CALLS = 'calls';
const CALLS_SECONDS = 25;
/** The same in each run: a change is tested, not luck. `npm run fuzz` plays new ones. */
const CALLS_SEED = 1;
const LIMIT_S = 300;

/** A filter is "fuzz" or a part of a fuzzer's name. */
export function tasks(filters, { all }) {
  if (filters.length === 0 && !all) return [];
  const fuzzers = readdirSync(FOLDER)
    .filter((name) => name.endsWith('.cc'))
    .map((name) => name.slice(0, -'.cc'.length))
    .concat(CALLS)
    .filter((name) => filters.length === 0 || filters.some((filter) => filter === 'fuzz' || name.includes(filter)));
  const why = has('clang++') ? undefined : 'clang++ not found (apt install clang libclang-rt-14-dev)';
  const left = (name) => result({ leftOut: [{ what: `fuzzer of ${name}`, why }], text: 'left out' });
  return fuzzers.map((name) => ({
    name: `fuzzer of ${name}`,
    run: async () => (name === CALLS ? fuzzCalls() : why === undefined ? fuzzOne(name) : left(name)),
  }));
}

async function fuzzCalls() {
  const why = missing();
  if (why !== undefined) return result({ leftOut: [{ what: 'fuzzer of calls', why }], text: 'left out' });
  const { ok, how, output } = await playUnderAsan({ seed: CALLS_SEED, seconds: CALLS_SECONDS });
  if (ok) return result({ passed: 1, text: output.trim() });
  const failures = [`fuzzer of calls, from seed ${CALLS_SEED} on: ${how}\n${output}`];
  failures.push('Again: npm run fuzz -- --seconds 0 --seed, and the seed that the error names');
  return result({ failed: 1, failures, text: `FAILED: ${how}` });
}

async function fuzzOne(name) {
  const { ok, how, output } = await fuzz(name);
  if (ok) return result({ passed: 1, text: `nothing found in ${/Done (\d+) runs/.exec(output)?.[1]} runs` });
  const failures = [`fuzzer of ${name}: ${how}\n${output}`];
  const finding = /Test unit written to (\S+)/.exec(output)?.[1];
  if (finding !== undefined) {
    const path = relative(ROOT, finding);
    failures.push(
      `The input is in ${path}; again: build/fuzz/${name} ${path}`,
      `Once that is mended, keep it: mv ${path} native/fuzz/corpus/${name}/, under a name that says what it is.`,
    );
  }
  return result({ failed: 1, failures, text: `FAILED: ${how}` });
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
    return await run(join(ROOT, 'build/fuzz', name), [...options, corpus], { seconds: LIMIT_S });
  } finally {
    rmSync(corpus, { recursive: true, force: true });
  }
}
