/** Topologies: grids, graphs, and what neighbours exchange. */
import assert from 'node:assert/strict';
import { ArgumentError, dimsCreate } from 'node-nbc';
import { BRIEF, playEach, runRanks } from './helpers.js';

describe('dimsCreate', () => {
  const expected: [number, number | number[], number[]][] = [
    [1, 3, [1, 1, 1]],
    [6, 2, [3, 2]],
    [7, 2, [7, 1]],
    [12, 3, [3, 2, 2]],
    [16, 2, [4, 4]],
    [24, 3, [4, 3, 2]],
    [64, 3, [4, 4, 4]],
    [1000, 3, [10, 10, 10]],
    [36, 3, [4, 3, 3]],
    [60, [0, 3, 0], [5, 3, 4]],
    [6, [3, 2], [3, 2]],
    [5, [0], [5]],
    [1023, 2, [33, 31]],
  ];
  for (const [ranks, dimensions, dims] of expected) {
    it(`of ${ranks} ranks, ${JSON.stringify(dimensions)}: ${dims.join(' x ')}`, () =>
      assert.deepEqual(dimsCreate(ranks, dimensions), dims));
  }

  it('always makes a grid of all ranks, in falling order', () => {
    for (let ranks = 1; ranks <= 300; ranks++) {
      for (const dimensions of [1, 2, 3, 4]) {
        const dims = dimsCreate(ranks, dimensions);
        assert.equal(dims.length, dimensions);
        assert.equal(dims.reduce((product, length) => product * length), ranks); // prettier-ignore
        assert.deepEqual([...dims].sort((a, b) => b - a), dims); // prettier-ignore
      }
    }
  });

  const wrong: [string, unknown, unknown][] = [
    ['ranks', 0, 2],
    ['ranks', 1.5, 2],
    ['ranks', '4', 2],
    ['dimensions', 4, 0],
    ['dimensions', 4, -1],
    ['dimensions', 4, 17],
    ['dimensions', 4, []],
    ['dimensions', 4, [3, 0]],
    ['dimensions', 4, [2, 3]],
    ['dimensions', 4, [-2, 0]],
    ['dimensions', 4, 'two'],
  ];
  for (const [argument, ranks, dimensions] of wrong) {
    it(`names ${argument}: ${JSON.stringify([ranks, dimensions])}`, () => {
      assert.throws(
        () => dimsCreate(ranks as never, dimensions as never),
        (error: unknown) => error instanceof ArgumentError && error.argument === argument,
      );
    });
  }
});

describe('communicators with a topology', () => {
  const play = (scenario: string, size: number, env: Record<string, string> = {}) =>
    runRanks('topologies', { size, args: [scenario], env });
  for (const size of BRIEF ? [1, 2, 4] : [1, 2, 3, 4, 6, 8]) {
    playEach(
      [
        [`are grids: coordinates, ranks, shifts and parts, on ${size}`, 'grids', size],
        [`exchange with the neighbours of a grid, on ${size}`, 'carts', size],
        [`exchange with the neighbours of random graphs, on ${size}`, 'graphs', size],
      ],
      play,
    );
  }
  it('exchange without a progress thread, with the eager limit of the paper', () =>
    play('carts,graphs', 4, { NBC_PROGRESS: 'manual', NBC_EAGER_LIMIT: '255' }));
  playEach(
    [
      ['have persistent forms', 'persistent', 4],
      ['exchange ghost layers within one array', 'ghosts', 4],
      ['have parts in one ArrayBuffer, or in many', 'memories', 3],
      ['end where memory to receive into was transferred meanwhile', 'transferred', 3],
      ['refuse wrong arguments, and graphs and grids that do not fit together', 'mistakes', 3],
    ],
    play,
  );
});
