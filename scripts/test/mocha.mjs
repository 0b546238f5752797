/** The tests in TypeScript, by mocha: a process for each file, so that files run side by side. */
import { mkdirSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { result } from './pool.mjs';
import { ROOT, run } from './process.mjs';

const RESULTS = join(ROOT, 'build/test-results');

/** What .mocharc.json says, without its list of files: mocha would add that to ours. */
const settings = JSON.parse(readFileSync(join(ROOT, '.mocharc.json'), 'utf8'));
delete settings.spec;
export const MOCHA = [
  '--no-config',
  ...Object.entries(settings).map(([name, value]) => (value === true ? `--${name}` : `--${name}=${value}`)),
];

/** Most of it is to compile, which cares for no time. */
const IDLE = ['prebuilt'];
/**
 * Node.js 20 reads the certificates that this variable names whenever it starts: with those of Debian a start takes
 * 155 ms of processor time, and 50 without. Tests start thousands; only these call npm, which may need them.
 */
const WITHOUT_CERTIFICATES = { NODE_EXTRA_CA_CERTS: undefined };
const WITH_CERTIFICATES = ['package', 'prebuilt'];
/** They compare times, or want the whole machine for a virtual one: nothing else may run beside them. */
const ALONE = ['control-delay', 'slow-link', 'rdma-guest'];
/** The files that take longest; they start first, so that none of them runs at the end beside nothing. */
const LONG = [
  'prebuilt',
  'collectives',
  'schedules/algorithms',
  'nbcbench',
  'create-op',
  'patterns',
  'nbcrun',
  'package',
  'launchers',
  'figures',
  'bootstrap',
  'property',
  'exits',
  'lifetime',
  'progress',
  'joining',
];

/**
 * What the quick run has of the tests in TypeScript: every file, each scenario once (NBC_TEST_BRIEF), and few random
 * programs. Files that are named here are left to `npm run test:all`: other programs than node-nbc take their time, or
 * a compiler.
 */
const QUICK_ENV = { NBC_TEST_BRIEF: '1', NBC_TEST_RUNS: '1', NBC_TEST_RANKS: '2,3,5' };
const NOT_QUICK = ['rdma-guest', 'slurm', 'docs', 'patterns', 'many-ranks'];
/**
 * Of other files, the titles of tests that are left to it, too: they take seconds, and what remains in the file, or in
 * a native test, touches the same part.
 */
const NOT_QUICK_OF = {
  abort: /large/,
  bootstrap: /one of those that Node opens|is unknown to all ranks|never answers|wrongly OMPI|is something else/,
  chaos: /over tcp/,
  'code-blocks': /(tuning|tracing|reductions|buffers|overlap|options|schedules)\.md/,
  compression: /one variant only|is none|says that|options|own archive/,
  'create-op': /over TCP|fail where their worker does: (memory|preload|syntax)/,
  examples: /^the small examples [^abgrs]/,
  exits: /while native code throws|by an uncaught exception/,
  fft3d: /single precision|--help|--volumes|tells a mistake/,
  figures: /draws again/,
  heat: /nothing changes any more/,
  joining: /not all join|is too late|another secret|waits for an answer/,
  launchers: /the guides (bash|mpirun)|one rank ends before|job of Kubernetes|srun without/,
  layouts: /with (TCP|no progress thread)/,
  lifetime: /copied as other runtimes|grow/,
  mismatch: /'(shm|tcp)', '|'tcp', 3 ranks/,
  nbcbench:
    /beside the MPIs|paper's modes|crowd|taskset|modes that it is asked for|'manual'|with the delays|wrong usage|without MPI|on a signal|more ranks/,
  'nbcbench-operations': /mpich|openmpi|2 ranks/,
  nbcrun:
    /by throwing|SIGTERM gives|labels of many|--help|a job: |output on a terminal|has come from|fails nothing where/,
  nbctop: /kept from its work|wrong with its arguments|a process is stopped/,
  p2p: /TCP|no progress thread|paper's eager limit/,
  package: /its types stand|strict programs|has its commands/,
  persistent: /TCP|no progress thread/,
  progress: /startall|priority|alloc buffers|without/,
  property: /crossMemory 'off'/,
  'rank-threads': /by an exit code|by a rejection|unless it is/,
  'schedules/algorithms': /any shape i(?!bcast|allreduce)/,
  silent: /middle of a large message writes nothing more \((tcp|shm, crossMemory off)/,
  'slow-link': /as root carries/,
  threads: /run after run|rightly on [25]|several times at once/,
  store: /different jobs at one address|stops between two steps|job of another size/,
  stuck: /--timeout/,
  topologies: /without a progress thread|parts in one ArrayBuffer/,
  training: /one variant/,
};

/** Of files that a network does not have as a whole, and of all that are not asked for by name: each scenario once. */
const BRIEFLY = { NBC_TEST_BRIEF: '1' };

/** The same tests over other networks, of those whose jobs can run over any transport. */
const NETWORKS = {
  tcp: {
    files: [
      'collectives',
      'communicator',
      'errors',
      'exits',
      'igatherv',
      'layouts',
      'lifetime',
      'p2p',
      'progress',
      'property',
      'reductions',
      'requests',
      'topologies',
      'views',
      'waiting',
    ],
    quick: ['collectives', 'communicator'],
    whole: [],
    env: { NBC_TRANSPORT: 'tcp', NBC_TEST_RUNS: '4', NBC_TEST_RANKS: '2,3,5' },
  },
  'ucx-tcp': {
    files: ['collectives', 'exits', 'p2p'],
    quick: ['collectives', 'p2p'],
    whole: ['collectives'],
    env: { NBC_TRANSPORT: 'ucx', UCX_TLS: 'tcp', NBC_TEST_RANKS: '2,3' },
  },
  // The shared memory of UCX.
  'ucx-sm': {
    files: ['collectives', 'exits', 'p2p'],
    quick: ['collectives'],
    whole: ['collectives'],
    env: { NBC_TRANSPORT: 'ucx', UCX_TLS: 'sm,self', NBC_TEST_RANKS: '2,3' },
  },
};

/**
 * A filter is a part of a file's name; "tcp/" or "ucx/" in front of it means over that network, "ucx-tcp/" or "ucx-sm/"
 * over one of UCX's.
 */
export function tasks(filters, { all, grep }) {
  const files = readdirSync(join(ROOT, 'test'), { recursive: true })
    .filter((path) => path.endsWith('.test.ts'))
    .map((path) => path.slice(0, -'.test.ts'.length));
  const order = (file) => (LONG.includes(file) ? LONG.indexOf(file) : LONG.length);
  files.sort((a, b) => order(a) - order(b) || a.localeCompare(b));
  const quick = filters.length === 0 && !all;
  const wanted = (name, other) => (filters.length === 0 ? all || other : filters.some((part) => name.includes(part)));
  const overNetworks = Object.entries(NETWORKS).flatMap(([network, { files: those, quick: few, whole, env }]) => {
    // What the filters name of it: all, or a part of a file's name.
    const named = filters
      .map((filter) => filter.split('/'))
      .filter(([first]) => first === network || first === network.split('-')[0])
      .map(([, ...rest]) => rest.join('/'));
    const asked = (file) =>
      filters.length === 0 ? all || few.includes(file) : named.some((part) => `${file}.test`.startsWith(part));
    const envOf = (file) => (whole.includes(file) && filters.length > 0 ? env : { ...BRIEFLY, ...env });
    return those
      .filter((file) => files.includes(file) && asked(file))
      .map((file) => task(file, `${network}/${file}.test`, { env: envOf(file), grep }));
  });
  return [
    ...files
      .filter((file) => wanted(`${file}.test`, !NOT_QUICK.includes(file)))
      .map((file) => task(file, `${file}.test`, quick ? { env: QUICK_ENV, without: NOT_QUICK_OF[file] } : { grep })),
    ...overNetworks,
  ];
}

const task = (file, name, options) => ({
  name,
  alone: ALONE.includes(file),
  idle: IDLE.includes(file),
  run: (how) => runFile(file, name, { ...options, ...how }),
});

async function runFile(file, name, { env = {}, grep, without, live = false, idle = false }) {
  mkdirSync(RESULTS, { recursive: true });
  const results = join(RESULTS, `${name.replaceAll('/', '-')}.json`);
  rmSync(results, { force: true });
  const args = ['node_modules/mocha/bin/mocha.js', ...MOCHA, `out/test/${file}.test.js`];
  if (grep !== undefined) args.push(`--grep=${grep}`);
  if (without !== undefined) args.push(`--grep=${without.source}`, '--invert');
  if (live && process.stdout.isTTY) args.push('--color');
  const certificates = WITH_CERTIFICATES.includes(file) ? {} : WITHOUT_CERTIFICATES;
  const variables = { ...certificates, ...env, NBC_TEST_RESULTS: results };
  const ended = await run(process.execPath, args, { live, idle, env: variables });
  return resultOf(name, ended, read(results));
}

/** Undefined if mocha did not get to its end. */
function read(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    return undefined;
  }
}

function resultOf(name, { ok, how, output }, found) {
  if (found === undefined) {
    return result({ failed: 1, failures: [`${name}: mocha did not end as it should: ${how}\n${output}`] });
  }
  const silent = found.skipped.filter(({ why }) => why === undefined);
  const failures = [
    ...found.failed.map(({ title, why }) => `${name}: ${title}\n${why}`),
    ...silent.map(({ title }) => `${name}: ${title}\nskipped without a reason: call skip() of test/helpers.ts`),
  ];
  if (!ok && failures.length === 0) failures.push(`${name}: ${how}\n${output}`);
  return result({
    passed: found.passed.length,
    failed: failures.length,
    leftOut: found.skipped.filter(({ why }) => why !== undefined).map(({ why }) => ({ what: name, why })),
    failures,
  });
}
