/**
 * Random collectives, round after round, while chaos.test.ts kills, stops and resumes ranks. `chaos SEED ROUNDS`.
 *
 * Every request has to settle: fulfilled, and then the result is right, or with an NbcError. A rank whose request has
 * failed stops; that it lost a peer is an end as good as any. `report` says how many were right, and why it ended.
 */
import assert from 'node:assert/strict';
import { init, NbcError, type Request } from 'node-nbc';
import { OPERATIONS } from 'node-nbc/schedules';
import { arrange, contribution, ORACLES, withOperator } from '../oracle.js';
import { generator } from '../support/random.js';
import { assertBytes, piece } from './noise.js';
import { report, say } from './scenario.js';

const [seed, rounds] = process.argv.slice(2).map(Number);
const random = generator(seed);
const below = (limit: number): number => Math.floor(random() * limit);
const BYTES = [0, 1, 8, 200, 256, 1000, 4096, 20_000, 100_000, 400_000];
/** Of a whole buffer, where each block is twice as long: a piece of noise is as long as that. */
const MOST_BYTES = 1_500_000;
/** Collectives that are pending at a time. */
const OVERLAPPING = 3;

const world = await init({ progress: random() < 0.5 ? 'thread' : 'manual', timeout: 0 });
const { rank, size } = world;
let right = 0;
let ended = 'done';
say('joined');

/** Starts a collective; its check comes when it is complete. */
function start(number: number): { request: Request; check: () => void } {
  const operation = OPERATIONS[below(OPERATIONS.length)];
  const oracle = ORACLES[operation.name];
  const count = Math.min(BYTES[below(BYTES.length)], Math.floor(MOST_BYTES / size));
  const c = withOperator({ size, root: below(size), count, inPlace: random() < 0.3, gaps: false }, below(99));
  const run = { ...c, inPlace: c.inPlace && oracle.inPlace };
  const part = arrange(oracle, run, rank, (length) => new Uint8Array(length));
  const own = contribution(oracle, run, rank, part);
  own?.set(piece(number, rank, 0, own.length));
  const expected = part.recv?.slice();
  const lengthOf = (from: number): number => oracle.send(run, from) ?? oracle.recv(run, from)!;
  if (expected !== undefined) oracle.result(run, rank, (from) => piece(number, from, 0, lengthOf(from)), expected);
  const method = world[operation.name].bind(world) as (...args: unknown[]) => Request;
  const check = (): void => {
    if (expected !== undefined) assertBytes(part.recv!, expected, `${operation.name} ${number}, rank ${rank}`);
    right++;
  };
  return { request: method(...part.args), check };
}

for (let round = 0; round < rounds && ended === 'done'; round++) {
  try {
    const flights = Array.from({ length: OVERLAPPING }, (_, index) => start(round * OVERLAPPING + index));
    // All of them settle, also those behind one that has failed.
    const ends = await Promise.allSettled(flights.map(async ({ request }) => request));
    for (const [index, end] of ends.entries()) {
      assert(flights[index].request.done, 'what has settled is done');
      if (end.status === 'fulfilled') flights[index].check();
      else throw end.reason;
    }
  } catch (error) {
    if (!(error instanceof NbcError)) throw error;
    ended = error.code;
    say(error.message);
  }
}
try {
  await world.close();
} catch (error) {
  if (!(error instanceof NbcError)) throw error;
}
report({ right, ended });
