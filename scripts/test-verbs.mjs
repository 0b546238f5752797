#!/usr/bin/env node
/**
 * `npm run test:verbs`: boots a kernel with a software RDMA device (scripts/rdma-guest) once, and runs the steps below
 * there; then two such kernels for the step `pair`. This script is on both sides: here it builds, boots and counts; in
 * the guest, where it is started with --in-guest, it runs the steps.
 */
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from './build.mjs';
import { MOCHA } from './test/mocha.mjs';
import { buildPrograms } from './test/native.mjs';
import { ROOT, run, timed } from './test/process.mjs';

/**
 * For the whole guest, which takes ten minutes on two processors that have nothing else to do: emulation feels every
 * neighbour. The steps have limits that follow the machine; this one only ends a guest that stands still.
 */
const LIMIT_SECONDS = 3600;
const RESULTS = join(ROOT, 'build/verbs-results');
const COUNTS = join(RESULTS, 'steps.json');
/** Native tests, by variant. */
const PROGRAMS = { plain: ['verbs_test', 'ucx_test'], asan: ['verbs_test'], tsan: ['verbs_test'] };
/** For tests that interrupt the link between the devices rxc and rxd. */
const LINK = ['NBC_TEST_LINK=scripts/guest/link'];

/**
 * UCX connects by datagrams, which Soft-RoCE delivers between link-local addresses only. With all three devices of the
 * guest it would connect over each of them.
 */
const UCX_TLS = 'rc_verbs,ud_verbs:aux';
const UCX = [`UCX_TLS=${UCX_TLS}`, 'UCX_IB_GID_INDEX=0', 'UCX_NET_DEVICES=rxe0:1'];

/**
 * In this order. `command` is run in the project's folder, in the guest; the step passes if it exits with 0 within
 * `seconds`, which follow the machine (test/limit.mjs): the emulated processor is two to three times slower than the
 * idle one that they are counted on, and more while the host is busy. `named`: it runs only if it is asked for.
 */
