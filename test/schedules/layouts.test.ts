/** Every operation and algorithm on buffers with layouts, in the simulator; and what plans with layouts look like. */
import assert from 'node:assert/strict';
import { strided } from 'node-nbc';
import { describeElement, OPERATIONS, type OperationName, Role, Schedule } from 'node-nbc/schedules';
import { Scattered } from '../layouts.js';
import { type Case, ORACLES, withOperator } from '../oracle.js';
import { assertAgrees } from './agree.js';
import { capture } from './captured.js';

/** Every third buffer is plain. */
function check(name: OperationName, c: Omit<Case, 'op'>, algorithm: string | undefined, number: number): void {
  assertAgrees(name, withOperator(c, number), {
    algorithm,
    scatter: (length, role, rank) =>
      (rank + number + (role === 'send' ? 1 : 0)) % 3 > 0 ? new Scattered(length, number + rank) : null,
  });
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
    });
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
