/**
 * Ranks that are threads of this process: no launcher. A program calls runRanks() wherever it has something to compute.
 * Here one file is both, the program and the module that the ranks run.
 *
 *     node out/examples/calls/threads.js
 *
 *     sums of squares: 285,285,285,285
 *     rank 2 failed: nothing to do
 */
import { isMainThread } from 'node:worker_threads';
import { type Communicator, RankError, runRanks, SUM } from 'node-nbc';

interface Work {
  numbers: number[];
}

/** What each rank runs: its part of the work, and the sum over all. */
export default async function rank(world: Communicator, { numbers }: Work): Promise<number> {
  if (numbers.length === 0 && world.rank === 2) throw new Error('nothing to do');
  const mine = numbers.filter((_, index) => index % world.size === world.rank);
  const sum = new Float64Array(1);
  await world.iallreduce(Float64Array.of(mine.reduce((all, x) => all + x * x, 0)), sum, SUM);
  return sum[0];
}

if (isMainThread) {
  const numbers = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
  const sums = await runRanks<number, Work>(import.meta.url, { size: 4, data: { numbers } });
  console.log(`sums of squares: ${sums.join()}`);
  try {
    await runRanks(import.meta.url, { size: 4, data: { numbers: [] } });
  } catch (error) {
    if (!(error instanceof RankError)) throw error;
    console.log(`rank ${error.rank} failed: ${(error.cause as Error).message}`);
  }
}
