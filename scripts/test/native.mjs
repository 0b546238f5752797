/** The native tests: the core without Node, plain and under sanitizers. */
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { result } from './pool.mjs';
import { ROOT, has, run } from './process.mjs';

const SANITIZERS = '-fsanitize=address,undefined -fno-sanitize-recover=all';
/** clang 14 compiles under sanitizers in 65 % of the time of g++ 12, and what it makes runs in 75 %. */
const SANITIZING = ['clang++', 'g++'];
/** Where the emulator of arm64 finds libraries. */
const SYSROOT = ['-L', '/usr/aarch64-linux-gnu'];
const VARIANTS = [
  { name: 'plain', what: 'native tests', flags: '', compilers: ['g++', 'clang++'], launchers: [[]] },
  {
    name: 'asan',
    what: 'native tests under ASan and UBSan',
    flags: SANITIZERS,
    compilers: SANITIZING,
    launchers: [[]],
  },
  // ThreadSanitizer's memory layout does not go with address-space randomisation: on some kernels programs do not
  // start, on others a large mapping fails now and then. `setarch -R` turns it off for one program.
  {
    name: 'tsan',
    what: 'native tests under TSan',
    flags: '-fsanitize=thread',
    compilers: SANITIZING,
    launchers: [['setarch', '-R'], []],
  },
  {
    name: 'arm64',
    what: 'native tests for arm64, emulated',
    flags: '',
    compilers: ['aarch64-linux-gnu-g++'],
    // With 39 bits of address space, the fewest that common kernels give a program, where that can be reserved.
    launchers: [['-R', '0x8000000000'], []].map((reserved) => ['qemu-aarch64-static', ...reserved, ...SYSROOT]),
    // What qemu-user has not; everything else must run.
    lacks: /process_vm_readv|RLIMIT_AS|turned off for this process/,
  },
].filter(({ name }) => name !== process.arch);
/**
 * Of arm64: what depends on the processor, its atomics or its order of memory, as far as emulation shows that. The
 * others need system calls and clocks that qemu-user does not have, or libraries that are not there for arm64.
 */
const EMULATED = `arena_test bulk_test combining_test conformance_test connecting_test credits_test doorbell_test
  engine_test event_loop_test local_work_test rank_pipe_test reach_test reduce_test shm_test socket_bootstrap_test
  spin_history_test tcp_test threads_test trace_test user_work_test`.split(/\s+/);
/** A program that hangs ends itself (native/test/check.h); this is for the case that even that fails. */
const LIMIT_S = 1800;

/** What the source of a test says if it starts threads; TSan has nothing to find in the others. */
const THREADS = /std::thread|test\/(ranks|tcp_job|conformance)\.h/;

/** Needs an RDMA device; `npm run test:verbs` makes one and runs it there. */
const VERBS = 'verbs_test';
/** Moves 4 GiB; the quick run leaves it out. */
const LARGE = 'large_test';
/** These compare times, when they are plain: nothing else may run beside them. */
const ALONE = ['tcp_test', 'tcp_crowd_test'];

/**
 * A task for each program and variant, and before them one that builds each variant. A filter is "native", a variant,
 * or a part of a program's name; without one, the quick run has the plain variant only.
 */
export function tasks(filters, { all }) {
  const programs = readdirSync(join(ROOT, 'native/test'))
    .filter((name) => name.endsWith('_test.cc'))
    .map((name) => name.slice(0, -'.cc'.length))
    .sort();
  const wanted = (variant, program) =>
    filters.length === 0
      ? (all || (variant === 'plain' && program !== LARGE)) &&
        (program !== VERBS || hasDevice()) &&
        (variant !== 'tsan' || threaded(program))
      : filters.some((filter) => filter === 'native' || filter === variant || program.includes(filter));
  const builds = [];
  const tests = [];
  for (const variant of VARIANTS) {
    const chosen = programs.filter((program) => wanted(variant.name, program) && runsUnder(variant.name, program));
    if (chosen.length === 0) continue;
    const label = `native ${variant.name}`;
    const built = once(() => build(variant, chosen));
    builds.push({ name: `${label}: build`, run: async () => (await built()).result });
    for (const program of chosen) {
      tests.push({
        name: `${label}: ${program}`,
        alone: variant.name === 'plain' && ALONE.includes(program),
        run: async () => runOne(`${label}: ${program}`, program, { ...variant, ...(await built()) }),
      });
    }
  }
  return [...builds, ...tests];
}

function runsUnder(variant, program) {
  return variant !== 'arm64' || EMULATED.includes(program);
}

function threaded(program) {
  return THREADS.test(readFileSync(join(ROOT, `native/test/${program}.cc`), 'utf8'));
}

