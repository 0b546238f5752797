/**
 * Latency and bandwidth between two devices: perftest, the engine without JavaScript, and JavaScript, one after the
 * other, round after round. Each side has two processes, bound to processors 0 and 1.
 */
import { readFileSync } from 'node:fs';
import { numbersOf, outputOf } from './perftest.mjs';

/** perftest's, as /proc/net/tcp shows it: 18515. */
const PORT = '4853';
const LISTENS = '0A';

const FULL = { rounds: 5, latency: { 8: 500, 64: 500 }, bandwidth: { 65536: 160, 1048576: 32 } };
const QUICK = { rounds: 1, latency: { 8: 100 }, bandwidth: { 65536: 48 } };

/** Figures are { round, kind: 'latency' | 'bandwidth', bytes, side, value }, in µs or MB/s. Returns what went wrong. */
export async function measureTransfers({ quick, save, say }) {
  const { rounds, ...counts } = quick ? QUICK : FULL;
  const cases = Object.entries(counts).flatMap(([kind, sizes]) =>
    Object.entries(sizes).map(([bytes, count]) => ({ kind, bytes: Number(bytes), count })),
  );
  const sides = { perftest, engine, javascript };
  const names = Object.keys(sides);
  const found = [];
  const failures = [];
  for (let round = 0; round < rounds; round++) {
    for (let i = 0; i < names.length; i++) {
      const side = names[(i + round) % names.length]; // the first side changes from round to round
      say(`transfers, round ${round + 1} of ${rounds}: ${side}`);
      try {
        for (const figure of await sides[side](cases)) found.push({ round, ...figure });
      } catch (error) {
        failures.push(`${side}, round ${round + 1}: ${error.message}`);
      }
      save(found);
    }
  }
  return failures;
}

const engine = async (cases) =>
  figures('engine', await outputOf('build/bench-verbs/transfers', ['rxc', 'rxd', ...cases.map(text)]));

async function javascript(cases) {
  const program = ['-n', '2', '--bind', 'core', 'out/bench/verbs/transfers.js', ...cases.map(text)];
  const env = { NBC_TRANSPORT: 'verbs', NBC_VERBS_DEVICE: 'rxc,rxd' };
  return figures('node-nbc', await outputOf('node', ['dist/cli/nbcrun.js', ...program], env));
}

const text = ({ kind, bytes, count }) => `${kind}:${bytes}:${count}`;

/** Of lines "KIND:BYTES:COUNT VALUE". */
function figures(side, output) {
  return [...output.matchAll(/^(\w+):(\d+):\d+ ([\d.]+)$/gm)].map(([, kind, bytes, value]) => ({
    kind,
    bytes: Number(bytes),
    side,
    value: Number(value),
  }));
}

async function perftest(cases) {
  const found = [];
  for (const { kind, bytes, count } of cases) {
    const programs = kind === 'latency' ? ['ib_write_lat'] : ['ib_send_bw', 'ib_write_bw'];
    for (const side of programs) {
      const row = await pair(side, ['-x', '1', '-F', '-s', `${bytes}`, '-n', `${count}`], bytes);
      const value = kind === 'latency' ? row[4] : (row[3] * 2 ** 20) / 1e6;
      found.push({ kind, bytes, side, value });
    }
  }
  return found;
}

/** Runs both ends of a program of perftest; returns the numbers of the row of this size. */
async function pair(program, args, bytes) {
  const end = (processor, device, ...rest) => ['-c', `${processor}`, program, '-d', device, ...args, ...rest];
  const server = outputOf('taskset', end(1, 'rxd'));
  let ended = false;
  const failure = server.then(
    () => undefined,
    (error) => error,
  );
  failure.then(() => (ended = true));
  while (!ended && !listening()) await new Promise((resolve) => setTimeout(resolve, 20));
  if (ended) throw new Error(`${program} did not listen: ${(await failure)?.message ?? 'it ended'}`);
  const output = await outputOf('taskset', end(0, 'rxc', 'localhost'));
  const wrong = await failure;
  if (wrong) throw new Error(`${program}, server: ${wrong.message}`);
  return numbersOf(program, output, bytes);
}

function listening() {
  return ['tcp', 'tcp6'].some((table) =>
    readFileSync(`/proc/net/${table}`, 'latin1')
      .split('\n')
      .map((line) => line.trim().split(/\s+/))
      .some(([, local, , state]) => local?.endsWith(`:${PORT}`) && state === LISTENS),
  );
}
