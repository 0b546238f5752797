#!/usr/bin/env node
/**
 * `npm run bench:verbs`: boots a kernel with two software RDMA devices that are joined by a link (scripts/rdma-guest),
 * measures there, and prints the figures as tables in Markdown. This script is on both sides: here it builds, boots and
 * prints; in the guest, where it is started with --in-guest, it measures. bench/METHOD.md says what and how.
 */
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { measureHosts } from './bench-verbs/hosts.mjs';
import { measureOverlap } from './bench-verbs/overlap.mjs';
import { tables } from './bench-verbs/tables.mjs';
import { measureTransfers } from './bench-verbs/transfers.mjs';
import { measureUcx } from './bench-verbs/ucx.mjs';
import { build } from './build.mjs';
import { ROOT, timed } from './test/process.mjs';

const RESULTS = join(ROOT, 'build/bench-verbs-results');

/** Each writes what it found to RESULTS/TITLE.json, again and again as it gets on, and returns what went wrong. */
const PARTS = { transfers: measureTransfers, overlap: measureOverlap, ucx: measureUcx, hosts: measureHosts };
/** Who runs which parts, with how much time for all of them. */
const GUESTS = [
  { parts: ['transfers', 'overlap'], options: ['--link', 'both'], seconds: 470 },
  { parts: ['ucx'], options: ['--link', 'both'], seconds: 600 },
  { parts: ['hosts'], options: ['--peers', '2'], seconds: 900 },
];

const HELP = `Usage: npm run bench:verbs -- [options] [${Object.keys(PARTS).join('|')}]

Boots a kernel with two software RDMA devices, rxc and rxd, that are joined by a link, and measures two ranks on them:
  transfers   latency and bandwidth from JavaScript and of the engine alone, beside perftest's, in turns
  overlap     overhead and overlap of ibcast, igather and ialltoall with 0, 1 and 10 ms of delay on the link
  ucx         operations over verbs and TCP, and over UCX on the same devices
  hosts       half a round trip between two such kernels, over verbs and TCP, beside perftest's

Prints tables in Markdown. Takes up to half an hour; the machine should have nothing else to do.

Options:
  --quick        few repetitions and sizes: shows that it works
  --json <file>  also write all figures as JSON (always in build/bench-verbs-results)
  -h, --help     display this`;

let values, positionals;
try {
  ({ values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      quick: { type: 'boolean', default: false },
      json: { type: 'string' },
      'in-guest': { type: 'boolean' },
      help: { type: 'boolean', short: 'h' },
    },
  }));
  const unknown = positionals.find((title) => !(title in PARTS));
  if (unknown !== undefined) throw new Error(`there is no part ${unknown}`);
} catch (error) {
  console.error(`${error.message}\n\n${HELP}`);
  process.exit(2);
}
const chosen = Object.keys(PARTS).filter((title) => positionals.length === 0 || positionals.includes(title));

if (values.help) {
  console.log(HELP);
} else if (values['in-guest']) {
  process.exitCode = await measure();
} else {
  process.exitCode = bootAndPrint();
}

/** In the guest. */
async function measure() {
  hurryPackets();
  let well = true;
  for (const title of chosen) {
    const save = (found) => writeFileSync(join(RESULTS, `${title}.json`), JSON.stringify(found));
    const [failures, time] = await timed(() => PARTS[title]({ quick: values.quick, save, say }));
    say(`${title}: ${time}`);
    for (const failure of failures) say(`FAILED: ${title}: ${failure}`);
    well &&= failures.length === 0;
  }
  return well ? 0 : 1;
}

/**
 * A software device does a card's work in threads of the kernel, ksoftirqd. Beside processes that poll, these get their
 * turn at the next tick of the scheduler, 4 ms, or not, as it happens. With a real-time priority they run at once, as a
 * card would, for all implementations.
 */
function hurryPackets() {
  const script = 'for thread in $(pgrep -x "ksoftirqd/[0-9]+"); do chrt --fifo --pid 1 $thread || exit; done';
  const { status, stderr } = spawnSync('bash', ['-c', script], { encoding: 'utf8' });
  if (status !== 0) say(`ksoftirqd keeps its priority; expect figures that jump by 4 ms: ${stderr.trim()}`);
}

function say(text) {
  process.stderr.write(`${text}\n`);
}

/** On the host. Returns the exit status. */
function bootAndPrint() {
  build();
  if (chosen.includes('transfers')) {
    const made = spawnSync('make', ['-s', '-C', 'bench/verbs/native'], { cwd: ROOT, stdio: 'inherit' });
    if (made.status !== 0) return 1;
  }
  rmSync(RESULTS, { recursive: true, force: true });
  mkdirSync(RESULTS, { recursive: true });

  let well = true;
  for (const { parts, options, seconds } of GUESTS) {
    const titles = parts.filter((title) => chosen.includes(title));
    if (titles.length === 0) continue;
    const own = ['node', 'scripts/bench-verbs.mjs', '--in-guest', ...(values.quick ? ['--quick'] : []), ...titles];
    const guest = [...options, '--results', RESULTS, '--timeout', `${seconds}`, '--', ...own];
    // Ranks of two guests prove to each other that they belong together.
    const env = { ...process.env, NBC_SECRET: randomBytes(16).toString('hex') };
    const { status, signal } = spawnSync(join(ROOT, 'scripts/rdma-guest'), guest, { cwd: ROOT, env, stdio: 'inherit' });
    if (status !== 0) say(`bench:verbs: not everything was measured (${signal ?? `exit code ${status}`}); this was:`);
    well &&= status === 0;
  }

  const found = {};
  for (const title of chosen) {
    const file = join(RESULTS, `${title}.json`);
    if (existsSync(file)) found[title] = JSON.parse(readFileSync(file, 'utf8'));
  }
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(found, null, 2)}\n`);
  console.log(tables(found));
  return well ? 0 : 1;
}
