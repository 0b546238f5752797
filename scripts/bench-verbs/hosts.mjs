/**
 * Half a round trip between two guests, which both run this: perftest's, and nbcbench's over verbs and over TCP, one
 * after the other, round after round. Each side has one process in each guest, bound to processor 1: the other one
 * serves the network.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { numbersOf, outputOf } from './perftest.mjs';

const FIRST = '10.7.2.1';
const STORE_PORT = 7100;
const PROCESSOR = '1';
/** The first guest's server may not be there yet. */
const ATTEMPTS = 60;

const FULL = { rounds: 5, sizes: [8, 65536], count: 200 };
const QUICK = { rounds: 1, sizes: [8], count: 50 };

/**
 * On the first guest figures are { round, kind: 'latency', bytes, side, value }, in µs; on the other there are none.
 * Returns what went wrong.
 */
export async function measureHosts({ quick, save, say }) {
  const { rounds, sizes, count } = quick ? QUICK : FULL;
  const leads = process.env.NBC_GUEST === '1';
  const sides = {
    ib_write_lat: () => perftest(leads, sizes, count),
    verbs: (round) => nbcbench('verbs', STORE_PORT + 2 * round, leads, sizes, count),
    tcp: (round) => nbcbench('tcp', STORE_PORT + 2 * round + 1, leads, sizes, count),
  };
  const names = Object.keys(sides);
  const found = [];
  for (let round = 0; round < rounds; round++) {
    for (let i = 0; i < names.length; i++) {
      const side = names[(i + round) % names.length]; // the first side changes from round to round
      if (leads) say(`hosts, round ${round + 1} of ${rounds}: ${side}`);
      try {
        for (const figure of await sides[side](round)) found.push({ round, kind: 'latency', side, ...figure });
      } catch (error) {
        // The guests take the same steps: what fails in one leaves the other alone.
        return [`${side}, round ${round + 1}: ${error.message}`];
      }
      if (leads) save(found);
    }
  }
  return [];
}

async function perftest(leads, sizes, count) {
  const found = [];
  for (const bytes of sizes) {
    const args = ['-c', PROCESSOR, 'ib_write_lat', '-d', 'rxe0', '-x', '1', '-F', '-s', `${bytes}`, '-n', `${count}`];
    const output = leads ? await outputOf('taskset', args) : await connected([...args, FIRST]);
    found.push({ bytes, value: numbersOf('ib_write_lat', output, bytes)[4] });
  }
  return found;
}

async function connected(args) {
  for (let attempt = 1; ; attempt++) {
    try {
      return await outputOf('taskset', args);
    } catch (error) {
      if (attempt === ATTEMPTS) throw error;
      await delay(500);
    }
  }
}

async function nbcbench(transport, port, leads, sizes, count) {
  const env = {
    NBC_TRANSPORT: transport,
    NBC_STORE: `${FIRST}:${port}`,
    NBC_SIZE: '2',
    NBC_RANK: leads ? '0' : '1',
  };
  const what = ['pingpong', '--join', '--sizes', sizes.join(), '--repetitions', `${count}`, '--json', '-'];
  const command = ['-c', PROCESSOR, 'node', 'dist/bench/nbcbench/main.js', ...what];
  const output = await outputOf('taskset', command, env);
  if (!leads) return [];
  const rows = JSON.parse(output.slice(output.indexOf('\n[\n') + 1));
  return rows.map(({ bytes, round_trip_us }) => ({ bytes, value: round_trip_us / 2 }));
}
