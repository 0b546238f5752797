/**
 * Allgathers: a block of every rank to every rank, in the order of the ranks. With `inPlace` a rank's own block stands
 * at its place in the receive buffer.
 *
 * Source: MPI 4.1, 6.7 (MPI_ALLGATHER, MPI_ALLGATHERV).
 */
import { Role, Schedule } from './schedule.js';
import { type Block, equalBlocks, type Shape } from './shape.js';

/** Where the block of each rank goes. */
export interface AllgathervShape extends Shape {
  readonly blocks: readonly Block[];
}

/** Begins with the rank's own block at its place. */
function begin({ rank, inPlace, blocks }: AllgathervShape): Schedule {
  const schedule = new Schedule();
  if (inPlace) return schedule;
  return schedule.copy(Role.SEND, 0, Role.RECEIVE, blocks[rank].offset, blocks[rank].bytes).round();
}

/** Every rank sends its block to every rank, all at once. */
export function allgathervLinear(shape: AllgathervShape): Schedule {
  const { rank, size, blocks } = shape;
  const schedule = begin(shape);
  for (let distance = 1; distance < size; distance++) {
    const [from, to] = [(rank - distance + size) % size, (rank + distance) % size];
    schedule.recv(from, Role.RECEIVE, blocks[from].offset, blocks[from].bytes);
    schedule.send(to, Role.RECEIVE, blocks[rank].offset, blocks[rank].bytes);
  }
  return schedule;
}

/** Blocks travel round the ring: in every step a rank sends the block on that it received last. */
export function allgathervRing(shape: AllgathervShape): Schedule {
  const { rank, size, blocks } = shape;
  const schedule = begin(shape);
  const [previous, next] = [(rank - 1 + size) % size, (rank + 1) % size];
  for (let step = 0; step < size - 1; step++) {
    const [out, into] = [blocks[(rank - step + size) % size], blocks[(rank - step - 1 + size) % size]];
    schedule.send(next, Role.RECEIVE, out.offset, out.bytes);
    schedule.recv(previous, Role.RECEIVE, into.offset, into.bytes).round();
  }
  return schedule;
}

export function allgatherLinear(shape: Shape): Schedule {
  return allgathervLinear({ ...shape, blocks: equalBlocks(shape) });
}

export function allgatherRing(shape: Shape): Schedule {
  return allgathervRing({ ...shape, blocks: equalBlocks(shape) });
}

/**
 * Recursive doubling: in step k, groups of 2^k ranks exchange all that they have with the group beside them. Needs a
 * power of two; for other numbers of ranks this is Bruck's algorithm, which takes as many steps as the next power.
 */
export function allgatherDoubling(shape: Shape): Schedule {
  const { rank, size, bytes } = shape;
  if ((size & (size - 1)) !== 0) return allgatherBruck(shape);
  const schedule = begin({ ...shape, blocks: equalBlocks(shape) });
  for (let group = 1; group < size; group *= 2) {
    const peer = rank ^ group;
    const [own, other] = [rank & -group, peer & -group];
    schedule.send(peer, Role.RECEIVE, own * bytes, group * bytes);
    schedule.recv(peer, Role.RECEIVE, other * bytes, group * bytes).round();
  }
  return schedule;
}

/**
 * Bruck: temporary memory holds the blocks of rank, rank + 1, …; in step k a rank sends the first 2^k of them to rank −
 * 2^k, or as many as are missing there, and appends those of rank + 2^k. In the end they are copied to their places.
 */
export function allgathervBruck({ rank, size, inPlace, blocks }: AllgathervShape): Schedule {
  const schedule = new Schedule();
  const { offset, bytes } = blocks[rank];
  if (inPlace) schedule.copy(Role.RECEIVE, offset, Role.TEMP, 0, bytes).round();
  else schedule.copy(Role.SEND, 0, Role.TEMP, 0, bytes).round();
  const order = (index: number): Block => blocks[(rank + index) % size];
  /** Where the block of an index stands in temporary memory of this rank, also for `size`. */
  const starts = [0];
  for (let index = 0; index < size; index++) starts.push(starts[index] + order(index).bytes);
  for (let have = 1; have < size; have *= 2) {
    const count = Math.min(have, size - have);
    schedule.send((rank - have + size) % size, Role.TEMP, 0, starts[count]);
    schedule.recv((rank + have) % size, Role.TEMP, starts[have], starts[have + count] - starts[have]).round();
  }
  // Blocks that are neighbours here and there are one copy.
  for (let from = 0, to = 1; from < size; from = to++) {
    const target = order(from).offset;
    while (to < size && order(to).offset - target === starts[to] - starts[from]) to++;
    schedule.copy(Role.TEMP, starts[from], Role.RECEIVE, target, starts[to] - starts[from]);
  }
  return schedule;
}

export function allgatherBruck(shape: Shape): Schedule {
  return allgathervBruck({ ...shape, blocks: equalBlocks(shape) });
}

/**
 * Neighbour exchange: a rank exchanges its block with one neighbour, then in turns with the other and the first the two
 * blocks that came last. Needs an even number of ranks; for an odd one this is the ring.
 */
export function allgatherNeighbor(shape: Shape): Schedule {
  const { rank, size, bytes } = shape;
  if (size % 2 === 1) return allgatherRing(shape);
  const schedule = begin({ ...shape, blocks: equalBlocks(shape) });
  const even = rank % 2 === 0;
  const right = (rank + 1) % size;
  const left = (rank - 1 + size) % size;
  const neighbors = even ? [right, left] : [left, right];
  schedule.send(neighbors[0], Role.RECEIVE, rank * bytes, bytes);
  schedule.recv(neighbors[0], Role.RECEIVE, neighbors[0] * bytes, bytes).round();

  // The pair that a rank sends next, and where the pairs of its two neighbours begin.
  const pair = even ? rank : left;
  const from = [pair, pair];
  let out = pair;
  for (let step = 1; step < size / 2; step++) {
    const turn = step % 2;
    const away = (turn === 0) === even ? 2 : -2;
    from[turn] = (from[turn] + away + size) % size;
    schedule.send(neighbors[turn], Role.RECEIVE, out * bytes, 2 * bytes);
    schedule.recv(neighbors[turn], Role.RECEIVE, from[turn] * bytes, 2 * bytes).round();
    out = from[turn];
  }
  return schedule;
}
