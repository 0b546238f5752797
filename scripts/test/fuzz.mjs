/** The fuzzers of native/fuzz, each for a moment, from its corpus on; and random calls of the package, under ASan. */
import { relative } from 'node:path';
import { missing, missingNative, nativeFuzzers, playNative, playUnderAsan } from '../fuzz.mjs';
import { result } from './pool.mjs';
import { ROOT } from './process.mjs';

const SECONDS = 10;
const CALLS = 'calls';
const CALLS_SECONDS = 25;
/** The same in each run: a change is tested, not luck. `npm run fuzz` plays others. */
const SEED = 1;
/** Lines of libFuzzer that tell how it starts and how far it has come. */
const PROGRESS = /^(#\d+\t|INFO:).*\n/gm;

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
  const { ok, how, output } = await playUnderAsan({ seed: SEED, seconds: CALLS_SECONDS, idle });
  if (ok) return result({ passed: 1, text: output.trim() });
  const again = 'Again: npm run fuzz -- --seconds 0 --seed, and the seed that the error names';
  const failures = [`fuzzer of calls, from seed ${SEED} on: ${how}\n${output}\n${again}`];
  return result({ failed: 1, failures, text: `FAILED: ${how}` });
}

async function fuzzOne(name, { idle }) {
  const { ok, how, output } = await playNative(name, { seed: SEED, seconds: SECONDS, idle });
  if (ok) return result({ passed: 1, text: `nothing found in ${/Done (\d+) runs/.exec(output)?.[1]} runs` });
  const lines = [`fuzzer of ${name}: ${how}`, output.replace(PROGRESS, '')];
  const finding = /Test unit written to (\S+)/.exec(output)?.[1];
  if (finding !== undefined) {
    const path = relative(ROOT, finding);
    lines.push(
      `The input is in ${path}; again: build/fuzz/${name} ${path}`,
      `Once that is mended, keep it: mv ${path} native/fuzz/corpus/${name}/, under a name that says what it is.`,
    );
  }
  return result({ failed: 1, failures: [lines.join('\n')], text: `FAILED: ${how}` });
}