const STEPS = [
  {
    title: 'device',
    what: 'rxe0 is there and its port is active',
    seconds: 20,
    command: shell('info=$(ibv_devinfo -d rxe0) && echo "$info" && grep -q PORT_ACTIVE <<<"$info"'),
  },
  {
    title: 'ib_write_lat',
    what: 'RDMA writes between two processes, without us',
    seconds: 60,
    // The second one connects by TCP, and would fail if the first did not listen yet.
    command: shell(`
      ib_write_lat -d rxe0 -x 1 -s 64 -n 1000 >/tmp/server 2>&1 & server=$!
      until ss -Hltn 'sport = 18515' | grep -q .; do kill -0 $server && sleep 0.1 || exit; done
      ib_write_lat -d rxe0 -x 1 -s 64 -n 1000 localhost && wait $server || { cat /tmp/server; false; }`),
  },
  {
    title: 'node',
    what: 'node starts, and it is the one of the host',
    seconds: 30,
    command: shell(`version=$(node --version) && echo $version && test $version = ${process.version}`),
  },
  {
    title: 'shm',
    what: 'this build runs: four ranks over shared memory',
    seconds: 120,
    command: ['node', 'dist/cli/nbcrun.js', '-n', '4', '--label', 'out/test/programs/exchange.js'],
  },
  {
    title: 'fabric',
    what: 'the verbs fabric by itself and under an engine, under ASan and UBSan: messages, sleeping, registrations, failures',
    seconds: 450,
    command: [
      'env',
      // A new address is an event that the device of its interface reports.
      'NBC_TEST_DEVICES=rxe0',
      'NBC_TEST_EVENT=ip address add 10.7.9.1/32 dev dummy0 && ip address del 10.7.9.1/32 dev dummy0',
      'build/native-test/asan/verbs_test',
    ],
  },
  {
    title: 'threads',
    what: 'what has the most threads of it, under TSan',
    seconds: 300,
    command: shell(`
      for test in random_mixes many_peers connects_of_four a_sleeper its_registration; do
        setarch -R build/native-test/tsan/verbs_test $test || exit
      done`),
  },
  {
    title: 'link',
    what: 'the same over a link between two devices that is silent for a moment, and one that goes down',
    seconds: 180,
    command: ['env', ...LINK, 'NBC_TEST_DEVICES=rxc,rxd', 'build/native-test/plain/verbs_test', 'a_link'],
  },
  {
    title: 'messages',
    what: "messages between three ranks, each scenario in both of two jobs: the default settings; progress 'manual', eager limit 255, a service level, a traffic class, a time-out and retries",
    seconds: 120,
    command: shell(`
      ranks() { NBC_TRANSPORT=verbs node dist/cli/nbcrun.js -n 3 --label out/test/programs/p2p.js order,tags,self,both,zero,exhaustion; }
      export NBC_VERBS_PARTITION_KEY=65535
      ranks || exit
      NBC_PROGRESS=manual NBC_EAGER_LIMIT=255 NBC_VERBS_SERVICE_LEVEL=3 NBC_VERBS_TRAFFIC_CLASS=106 NBC_VERBS_TIMEOUT=500ms NBC_VERBS_RETRIES=4 ranks`),
  },
  {
    title: 'store',
    what: 'three ranks that meet through a store, as on several machines: messages and collectives',
    seconds: 120,
    command: shell(`
      export NBC_TRANSPORT=verbs NBC_STORE=127.0.0.1:7777 NBC_SECRET=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \\n')
      export NBC_SIZE=3 failed=0 ranks=
      for rank in 0 1 2; do
        NBC_RANK=$rank node out/test/programs/collectives.js thread once >/tmp/store-$rank 2>&1 & ranks+=" $!"
      done
      for rank in $ranks; do wait $rank || failed=1; done
      # Each rank reports its counters: it has written.
      cat /tmp/store-*
      test $failed = 0 && test "$(cat /tmp/store-* | grep -c '"workRequests":[1-9]')" = 3`),
  },
  {
    title: 'communicators',
    what: 'split, dup and messages that must not meet, four ranks',
    seconds: 60,
    command: verbs(4, 'out/test/programs/communicator.js', 'split,isolation,concurrent'),
  },
  {
    title: 'lifetime',
    what: 'buffers that the program drops, transfers, posts, grows and collects while they are in use',
    seconds: 90,
    command: verbs(
      2,
      '--node-arg=--expose-gc',
      'out/test/programs/lifetime.js',
      'dropped,transferred,posted,grown,collected,small',
    ),
  },
  {
    title: 'progress',
    what: 'ialltoall of 4 MiB on four ranks is complete at the first test after a computation',
    seconds: 90,
    command: mocha('progress.test', 'goes on by itself: 4 ranks, plain'),
  },
  {
    title: 'delay',
    what: 'the same on two devices with 0, 1 and 10 ms between them; not without the progress thread',
    seconds: 90,
    command: mocha('delay.guest'),
  },
  {
    title: 'exits',
    what: 'ranks that exit, close or are killed: what needs them fails, the rest goes on',
    seconds: 120,
    command: mocha('exits.test', 'exit.. in the middle of a collective|close.. before|killed|hears of its end'),
  },
  {
    title: 'registrations',
    what: 'buffers that are freed, transferred, grown or too many for the cache; counters; a low limit of locked memory',
    seconds: 150,
    command: mocha('registrations.test'),
  },
  {
    title: 'faults',
    what: 'a rank killed in the middle of a large message; a link that is silent for a moment, and goes down',
    seconds: 180,
    command: ['env', ...LINK, ...mocha('faults.test').slice(1)],
  },
  {
    title: 'chaos',
    what: 'random collectives while ranks are killed or stopped, and a link loses, delays or doubles packets',
    seconds: 120,
    // Between them these two rounds have all of that.
    command: ['node', 'out/test/support/play-chaos.js', '--transport', 'verbs', '--seed', '164', '--rounds', '2'],
  },
  {
    title: 'revoke',
    what: 'a communicator that a rank revokes, or its signal: on three ranks, with large messages in flight',
    seconds: 240,
    command: verbs(3, 'out/test/programs/abort.js', 'everywhere,large,signals'),
  },
  {
    title: 'requests',
    what: 'everything a request can do, the progress modes in turns',
    seconds: 120,
    command: mocha('requests.test', "\\('"),
  },
  {
    title: 'mixed',
    what: "transport 'auto', two ranks on each of two hosts: shared memory, verbs, and TCP beside them",
    seconds: 400,
    // What goes over TCP alone needs no guest: npm test has it.
    command: ['env', 'NBC_TEST_DEVICE=1', ...mocha('mixed.test', 'verbs')],
  },
  {
    title: 'collectives',
    what: 'all collectives on 2, 3 and 5 ranks, which share the variants',
    seconds: 400,
    command: ['env', 'NBC_TEST_RANKS=2,3,5', ...mocha('collectives.test')],
  },
  {
    title: 'sends',
    what: "messages, and all collectives with roots and shapes in turns, on three ranks with verbs.eager 'send'",
    seconds: 90,
    // Each rank of the collectives reports its counters: it has sent.
    command: shell(`
      export NBC_TRANSPORT=verbs NBC_VERBS_EAGER=send
      ranks() { node dist/cli/nbcrun.js -n "$@"; }
      ranks 2 --label out/test/programs/p2p.js order,both || exit
      ranks 3 --label out/test/programs/collectives.js thread once >/tmp/reports || exit
      cat /tmp/reports && test "$(grep -c '"sends":[1-9]' /tmp/reports)" = 3`),
  },
  {
    title: 'breadth',
    what: 'neighbours, persistent requests, layouts, reductions of all types',
    seconds: 200,
    command: shell(`
      export NBC_TRANSPORT=verbs
      ranks() { node dist/cli/nbcrun.js -n "$@"; }
      ranks 4 --label out/test/programs/topologies.js carts,ghosts || exit
      ranks 2 --label out/test/programs/persistent.js operations || exit
      ranks 2 --label out/test/programs/layouts.js operations,messages || exit
      ranks 3 --label out/test/programs/reductions.js`),
  },
  {
    title: 'random',
    what: 'random programs of all operations against the model',
    seconds: 200,
    command: [
      'env',
      'NBC_TEST_RUNS=1',
      ...mocha('property.test', "the default eager limit, crossMemory 'auto'").slice(1),
    ],
  },
  {
    title: 'ucx',
    what: 'UCX over reliable connections of verbs: the fabric by itself, and all collectives on two ranks',
    seconds: 200,
    command: shell(`
      export ${UCX.join(' ')}
      NBC_TEST_BRIEF=1 NBC_TEST_UCX_TLS=$UCX_TLS build/native-test/plain/ucx_test || exit
      NBC_TRANSPORT=ucx node dist/cli/nbcrun.js -n 2 --label out/test/programs/collectives.js thread once`),
  },
  {
    title: 'rc_verbs',
    what: 'only if it is named: UCX over rc_verbs, all that every fabric has to do, and all collectives on two and on three ranks; takes four minutes',
    seconds: 700,
    named: true,
    // Ranks that are named together would share the variants.
    command: shell(`
      env ${UCX.join(' ')} NBC_TEST_UCX_TLS=${UCX_TLS} build/native-test/plain/ucx_test || exit
      for ranks in 2 3; do
        env NBC_TEST_RANKS=$ranks ${mocha('collectives.test', '.', { transport: 'ucx', env: UCX }).join(' ')} || exit
      done`),
  },
  {
    title: 'patterns',
    what: 'request/response patterns over writes and sends: every row of bench/patterns is there and can be true',
    seconds: 180,
    command: ['node', 'out/bench/patterns/patterns.js', '--quick', '--transport', 'verbs'],
  },
];