function hasDevice() {
  const folder = '/sys/class/infiniband';
  return existsSync(folder) && readdirSync(folder).length > 0;
}

function once(action) {
  let made;
  return () => (made ??= action());
}

/** `out` and `launcher` say where the programs are and what to start them with; `result` is the build's own. */
async function build(variant, programs) {
  const made = await makePrograms(variant, programs);
  const { out, launcher, why } = made;
  const errors = made.errors ?? (variant.name === 'plain' ? await errorsOfBenchmark() : undefined);
  if (why !== undefined) return { result: result({ leftOut: [{ what: variant.what, why }], text: 'left out' }) };
  if (errors === undefined) return { out, launcher, result: result({ text: 'built' }) };
  const failures = [`native ${variant.name}: did not build\n${errors}`];
  return { result: result({ failed: 1, failures, text: 'FAILED' }) };
}

/** The benchmark that is built where there is a device only, so that nobody else would see what it lacks. */
async function errorsOfBenchmark() {
  const { ok, output } = await run('make', ['-s', '-C', 'bench/verbs/native', 'check']);
  return ok ? undefined : output;
}

/** For other scripts. @throws {Error} if this variant cannot be built here */
export async function buildPrograms(name, programs) {
  const variant = VARIANTS.find((one) => one.name === name);
  const { why, errors } = await makePrograms(variant, programs);
  if (why !== undefined || errors !== undefined) throw new Error(`${variant.what}: ${why ?? errors}`);
}

/** @returns `out`, `launcher`; or `why` no compiler serves; or the `errors` of one */
async function makePrograms({ name, ...how }, programs) {
  const { name: compiler, launcher, why } = await findCompiler(how);
  if (why !== undefined) return { why };
  const out = join(ROOT, 'build/native-test', name);
  const options = [`VARIANT=${name}`, `OUT=${out}`, `CXX=${compiler}`];
  const targets = ['tools', ...programs.map((program) => join(out, program))];
  const flagsOfMake = ['-s', '-C', 'native/test', '-j', `${availableParallelism()}`];
  const { ok, output } = await run('make', [...flagsOfMake, ...options, ...targets]);
  return ok ? { out, launcher } : { errors: output };
}

async function runOne(label, program, { out, launcher, lacks }) {
  if (out === undefined) return result({ text: 'not built' });
  const [command, ...args] = [...launcher, join(out, program)];
  const env = { UBSAN_OPTIONS: 'print_stacktrace=1', ...process.env };
  const { ok, how, output } = await run(command, args, { seconds: LIMIT_S, env });
  const [, passed, failed] = /^(\d+) passed, (\d+) failed$/m.exec(output) ?? [label, '0', '0'];
  // A sanitizer's finding ends the program with an error after its last line, or without one.
  const lost = !ok && failed === '0' ? 1 : 0;
  const skipped = [...output.matchAll(/^ok (\S+) # skipped: (.*)$/gm)];
  const cannot = skipped.filter(([, , why]) => lacks?.test(why));
  const leftOut = skipped.filter((one) => !cannot.includes(one));
  return result({
    text: ok && cannot.length > 0 ? `${passed} passed; ${cannot.length} cannot run here: ${cannot[0][2]}` : '',
    passed: Number(passed),
    failed: Number(failed) + lost,
    leftOut: leftOut.map(([, name, why]) => ({ what: `${label} ${name}`, why })),
    failures: ok ? [] : [`${label}: ${how}\n${output.replace(/^ok .*\n/gm, '')}`],
  });
}

/** The compiler of the tests under ASan: `name`, or `why` there is none. */
export const compilerUnderAsan = once(() => findCompiler(VARIANTS.find(({ name }) => name === 'asan')));

/**
 * A compiler whose programs run under this variant, and what to start them with: the first launcher that works here.
 */
async function findCompiler({ flags, compilers, launchers }) {
  const folder = mkdtempSync(join(tmpdir(), 'nbc-probe-'));
  try {
    writeFileSync(join(folder, 'probe.cc'), '#include <thread>\nint main() { std::thread([] {}).join(); }\n');
    let why = `${compilers.join(' and ')}: not installed`;
    for (const name of compilers.filter((compiler) => has(compiler))) {
      const all = ['-std=c++20', '-pthread', ...flags.split(' ').filter(Boolean), '-o', 'probe', 'probe.cc'];
      if (!(await run(name, all, { cwd: folder })).ok) {
        why = `${name} cannot build with ${flags}; its runtime library may be missing`;
        continue;
      }
      for (const launcher of launchers) {
        const [command, ...args] = [...launcher, join(folder, 'probe')];
        if ((await run(command, args, { cwd: folder, seconds: 60 })).ok) return { name, launcher };
      }
      why = `programs that ${name} built with ${flags} do not start on this kernel`;
    }
    return { why };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
