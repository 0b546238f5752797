/** Conjugate gradients on the rows of this rank. After each iteration the state is a few vectors and numbers. */
import { type Communicator, SUM } from 'node-nbc';
import { add, dot, firstRow, multiply, source } from './rows.js';

/** What a rank must know to go on: for its rows, one behind the other, solution, residual and direction. */
export interface State {
  iteration: number;
  firstRow: number;
  solution: Float64Array;
  residual: Float64Array;
  direction: Float64Array;
  /** The square of the residual's length, of all ranks. */
  squared: number;
}

/** Before the first iteration: the solution is 0. */
export async function begin(communicator: Communicator, side: number): Promise<State> {
  const { rank, size } = communicator;
  const first = firstRow(rank, size, side);
  const count = (firstRow(rank + 1, size, side) - first) * side;
  const residual = Float64Array.from({ length: count }, (_, at) => source(first + Math.floor(at / side), at % side));
  const squared = await sumOf(communicator, dot(residual, residual));
  const direction = residual.slice();
  return { iteration: 0, firstRow: first, solution: new Float64Array(count), residual, direction, squared };
}

/** One iteration. The state is the next one when this has resolved; if it rejects, the state is of no use. */
export async function iterate(communicator: Communicator, state: State, side: number): Promise<void> {
  const { solution, residual, direction } = state;
  const product = new Float64Array(direction.length);
  multiply(await withNeighbours(communicator, direction, side), product, side);
  const step = state.squared / (await sumOf(communicator, dot(direction, product)));
  add(solution, step, direction);
  add(residual, -step, product);
  const squared = await sumOf(communicator, dot(residual, residual));
  const share = squared / state.squared;
  for (let i = 0; i < direction.length; i++) direction[i] = residual[i] + share * direction[i];
  state.squared = squared;
  state.iteration++;
}

/** The rows of this rank between the last row of the rank before and the first row of the rank behind. */
async function withNeighbours(communicator: Communicator, rows: Float64Array, side: number): Promise<Float64Array> {
  const { rank, size } = communicator;
  const vector = new Float64Array(rows.length + 2 * side);
  vector.set(rows, side);
  const requests = [];
  if (rank > 0) {
    requests.push(communicator.irecv(vector.subarray(0, side), rank - 1, 1));
    requests.push(communicator.isend(rows.subarray(0, side), rank - 1, 2));
  }
  if (rank < size - 1) {
    requests.push(communicator.irecv(vector.subarray(-side), rank + 1, 2));
    requests.push(communicator.isend(rows.subarray(-side), rank + 1, 1));
  }
  for (const request of requests) await request;
  return vector;
}

async function sumOf(communicator: Communicator, value: number): Promise<number> {
  const sum = new Float64Array(1);
  await communicator.iallreduce(Float64Array.of(value), sum, SUM);
  return sum[0];
}