/** The last step has two guests of its own, which join each other by a network; scripts/guest/pair runs in both. */
const PAIR = {
  title: 'pair',
  what: 'two ranks on each of two guests, which meet through a store',
  seconds: 650,
};

function shell(script) {
  return ['bash', '-c', script];
}

/** A program of test/programs over verbs, with its arguments; options in front of it are nbcrun's. */
function verbs(ranks, ...args) {
  return ['env', 'NBC_TRANSPORT=verbs', 'node', 'dist/cli/nbcrun.js', '-n', `${ranks}`, '--label', ...args];
}

/** Tests of mocha over verbs or another network, each scenario once. */
function mocha(file, pattern = '', { transport = 'verbs', env = [] } = {}) {
  const program = ['node', 'node_modules/mocha/bin/mocha.js', ...MOCHA, '--grep', pattern, `out/test/${file}.js`];
  return ['env', `NBC_TRANSPORT=${transport}`, 'NBC_TEST_BRIEF=1', ...env, ...program];
}

const HELP = `npm run test:verbs [-- TITLE… [--built]]

Boots a kernel with a software RDMA device and runs these steps there, or those whose title contains a TITLE:
${[...STEPS, PAIR].map(({ title, what }) => `  ${title.padEnd(14)} ${what}`).join('\n')}

What each printed stands in build/verbs-results afterwards. scripts/rdma-guest, which see, says what that needs and installs it where it can. --built: npm run build has been done.`;

