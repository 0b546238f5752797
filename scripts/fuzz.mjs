#!/usr/bin/env node
/**
 * `npm run fuzz [-- NAME] [--minutes N | --seconds N] [--seed N]`: one fuzzer for long, by default ten minutes.
 *
 *     calls      random calls of all that the package exports (test/programs/calls.ts), the default. The addon is one
 *                under AddressSanitizer and UndefinedBehaviorSanitizer
 *     frames …   what native code reads from outside: native/fuzz, by libFuzzer under the same sanitizers
 *     store …    what TypeScript reads from outside: test/support/hostile
 *
 * Those in JavaScript print the first seed; `--seed N --seconds 0` plays one again. With NBC_FUZZ_TELL=1 each call is
 * printed before it is made.
 *
 * build/asan is a package of its own: what was compiled, copied, and an addon that was built with the sanitizers.
 */
import { cpSync, mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { build } from './build.mjs';
import { compilerUnderAsan } from './test/native.mjs';
import { ROOT, has, run } from './test/process.mjs';

const PACKAGE = join(ROOT, 'build/asan');
const CORE = join(ROOT, 'build/native-test/asan/core.a');
const COPIED = ['package.json', 'dist', 'out/test', 'scripts'];
const SANITIZE = '-fsanitize=address,undefined -fno-sanitize-recover=all -w';
/** The runtime library of each compiler, which a Node.js that knows nothing of it is started with. */
const RUNTIMES = {
  'g++': 'libasan.so',
  'clang++': `libclang_rt.asan-${process.arch === 'x64' ? 'x86_64' : 'aarch64'}.so`,
};
const LIMIT_S = 120;

/** Why it cannot be played here; undefined: it can. */
export const missing = async () => (await compilerUnderAsan()).why;

/** Expects that everything is built. Like `run()`; `output` says what was found. */
export async function playUnderAsan({ seed, seconds, live = false, idle = false }) {
  const jobs = ['-s', '-j', `${availableParallelism()}`];
  // The core of the native tests: to compile it again would take minutes.
  const { name: compiler } = await compilerUnderAsan();
  const core = await run('make', [...jobs, '-C', 'native/test', 'VARIANT=asan', `CXX=${compiler}`, CORE], { idle });
  if (!core.ok) return core;
  const sanitizing = `CXX=${compiler} ${SANITIZE}`;
  const options = [`CORE=${CORE}`, `OUT=${join(PACKAGE, 'build/Release')}`, sanitizing, 'OPTIMIZE=-O1'];
  const built = await run('make', [...jobs, '-C', 'native', ...options], { idle });
  if (!built.ok) return built;
  mkdirSync(PACKAGE, { recursive: true });
  for (const path of COPIED) cpSync(join(ROOT, path), join(PACKAGE, path), { recursive: true });
  const library = await run(compiler, [`-print-file-name=${RUNTIMES[compiler]}`]);
  const env = {
    LD_PRELOAD: library.output.trim(),
    // Node.js never frees some of its memory. Errors of the addon end the process by a signal, which the test sees.
    ASAN_OPTIONS: 'detect_leaks=0:abort_on_error=1',
    UBSAN_OPTIONS: 'print_stacktrace=1:abort_on_error=1',
    ...process.env,
  };
  const args = [join(PACKAGE, 'out/test/support/play-calls.js'), `${seed}`, `${seconds}`];
  return run(process.execPath, args, { env, live, idle, seconds: seconds + LIMIT_S });
}

const FOLDER = join(ROOT, 'native/fuzz');
const FINDINGS = join(ROOT, 'build/fuzz/findings');
/** Seconds beyond those that libFuzzer is given. */
const NATIVE_LIMIT_S = 300;

/** The fuzzers of native/fuzz. */
export const nativeFuzzers = () =>
  readdirSync(FOLDER)
    .filter((name) => name.endsWith('.cc'))
    .map((name) => name.slice(0, -'.cc'.length));

/** Why they cannot be played here; undefined: they can. */
export const missingNative = () =>
  has('clang++') ? undefined : 'clang++ not found (apt install clang libclang-rt-14-dev)';

/** Plays one of native/fuzz, from its corpus on. Like `run()`. */
/** `seed`: 0 is another one each time. */
export async function playNative(name, { seed, seconds, live = false, idle = false }) {
  const built = await run('make', ['-s', '-C', FOLDER, `../../build/fuzz/${name}`], { idle });
  if (!built.ok) return built;
  // New inputs go into a copy, which goes; what finds something stays.
  mkdirSync(FINDINGS, { recursive: true });
  const corpus = mkdtempSync(join(tmpdir(), 'nbc-fuzz-'));
  try {
    cpSync(join(FOLDER, 'corpus', name), corpus, { recursive: true });
    const options = [
      `-seed=${seed}`,
      `-max_total_time=${seconds}`,
      '-max_len=400000',
      '-print_final_stats=0',
      `-artifact_prefix=${join(FINDINGS, name)}-`,
    ];
    const file = join(ROOT, 'build/fuzz', name);
    return await run(file, [...options, corpus], { live, idle, seconds: seconds + NATIVE_LIMIT_S });
  } finally {
    rmSync(corpus, { recursive: true, force: true });
  }
}

const randomSeed = () => Math.floor(Math.random() * 1e9);

async function main() {
  const text = { type: 'string' };
  const options = { seed: text, seconds: text, minutes: text };
  const { values, positionals } = parseArgs({ options, allowPositionals: true });
  const [name = 'calls'] = positionals;
  const seconds = Number(values.seconds ?? Number(values.minutes ?? 10) * 60);
  if (nativeFuzzers().includes(name)) {
    const why = missingNative();
    if (why !== undefined) throw new Error(why);
    return playNative(name, { seed: Number(values.seed ?? 0), seconds, live: true });
  }
  build();
  const seed = Number(values.seed ?? randomSeed());
  const { HOSTILE } = await import(pathToFileURL(join(ROOT, 'out/test/support/hostile/index.js')).href);
  if (name !== 'calls' && HOSTILE[name] === undefined) {
    throw new Error(`no fuzzer '${name}': one of ${['calls', ...nativeFuzzers(), ...Object.keys(HOSTILE)].join(', ')}`);
  }
  console.log(`from seed ${seed} on`);
  if (name !== 'calls') {
    const program = join(ROOT, 'out/test/support/play-hostile.js');
    return run(process.execPath, [program, name, `${seed}`, `${seconds}`], { live: true, seconds: seconds + LIMIT_S });
  }
  const why = await missing();
  if (why !== undefined) throw new Error(why);
  return playUnderAsan({ seed, seconds, live: true });
}

if (import.meta.url === pathToFileURL(realpathSync(process.argv[1])).href) {
  const { ok } = await main();
  process.exitCode = ok ? 0 : 1;
}
