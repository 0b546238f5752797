/** The fuzzers of native/fuzz, each for a moment, from its corpus on; and random calls of the package, under ASan. */
import { relative } from 'node:path';
import { missing, missingNative, nativeFuzzers, playNative, playUnderAsan } from '../fuzz.mjs';
import { result } from './pool.mjs';
import { ROOT } from './process.mjs';

const SECONDS = 10;
const CALLS = 'calls';
const CALLS_SECONDS = 25;
/** The same in each run: a change is tested, not luck. `npm run fuzz` plays new ones. */
const CALLS_SEED = 1;

/** A filter is "fuzz" or a part of a fuzzer's name. */
export function tasks(filters, { all }) {
  if (filters.length === 0 && !all) return [];
  const fuzzers = [...nativeFuzzers(), CALLS].filter(
    (name) => filters.length === 0 || filters.some((filter) => filter === 'fuzz' || name.includes(filter)),
  );
  const why = missingNative();
  const left = (name) => result({ leftOut: [{ what: `fuzzer of ${name}`, why }], text: 'left out' });
  return fuzzers.map((name) => ({
    name: `fuzzer of ${name}`,
    idle: true,
    run: async (how) => (name === CALLS ? fuzzCalls(how) : why === undefined ? fuzzOne(name, how) : left(name)),
  }));
}

async function fuzzCalls({ idle }) {
  const why = await missing();
  if (why !== undefined) return result({ leftOut: [{ what: 'fuzzer of calls', why }], text: 'left out' });
  const { ok, how, output } = await playUnderAsan({ seed: CALLS_SEED, seconds: CALLS_SECONDS, idle });
  if (ok) return result({ passed: 1, text: output.trim() });
  const failures = [`fuzzer of calls, from seed ${CALLS_SEED} on: ${how}\n${output}`];
  failures.push('Again: npm run fuzz -- --seconds 0 --seed, and the seed that the error names');
  return result({ failed: 1, failures, text: `FAILED: ${how}` });
}

async function fuzzOne(name, { idle }) {
  const { ok, how, output } = await playNative(name, SECONDS, { idle });
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
