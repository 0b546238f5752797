/**
 * Topologies: which ranks are neighbours. Pure arithmetic, and what ranks tell each other when they make one.
 *
 * Source: MPI 4.1, chapter 8.
 */
import { ArgumentError, type ErrorContext, show } from './errors.js';
import { type Op, MAX } from './operators.js';

/** The neighbours of a rank, in the order of its blocks; null: there is none, and its block is left alone. */
export interface Neighbors {
  readonly sources: readonly (number | null)[];
  readonly destinations: readonly (number | null)[];
  /**
   * Indices of `sources`, in the order in which messages of one rank match: where a rank is there twice, its first
   * message goes to the one that comes first here.
   */
  readonly order: readonly number[];
}

/** Ranks in a grid, the last dimension fastest. */
export class Grid {
  readonly ranks: number;

  constructor(
    readonly dims: readonly number[],
    readonly periods: readonly boolean[],
  ) {
    this.ranks = dims.reduce((product, length) => product * length, 1);
  }

  coords(rank: number): number[] {
    const coords: number[] = [];
    for (const length of this.dims.toReversed()) {
      coords.unshift(rank % length);
      rank = Math.floor(rank / length);
    }
    return coords;
  }

  /** The rank at these coordinates, which wrap round in periodic dimensions; null: outside. */
  rankAt(coords: readonly number[]): number | null {
    let rank = 0;
    for (const [dimension, length] of this.dims.entries()) {
      let at = coords[dimension];
      if (this.periods[dimension]) at = ((at % length) + length) % length;
      if (at < 0 || at >= length) return null;
      rank = rank * length + at;
    }
    return rank;
  }

  /** The grid of some of the dimensions. */
  only(keep: readonly boolean[]): Grid {
    const kept = <T>(list: readonly T[]): T[] => list.filter((_, dimension) => keep[dimension]);
    return new Grid(kept(this.dims), kept(this.periods));
  }

  /** The rank that is `displacement` away in a dimension. */
  moved(rank: number, dimension: number, displacement: number): number | null {
    const coords = this.coords(rank);
    coords[dimension] += displacement;
    return this.rankAt(coords);
  }

  /**
   * For each dimension the lower neighbour, then the upper one. Where both are the same rank, what it sends down
   * arrives from above: MPI 4.1, 8.6 and example 8.10.
   */
  neighbors(rank: number): Neighbors {
    const list = this.dims.flatMap((_, dimension) => [this.moved(rank, dimension, -1), this.moved(rank, dimension, 1)]);
    return { sources: list, destinations: list, order: this.dims.flatMap((_, d) => [2 * d + 1, 2 * d]) };
  }
}

/**
 * Chooses a grid for a number of ranks, with sides as equal as can be, longest first.
 *
 * @param dimensions how many; or the lengths, of which those that are 0 are chosen
 * @throws {ArgumentError} if the given lengths do not divide `ranks`
 *
 * Source: MPI_Dims_create.
 */
export function dimsCreate(ranks: number, dimensions: number | readonly number[]): number[] {
  const context = { operation: 'dimsCreate' };
  if (!Number.isSafeInteger(ranks) || ranks < 1) {
    throw new ArgumentError('ranks', `must be a whole number from 1 on, not ${show(ranks)}`, context);
  }
  const given: unknown =
    typeof dimensions === 'number' && isCount(dimensions) && dimensions <= MAX_CART_DIMENSIONS
      ? new Array<number>(dimensions).fill(0)
      : dimensions;
  if (!Array.isArray(given) || given.length === 0 || given.length > MAX_CART_DIMENSIONS || !given.every(isCount)) {
    const message = `must be a number of dimensions, 1 to ${MAX_CART_DIMENSIONS}, or an array of whole numbers from 0 on`;
    throw new ArgumentError('dimensions', `${message}, not ${show(dimensions)}`, context);
  }
  const dims = [...(given as number[])];
  const rest = ranks / dims.reduce((product, length) => product * (length === 0 ? 1 : length), 1);
  const free = dims.filter((length) => length === 0).length;
  if (!Number.isInteger(rest) || (free === 0 && rest !== 1)) {
    throw new ArgumentError('dimensions', `${show(dims)} cannot be a grid of ${ranks} ranks`, context);
  }
  const chosen = balanced(rest, free);
  return dims.map((length) => (length === 0 ? chosen.shift()! : length));
}

/** Cuts a number into factors, the largest of which is as small as can be, and so on; in falling order. */
function balanced(product: number, factors: number, most = product): number[] {
  if (factors === 0) return [];
  if (factors === 1) return [product];
  let largest = Math.max(1, Math.floor(Math.round(product ** (1 / factors) * 1e9) / 1e9));
  while (largest ** factors < product) largest++;
  for (; largest <= most; largest++) {
    if (product % largest !== 0) continue;
    const others = balanced(product / largest, factors - 1, largest);
    if (others.every((factor) => factor <= largest)) return [largest, ...others];
  }
  return [product, ...new Array<number>(factors - 1).fill(1)];
}

