/**
 * Solves a system of equations on several ranks, one of which is lost at a random moment; the others go on without it:
 *
 *   nbcrun -n 4 --on-failure=continue out/examples/survivor/main.js [seed] [side]
 *
 * README.md says how.
 */
import assert from 'node:assert/strict';
import { type Communicator, init, NbcError } from 'node-nbc';
import { Checkpoints } from './checkpoints.js';
import { firstRow, largestResidual } from './rows.js';
import { begin, iterate, type State } from './solver.js';

const EVERY = 10; // iterations from a checkpoint to the next
const ACCURACY = 1e-9;
const [seed = String(Date.now() % 1000), side = '48'] = process.argv.slice(2);
const SIDE = Number(side);

const world = await init();
// All ranks know who will be lost, and when; they act as if they did not.
const victim = Number(seed) % world.size;
const moment = 12 + ((Number(seed) * 7) % 60);

const checkpoints = new Checkpoints();
let communicator: Communicator = world;
let restored: number | undefined;
let solution: Float64Array | undefined;
for (;;) {
  try {
    solution = await solve(communicator);
  } catch (error) {
    if (!(error instanceof NbcError)) throw error;
    solution = undefined;
    communicator.revoke(); // ranks that wait for this one come here, too
  }
  // A rank may have its result where another one has failed.
  const { value: all } = await communicator.agree(solution === undefined ? 0 : 1);
  if (all === 1) break;
  communicator = await communicator.shrink();
}

const residual = largestResidual(solution!, SIDE);
assert(residual < 10 * ACCURACY, `largest residual ${residual}`);
if (communicator.rank === 0) {
  const lost = world.size - communicator.size;
  const went = restored === undefined ? '' : `, which went on from the checkpoint of iteration ${restored}`;
  console.log(`${SIDE * SIDE} equations solved by ${communicator.size} ranks${went}; ${lost} lost; verified`);
}
await world.close();

/** The solution, on every rank. After a failure it goes on from the last checkpoint. */
async function solve(comm: Communicator): Promise<Float64Array> {
  const state = comm === world ? await begin(comm, SIDE) : await checkpoints.restore(comm, SIDE);
  if (comm !== world) restored = state.iteration;
  while (Math.sqrt(state.squared) > ACCURACY) {
    if (state.iteration % EVERY === 0) await checkpoints.take(comm, state);
    if (comm === world && comm.rank === victim && state.iteration === moment) process.kill(process.pid, 'SIGKILL');
    await iterate(comm, state, SIDE);
  }
  return gathered(comm, state);
}

async function gathered(comm: Communicator, state: State): Promise<Float64Array> {
  const all = new Float64Array(SIDE * SIDE);
  const first = Array.from({ length: comm.size + 1 }, (_, rank) => firstRow(rank, comm.size, SIDE) * SIDE);
  const counts = first.slice(1).map((next, rank) => next - first[rank]);
  await comm.iallgatherv(state.solution, all, counts, null);
  return all;
}
