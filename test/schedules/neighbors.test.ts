/** Operations between neighbours on the simulator: every operation, on grids and on random graphs. */
import assert from 'node:assert/strict';
import { NEIGHBOR_OPERATIONS } from 'node-nbc/schedules';
import type { Neighbors } from '../../src/topologies.js';
import { Scattered } from '../layouts.js';
import { graphLists, gridLists, type Lists, randomFrom } from '../lists.js';
import { NEIGHBOR_ORACLES } from '../neighbors.js';
import { withOperator } from '../oracle.js';
import { assertAgrees } from './agree.js';
import { capture } from './captured.js';
import { simulate } from './simulator.js';

const { checkGraph, Grid } = (await import(
  new URL('../../../dist/topologies.js', import.meta.url).href
)) as typeof import('../../src/topologies.js');

const BRIEF = process.env['NBC_TEST_BRIEF'] === '1';

/** Dimensions of one and two ranks, where both neighbours are the same rank, beside longer ones. */
const GRIDS = [[1], [2], [3], [7], [1, 1], [2, 1], [1, 3], [4, 2], [2, 1, 3]];
const GRAPHS = BRIEF ? 20 : 200;
const COUNTS = [0, 1, 5, 40];
/** Of larger layouts, the simulator compares too many blocks. */
const MOST_SCATTERED = 5;

const neighborsOnGrid = (dims: readonly number[], periods: readonly boolean[], ranks: number): Neighbors[] => {
  const grid = new Grid(dims, periods);
  return Array.from({ length: ranks }, (_, rank) => grid.neighbors(rank));
};

describe('operations between neighbours', () => {
  for (const [turn, { name }] of NEIGHBOR_OPERATIONS.entries()) {
    const { listed } = NEIGHBOR_ORACLES[name];
    let number = turn;

    const check = (lists: readonly Lists[], neighbors: readonly Neighbors[], counts: readonly number[]): void => {
      for (const count of counts) {
        for (const gaps of listed ? [false, true] : [false]) {
          number++;
          const c = withOperator({ size: lists.length, root: 0, count, inPlace: false, gaps, lists }, 0);
          // An alltoallw has parts, each of which is a buffer.
          const plain = name === 'ineighborAlltoallw' || count > MOST_SCATTERED || number % 2 === 0;
          const scatter = (length: number, _role: string, rank: number): Scattered | null =>
            plain || (rank + number) % 3 === 0 ? null : new Scattered(length, number + rank);
          assertAgrees(name, c, { neighbors, scatter });
        }
      }
    };

    it(`${name}: on grids, with and without ends`, () => {
      for (const dims of GRIDS) {
        for (let periodic = 0; periodic < 2 ** dims.length; periodic++) {
          const periods = dims.map((_, d) => ((periodic >> d) & 1) === 1);
          const lists = gridLists(dims, periods);
          check(lists, neighborsOnGrid(dims, periods, lists.length), COUNTS);
        }
      }
    });

    it(`${name}: on random graphs`, () => {
      const random = randomFrom(turn);
      for (let graph = 0; graph < GRAPHS; graph++) {
        const lists = graphLists(1 + random(9), random);
        const neighbors = lists.map(({ sources, destinations }, rank) =>
          checkGraph(sources, destinations, lists.length, rank, {}),
        );
        check(lists, neighbors, [random(8)]);
      }
    });
  }
});

/** MPI 4.1, example 8.10: what goes down arrives from above, also where both neighbours are one rank. */
describe('in periodic dimensions of one and two ranks', () => {
  /** What the ranks receive of what each sends: 10 times its rank, and which block it is. */
  const EXPECTED: [dims: number[], received: number[][]][] = [
    [[1], [[1, 0]]],
    [[2], [[11, 10], [1, 0]]], // prettier-ignore
    [[3], [[21, 10], [1, 20], [11, 0]]], // prettier-ignore
    [[1, 1], [[1, 0, 3, 2]]],
    [[2, 1], [[11, 10, 3, 2], [1, 0, 13, 12]]], // prettier-ignore
    [[1, 2], [[1, 0, 13, 12], [11, 10, 3, 2]]], // prettier-ignore
  ];
  const forms: Record<string, (send: Int32Array, recv: Int32Array) => unknown[]> = {
    ineighborAlltoall: (send, recv) => [send, recv],
    ineighborAlltoallv(send, recv) {
      const ones = Array.from(send, () => 1);
      return [send, ones, null, recv, ones, null];
    },
    ineighborAlltoallw(send, recv) {
      const parts = (list: Int32Array): Int32Array[] => Array.from(list, (_, i) => list.subarray(i, i + 1));
      return [parts(send), parts(recv)];
    },
  };
  for (const [dims, received] of EXPECTED) {
    for (const [name, argsOf] of Object.entries(forms)) {
      it(`${name} has blocks in the order of the standard, ${dims.join(' x ')}`, () => {
        const neighbors = neighborsOnGrid(dims, dims.map(() => true), received.length); // prettier-ignore
        const recvs = received.map((blocks) => new Int32Array(blocks.length).fill(-1));
        const states = recvs.map((recv, rank) => {
          const args = argsOf(Int32Array.from(recv, (_, block) => 10 * rank + block), recv); // prettier-ignore
          return capture(name as 'ineighborAlltoall', rank, recvs.length, args, { neighbors });
        });
        simulate(states);
        assert.deepEqual(recvs.map((recv) => [...recv]), received); // prettier-ignore
      });
    }
  }
});
