/** Who the neighbours of each rank are, in grids and graphs: by the text of the standard, without the library. */

/** The neighbours of a rank. */
export interface Lists {
  readonly sources: readonly (number | null)[];
  readonly destinations: readonly (number | null)[];
  /** For each source: which entry of that rank's destinations its message is. */
  readonly entries: readonly (number | null)[];
}

/** Those of a graph, which has no ends. */
export interface GraphLists extends Lists {
  readonly sources: readonly number[];
  readonly destinations: readonly number[];
}

/** Of all ranks of a grid, the last dimension fastest: the lower neighbour of each dimension, then the upper one. */
export function gridLists(dims: readonly number[], periods: readonly boolean[]): Lists[] {
  const ranks = dims.reduce((product, length) => product * length, 1);
  const strides = dims.map((_, d) => dims.slice(d + 1).reduce((product, length) => product * length, 1));
  const moved = (from: number, d: number, by: number): number | null => {
    const at = Math.floor(from / strides[d]) % dims[d];
    if (!periods[d] && (at + by < 0 || at + by >= dims[d])) return null;
    return from + (((at + by + dims[d]) % dims[d]) - at) * strides[d];
  };
  return Array.from({ length: ranks }, (_, from) => {
    const list = dims.flatMap((__, d) => [moved(from, d, -1), moved(from, d, 1)]);
    // What comes from below was sent up, and the other way round: MPI 4.1, example 8.10.
    const entries = dims.flatMap((__, d) => [2 * d + 1, 2 * d]);
    return { sources: list, destinations: list, entries };
  });
}

/**
 * Of so many ranks, with edges at random: double ones, to oneself, ranks with none. Each rank has its lists in an order
 * of its own; the k-th edge to a rank is the k-th one from it there.
 */
export function graphLists(size: number, random: (below: number) => number): GraphLists[] {
  const destinations: number[][] = Array.from({ length: size }, () => []);
  for (let edges = random(4 * size); edges > 0; edges--) destinations[random(size)].push(random(size));
  return destinations.map((own, to) => {
    const sources = destinations.flatMap((list, from) => list.filter((rank) => rank === to).map(() => from));
    for (let i = sources.length - 1; i > 0; i--) {
      const j = random(i + 1);
      [sources[i], sources[j]] = [sources[j], sources[i]];
    }
    const entries = sources.map((from, index) => {
      const before = sources.slice(0, index).filter((earlier) => earlier === from).length;
      return destinations[from].flatMap((rank, entry) => (rank === to ? [entry] : []))[before];
    });
    return { sources, destinations: own, entries };
  });
}

/** Numbers from 0 to `below` that are the same on all ranks. */
export function randomFrom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}
