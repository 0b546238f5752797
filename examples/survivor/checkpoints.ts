/**
 * Checkpoints in memory. Each rank keeps its own state and that of the rank before it, the last two of each: a rank may
 * end while others have the new checkpoint already. So one rank of two neighbours may be lost.
 */
import { type Communicator, MAX, MIN } from 'node-nbc';
import { firstRow } from './rows.js';
import type { State } from './solver.js';

const KEPT = 2;

export class Checkpoints {
  #own: State[] = [];
  #ofOther: State[] = [];

  /** Collective. */
  async take(communicator: Communicator, state: State): Promise<void> {
    const { rank, size, values } = communicator;
    const copy = structuredClone(state);
    const sent = values.send(copy, (rank + 1) % size, 1);
    const other = (await values.recv((rank + size - 1) % size, 1)) as State;
    await sent;
    this.#own = [...this.#own, copy].slice(-KEPT);
    this.#ofOther = [...this.#ofOther, other].slice(-KEPT);
  }

  /**
   * Collective, on a communicator of the ranks that are left: the state of the rows that this rank has from now on, at
   * the last checkpoint that all have. All states go to all ranks here, since they are small.
   */
  async restore(communicator: Communicator, side: number): Promise<State> {
    const { rank, size } = communicator;
    const iteration = await this.#lastCommon(communicator);
    const kept = [...this.#own, ...this.#ofOther].filter((state) => state.iteration === iteration);
    const all = (await communicator.values.allgather(kept)).flat();
    const first = firstRow(rank, size, side);
    const count = firstRow(rank + 1, size, side) - first;
    const cut = (vector: 'solution' | 'residual' | 'direction'): Float64Array => {
      const whole = new Float64Array(side * side).fill(NaN);
      for (const state of all) whole.set(state[vector], state.firstRow * side);
      return whole.slice(first * side, (first + count) * side);
    };
    const vectors = { solution: cut('solution'), residual: cut('residual'), direction: cut('direction') };
    if (vectors.solution.some(Number.isNaN)) throw new Error('two neighbours are lost, and their rows with them');
    // From here on only these rows count.
    this.#own = [];
    this.#ofOther = [];
    return { iteration, firstRow: first, squared: all[0].squared, ...vectors };
  }

  /** Ranks are at most one checkpoint apart. */
  async #lastCommon(communicator: Communicator): Promise<number> {
    const newest = new Int32Array(1);
    await communicator.iallreduce(Int32Array.of(this.#own.at(-1)!.iteration), newest, MIN);
    const oldest = new Int32Array(1);
    await communicator.iallreduce(Int32Array.of(this.#own[0].iteration), oldest, MAX);
    if (oldest[0] > newest[0]) throw new Error('no checkpoint is on all ranks');
    return newest[0];
  }
}