const args = process.argv.slice(2);
if (args.includes('--help') || args.includes('-h')) {
  console.log(HELP);
} else if (args[0] === '--in-guest') {
  await runSteps(select(args.slice(1)));
} else {
  const titles = args.filter((arg) => arg !== '--built');
  process.exitCode = await bootAndCount(titles, args.length > titles.length);
}

function select(titles) {
  return STEPS.filter((step) => isSelected(step, titles));
}

function isSelected({ title, named = false }, titles) {
  return titles.length === 0 ? !named : titles.some((part) => title.includes(part));
}

/** In the guest: runs the steps, and notes how they ended after each, since the guest can be ended at any time. */
async function runSteps(steps) {
  const ended = [];
  for (const { title, what, seconds, command } of steps) {
    const [program, ...own] = command;
    const [{ ok, how, output }, time] = await timed(() => run(program, own, { group: true, seconds }));
    writeFileSync(join(RESULTS, `${title}.log`), output);
    ended.push({ title, ok });
    writeFileSync(COUNTS, JSON.stringify(ended));
    console.log(`${ok ? 'passed' : 'FAILED'}: ${title}, ${what} (${ok ? time : how})`);
    if (!ok) console.log(output);
  }
}

/** The guest sees what is built here, and could not write it. */
async function buildNative() {
  for (const [variant, programs] of Object.entries(PROGRAMS)) await buildPrograms(variant, programs);
  const { status } = spawnSync('make', ['-s', '-C', 'bench/patterns/native'], { cwd: ROOT, stdio: 'inherit' });
  if (status !== 0) throw new Error('bench/patterns/native did not build');
}

/** On the host. Returns the exit status. */
async function bootAndCount(titles, built) {
  const steps = select(titles);
  const pair = isSelected(PAIR, titles);
  if (steps.length === 0 && !pair) {
    console.error(`no step is called ${titles.join(' or ')}\n\n${HELP}`);
    return 1;
  }
  if (!built) build();
  await buildNative();
  rmSync(RESULTS, { recursive: true, force: true });
  mkdirSync(RESULTS, { recursive: true });

  const one = steps.length > 0 ? inOneGuest(steps, titles) : { passed: 0, failed: 0 };
  const two = pair ? await inTwoGuests() : { passed: 0, failed: 0 };
  console.log(`\n${one.passed + two.passed} passed, ${one.failed + two.failed} failed`);
  return one.failed + two.failed > 0 ? 1 : 0;
}

function inOneGuest(steps, titles) {
  const own = ['node', 'scripts/test-verbs.mjs', '--in-guest', ...titles];
  const guest = ['--link', 'both', '--results', RESULTS, '--timeout', `${LIMIT_SECONDS}`, '--', ...own];
  const { status, signal } = spawnSync(join(ROOT, 'scripts/rdma-guest'), guest, { cwd: ROOT, stdio: 'inherit' });
  if (status !== 0)
    console.log(`scripts/rdma-guest: ${signal === null ? `exit code ${status}` : `ended by ${signal}`}`);

  const ended = existsSync(COUNTS) ? JSON.parse(readFileSync(COUNTS, 'utf8')) : [];
  const passed = ended.filter(({ ok }) => ok).length;
  // A step that was not reached has not passed, and a guest that fails after the last one has failed.
  return { passed, failed: Math.max(steps.length - passed, status === 0 ? 0 : 1) };
}

async function inTwoGuests() {
  const env = { NBC_SECRET: randomBytes(16).toString('hex') };
  const guests = ['--peers', '2', '--timeout', `${LIMIT_SECONDS}`, '--', 'scripts/guest/pair'];
  const how = { live: true, group: true, seconds: PAIR.seconds, env };
  const [ended, time] = await timed(() => run(join(ROOT, 'scripts/rdma-guest'), guests, how));
  console.log(`${ended.ok ? 'passed' : 'FAILED'}: ${PAIR.title}, ${PAIR.what} (${ended.ok ? time : ended.how})`);
  return { passed: ended.ok ? 1 : 0, failed: ended.ok ? 0 : 1 };
}
