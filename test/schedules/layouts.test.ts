/** Every operation and algorithm on buffers with layouts, in the simulator; and what plans with layouts look like. */
import assert from 'node:assert/strict';
import { strided } from 'node-nbc';
import { describeElement, OPERATIONS, type OperationName, Role, Schedule } from 'node-nbc/schedules';
import { Scattered } from '../layouts.js';
import { arrange, type Case, contribution, ORACLES, ranksOf, withOperator } from '../oracle.js';
import { capture } from './captured.js';
import { simulate } from './simulator.js';

/** Bytes that differ by rank and place. */
const fill = (bytes: Uint8Array, seed: number): Uint8Array => bytes.map((_, i) => (i * 7 + seed * 31 + (i >> 8)) & 255);

function check(name: OperationName, given: Omit<Case, 'op'>, algorithm: string | undefined, number: number): void {
  const c = withOperator(given, number);
  const oracle = ORACLES[name];
  const parts = ranksOf(c).map((rank) => {
    // Some of the buffers are plain.
    const scattered = new Map<Uint8Array, Scattered>();
    const part = arrange(oracle, c, rank, (length, role) => {
      const bytes = fill(new Uint8Array(length), 1000 + rank);
      if ((rank + number + (role === 'send' ? 1 : 0)) % 3 > 0)
        scattered.set(bytes, new Scattered(length, number + rank));
      return bytes;
    });
    const own = contribution(oracle, c, rank, part);
    own?.set(fill(own, 1 + rank));
    for (const [bytes, memory] of scattered) memory.write(bytes);
    const args = part.args.map((arg) => scattered.get(arg as Uint8Array)?.layout ?? arg);
    return { ...part, args, scattered, input: own?.slice() };
  });
  const expected = parts.map(({ recv }, rank) => {
    if (recv === null) return null;
    const result = recv.slice();
    oracle.result(c, rank, (from) => parts[from].input!, result);
    return result;
  });
  const sent = parts.map(({ send }) => send?.slice());
  simulate(
    parts.map(({ args }, rank) => {
      const { schedule, send, receive } = capture(name, rank, c.size, args, algorithm);
      return { schedule, send: send as Uint8Array | null, receive: receive as Uint8Array | null };
    }),
  );
  for (const [rank, { send, recv, scattered }] of parts.entries()) {
    const what = `${name}, ${algorithm ?? 'chosen'}, rank ${rank}: ${JSON.stringify(given)}`;
    const now = (buffer: Uint8Array): Uint8Array => scattered.get(buffer)?.read() ?? buffer;
    if (recv !== null) assert.deepEqual(now(recv), expected[rank]!, what);
    if (send !== null) assert.deepEqual(now(send), sent[rank]!, `${what}: the send buffer`);
    for (const memory of scattered.values()) memory.assertBetween(what);
  }
}

const both = (possible: boolean): boolean[] => (possible ? [false, true] : [false]);

describe('layouts', () => {
  for (const { name, algorithms } of OPERATIONS) {
    // ialltoallw has a layout for each rank: tests of its own.
    if (name === 'ibarrier' || (name as string) === 'ialltoallw') continue;
    it(`go wherever ${name} takes a buffer`, () => {
      let number = 0;
      const { rooted, inPlace: places, listed } = ORACLES[name];
      for (const algorithm of [undefined, ...algorithms.map((row) => row.name)]) {
        for (const inPlace of both(places)) {
          for (const gaps of both(listed)) {
            for (const size of [1, 2, 3, 5]) {
              for (const root of rooted ? [0, size - 1] : [0]) {
                for (const count of [0, 1, 6, 40])
                  check(name, { size, root, count, inPlace, gaps }, algorithm, number++);
              }
            }
          }
        }
      }
    }).timeout(60_000);
  }

  const elementsOf = (name: OperationName, args: unknown[]): string[] =>
    capture(name, 0, 2, args).schedule.rounds.flat().map(describeElement);
  const matrix = new Float64Array(12);
  const column = strided(matrix, { shape: [4], strides: [3], offset: 1 });

  it('that are contiguous cost nothing: the plan is that of a plain view', () => {
    const rows = strided(matrix, { shape: [2, 3], strides: [3, 1], offset: 3 });
    assert.deepEqual(elementsOf('ibcast', [rows, 0]), elementsOf('ibcast', [new Float64Array(6), 0]));
  });

  it('of a receive buffer are not packed where all of it is overwritten', () => {
    const strides = elementsOf('iallgather', [new Float64Array(2), column]).filter((text) => text.includes('×'));
    assert.equal(strides.length, 1);
    assert.match(strides[0], /from temp\S* to receive/);
  });

  it('of a receive buffer are packed first where some of it stays', () => {
    const args = [new Float64Array(1), column, [1, 1], [0, 2]];
    const strides = elementsOf('iallgatherv', args).filter((text) => text.includes('×'));
    assert.equal(strides.length, 2);
    assert.match(strides[0], /from receive\S* to temp/);
  });

  it('that a rank only reads are not written', () => {
    const strides = elementsOf('ibcast', [column, 0]).filter((text) => text.includes('×'));
    assert.equal(strides.length, 1);
    assert.match(strides[0], /from receive\S* to temp/);
  });

  it('describe a strided copy as the builder has it', () => {
    const [text] = elementsOf('igather', [column, null, 1]);
    const same = new Schedule().strided(Role.SEND, 0, Role.TEMP, 0, 8, [
      { count: 4, sourceStride: 24, targetStride: 8 },
    ]);
    assert.match(same.describe(), new RegExp(text.replace(/[+×()]/g, '.')));
  });
});
