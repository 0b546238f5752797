/** The native tests: the core without Node, plain and under sanitizers. */
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { ROOT, has, run, timed } from './process.mjs';

export const title = 'native';

const SANITIZERS = '-fsanitize=address,undefined -fno-sanitize-recover=all';
const VARIANTS = [
  { name: 'plain', what: 'native tests', flags: '', launchers: [[]] },
  { name: 'asan', what: 'native tests under ASan and UBSan', flags: SANITIZERS, launchers: [[]] },
  // ThreadSanitizer's memory layout does not go with address-space randomisation: on some kernels programs do not
  // start, on others a large mapping fails now and then. `setarch -R` turns it off for one program.
  { name: 'tsan', what: 'native tests under TSan', flags: '-fsanitize=thread', launchers: [['setarch', '-R'], []] },
];
/** A program that hangs ends itself (native/test/check.h); this is for the case that even that fails. */
const LIMIT_S = 900;

/** Needs an RDMA device; `npm run test:verbs` makes one and runs it there. */
const VERBS = 'verbs_test';

/** Pairs of a variant and a test; a filter is "native", a variant, or a part of the test's name. */
export function select(filters) {
  const tests = readdirSync(join(ROOT, 'native/test'))
    .filter((name) => name.endsWith('_test.cc'))
    .map((name) => name.slice(0, -'.cc'.length))
    .sort();
  const wanted = (variant, test) =>
    (filters.length === 0 && (test !== VERBS || hasDevice())) ||
    filters.some((filter) => filter === 'native' || filter === variant || test.includes(filter));
  return VARIANTS.map((variant) => ({ ...variant, tests: tests.filter((test) => wanted(variant.name, test)) })).filter(
    ({ tests: some }) => some.length > 0,
  );
}

function hasDevice() {
  const folder = '/sys/class/infiniband';
  return existsSync(folder) && readdirSync(folder).length > 0;
}

export async function runAll(variants) {
  const total = { passed: 0, failed: 0, leftOut: [], failures: [] };
  for (const { name, what, flags, launchers, tests } of variants) {
    const compiler = await findCompiler(flags, launchers);
    if (compiler.why !== undefined) {
      total.leftOut.push({ what, why: compiler.why });
      continue;
    }
    const out = join(ROOT, 'build/native-test', name);
    const make = ['-s', '-C', 'native/test', '-j', `${availableParallelism()}`, `VARIANT=${name}`, `OUT=${out}`];
    const [built, duration] = await timed(() => run('make', [...make, `CXX=${compiler.name}`]));
    console.log(`native ${name}: ${built.ok ? 'built' : 'did not build'} (${duration})`);
    if (!built.ok) {
      console.log(built.output);
      total.failed++;
      total.failures.push(`native ${name}: did not build`);
      continue;
    }
    for (const test of tests) await runOne(`native ${name}: ${test}`, out, test, compiler.launcher, total);
  }
  if (!hasDevice()) console.log(`native: ${VERBS} needs an RDMA device; npm run test:verbs makes one`);
  return total;
}

async function runOne(label, out, test, launcher, total) {
  const [command, ...args] = [...launcher, join(out, test)];
  const [{ ok, how, output }, duration] = await timed(() =>
    run(command, args, { seconds: LIMIT_S, env: { UBSAN_OPTIONS: 'print_stacktrace=1', ...process.env } }),
  );
  const [, passed, failed] = /^(\d+) passed, (\d+) failed$/m.exec(output) ?? [label, '0', '0'];
  // A sanitizer's finding ends the program with an error after its last line, or without one.
  const lost = !ok && failed === '0' ? 1 : 0;
  total.passed += Number(passed);
  total.failed += Number(failed) + lost;
  for (const [, name, why] of output.matchAll(/^ok (\S+) # skipped: (.*)$/gm)) {
    total.passed--;
    total.leftOut.push({ what: `${label} ${name}`, why });
  }
  console.log(`${label}: ${passed} passed, ${failed} failed${lost ? `, ${how}` : ''} (${duration})`);
  if (ok) return;
  const rest = output.replace(/^ok .*\n/gm, '');
  console.log(rest);
  total.failures.push(`${label}\n${rest}`);
}

/**
 * A compiler whose programs run under this variant, and what to start them with: the first launcher that works here.
 */
async function findCompiler(flags, launchers) {
  const folder = mkdtempSync(join(tmpdir(), 'nbc-probe-'));
  try {
    writeFileSync(join(folder, 'probe.cc'), '#include <thread>\nint main() { std::thread([] {}).join(); }\n');
    let why = 'neither g++ nor clang++ is installed';
    for (const name of ['g++', 'clang++'].filter((compiler) => has(compiler))) {
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
