#!/usr/bin/env node
/**
 * `npm run fuzz [-- --seed N] [--seconds N]`: random calls of all that the package exports (test/programs/calls.ts).
 * The addon is one under AddressSanitizer and UndefinedBehaviorSanitizer. Prints the first seed; `--seed N --seconds 0`
 * plays one again, and with NBC_FUZZ_TELL=1 each call is printed before it is made.
 *
 * build/asan is a package of its own: what was compiled, copied, and an addon that was built with the sanitizers.
 */
import { cpSync, mkdirSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { build } from './build.mjs';
import { ROOT, has, run } from './test/process.mjs';

const PACKAGE = join(ROOT, 'build/asan');
const COPIED = ['package.json', 'dist', 'out/test', 'scripts'];
const COMPILER = 'g++ -fsanitize=address,undefined -fno-sanitize-recover=all -w';
const LIMIT_S = 120;

/** Why it cannot be played here; undefined: it can. */
export const missing = () => (has('g++') ? undefined : 'g++ not found (apt install g++)');

/** Expects that everything is built. Like `run()`; `output` says what was found. */
export async function playUnderAsan({ seed, seconds, live = false }) {
  const make = [
    '-s',
    '-C',
    'native',
    `OUT=${join(PACKAGE, 'build/Release')}`,
    `CXX=${COMPILER}`,
    'OPTIMIZE=-O1',
    'all',
  ];
  const built = await run('make', make);
  if (!built.ok) return built;
  mkdirSync(PACKAGE, { recursive: true });
  for (const path of COPIED) cpSync(join(ROOT, path), join(PACKAGE, path), { recursive: true });
  const library = await run('g++', ['-print-file-name=libasan.so']);
  const env = {
    LD_PRELOAD: library.output.trim(),
    // Node.js never frees some of its memory. Errors of the addon end the process by a signal, which the test sees.
    ASAN_OPTIONS: 'detect_leaks=0:abort_on_error=1',
    UBSAN_OPTIONS: 'print_stacktrace=1:abort_on_error=1',
    ...process.env,
  };
  const args = [join(PACKAGE, 'out/test/support/play-calls.js'), `${seed}`, `${seconds}`];
  return run(process.execPath, args, { env, live, seconds: seconds + LIMIT_S });
}

export const randomSeed = () => Math.floor(Math.random() * 1e9);

if (import.meta.url === pathToFileURL(realpathSync(process.argv[1])).href) {
  const text = { type: 'string' };
  const { values } = parseArgs({ options: { seed: text, seconds: text } });
  const why = missing();
  if (why !== undefined) throw new Error(why);
  build();
  const seed = Number(values.seed ?? randomSeed());
  console.log(`from seed ${seed} on`);
  const { ok } = await playUnderAsan({ seed, seconds: Number(values.seconds ?? 600), live: true });
  process.exitCode = ok ? 0 : 1;
}
