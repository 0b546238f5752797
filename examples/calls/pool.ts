/**
 * Threads that are kept for many short runs: createRankPool(). A run that fails does not harm the next one. As in
 * threads.ts, one file is both the program and the module that the ranks run.
 *
 *     node out/examples/calls/pool.js
 *
 *     the sum of 10 numbers is 45
 *     a run without numbers fails: ERR_NBC_RANK_FAILED
 *     the sum of 1000 numbers is 499500
 */
import { isMainThread } from 'node:worker_threads';
import { type Communicator, createRankPool, RankError, SUM } from 'node-nbc';

export default async function rank(world: Communicator, count: number): Promise<number> {
  if (count === 0) throw new RangeError('no numbers');
  let mine = 0;
  for (let number = world.rank; number < count; number += world.size) mine += number;
  const sum = new Float64Array(1);
  await world.iallreduce(Float64Array.of(mine), sum, SUM);
  return sum[0];
}

if (isMainThread) {
  const pool = createRankPool({ size: 3 });
  for (const count of [10, 0, 1000]) {
    try {
      const [sum] = await pool.run<number, number>(import.meta.url, { data: count });
      console.log(`the sum of ${count} numbers is ${sum}`);
    } catch (error) {
      if (!(error instanceof RankError)) throw error;
      console.log(`a run without numbers fails: ${error.code}`);
    }
  }
  await pool.close();
}