const MAX_CART_DIMENSIONS = 16;

function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/** @throws {ArgumentError} naming `dims` or `periods` */
export function checkGrid(dims: unknown, periods: unknown, ranks: number, context: ErrorContext): Grid {
  if (
    !Array.isArray(dims) ||
    dims.length === 0 ||
    dims.length > MAX_CART_DIMENSIONS ||
    !dims.every((n) => isCount(n) && n > 0)
  ) {
    const message = `must be an array of 1 to ${MAX_CART_DIMENSIONS} whole numbers from 1 on, not ${show(dims)}`;
    throw new ArgumentError('dims', message, context);
  }
  const wraps: unknown = periods ?? dims.map(() => false);
  if (!Array.isArray(wraps) || wraps.length !== dims.length || !wraps.every((value) => typeof value === 'boolean')) {
    throw new ArgumentError(
      'periods',
      `must have true or false for each of ${dims.length} dimensions, not ${show(wraps)}`,
      context,
    );
  }
  const grid = new Grid([...(dims as number[])], [...wraps]);
  if (grid.ranks > ranks) {
    throw new ArgumentError('dims', `make ${grid.ranks} ranks of a communicator that has ${ranks}`, context);
  }
  return grid;
}

/** @throws {ArgumentError} naming `sources` or `destinations` */
export function checkGraph(
  sources: unknown,
  destinations: unknown,
  ranks: number,
  rank: number,
  context: ErrorContext,
): Neighbors {
  const [from, to] = Object.entries({ sources, destinations }).map(([name, list]) => {
    if (!Array.isArray(list)) throw new ArgumentError(name, `must be an array of ranks, not ${show(list)}`, context);
    const wrong = list.findIndex((peer) => !isCount(peer) || peer >= ranks);
    if (wrong >= 0) {
      throw new ArgumentError(name, `[${wrong}] must be a rank, 0 to ${ranks - 1}, not ${show(list[wrong])}`, context);
    }
    return [...(list as number[])];
  });
  const own = (list: readonly number[]): number => list.filter((peer) => peer === rank).length;
  if (own(from) !== own(to)) {
    throw new ArgumentError(
      'destinations',
      `has its own rank ${own(to)} times, and sources ${own(from)} times`,
      context,
    );
  }
  return { sources: from, destinations: to, order: from.map((_, index) => index) };
}

/** What making a topology needs of the control communicator. */
export interface Agreeing {
  readonly rank: number;
  readonly size: number;
  ialltoall(send: ArrayBufferView, recv: ArrayBufferView): PromiseLike<void>;
  iallreduce(send: ArrayBufferView, recv: ArrayBufferView, op: Op): PromiseLike<void>;
}

/** Whether no rank objects. Collective. */
async function nobodyObjects(control: Agreeing, objects: boolean): Promise<boolean> {
  const any = new Uint8Array(1);
  await control.iallreduce(Uint8Array.of(objects ? 1 : 0), any, MAX);
  return any[0] === 0;
}

/** Why the grids of the ranks cannot be one; null: they are equal. The same on all ranks. Collective. */
export async function disagreementOnGrid(
  control: Agreeing,
  { dims, periods }: Grid,
  context: ErrorContext,
): Promise<ArgumentError | null> {
  // The largest of a number and the largest of its complement: they belong together only if all ranks have the same.
  const own = new Uint32Array(2 * (1 + 2 * MAX_CART_DIMENSIONS)).fill(~0);
  [dims.length, ...dims, ...periods.map(Number)].forEach((value, index) => {
    own[2 * index] = value;
    own[2 * index + 1] = ~value;
  });
  const all = new Uint32Array(own.length);
  await control.iallreduce(own, all, MAX);
  for (let index = 0; index < 1 + 2 * dims.length; index++) {
    if (all[2 * index] === ~all[2 * index + 1] >>> 0) continue;
    return new ArgumentError('dims', 'or periods differ from those of another rank', context);
  }
  return null;
}

/** Why the lists of the ranks do not fit together; null: they do. An error on all ranks, or on none. Collective. */
export async function disagreementOnGraph(
  control: Agreeing,
  { sources, destinations }: Neighbors,
  context: ErrorContext,
): Promise<ArgumentError | null> {
  const count = (list: readonly (number | null)[]): Uint32Array => {
    const times = new Uint32Array(control.size);
    for (const peer of list) times[peer!]++;
    return times;
  };
  const named = new Uint32Array(control.size);
  await control.ialltoall(count(destinations), named);
  const expected = count(sources);
  const peer = named.findIndex((times, index) => times !== expected[index]);
  const agreed = await nobodyObjects(control, peer >= 0);
  if (peer >= 0) {
    const message = `has rank ${peer} ${expected[peer]} times, and that rank has this one ${named[peer]} times in its destinations`;
    return new ArgumentError('sources', message, context);
  }
  return agreed ? null : new ArgumentError('sources', 'and destinations of other ranks do not fit together', context);
}
