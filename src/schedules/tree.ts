/**
 * The binomial tree that ibcast and igather share.
 *
 * Ranks are renumbered so that the root is 0 (*virtual* ranks). The parent of v is v without its lowest set bit; its
 * children are v + 1, v + 2, v + 4, … below that bit, as far as they exist. The subtree under a child c = v + 2^k
 * covers the virtual ranks c … c + 2^k − 1, cut off at the number of ranks: a contiguous range, which is what makes a
 * gather cheap.
 *
 *     size 8:   0 ── 1
 *               ├─── 2 ── 3
 *               └─── 4 ── 5
 *                    └─── 6 ── 7
 */

/** A subtree: virtual rank of its top, and how many virtual ranks from there on it covers. */
export interface Subtree {
  virtual: number;
  count: number;
}

/** Rank as seen from the root: the root is 0. */
export function toVirtual(rank: number, root: number, size: number): number {
  return (rank - root + size) % size;
}

/** The rank behind a virtual rank. */
export function fromVirtual(virtual: number, root: number, size: number): number {
  return (virtual + root) % size;
}

/** Virtual rank of the parent of `virtual` (which is not the root). */
export function parentOf(virtual: number): number {
  return virtual & (virtual - 1);
}

/** The subtrees under `virtual`, smallest first. */
export function childrenOf(virtual: number, size: number): Subtree[] {
  const children: Subtree[] = [];
  for (let bit = 1; virtual + bit < size && (virtual & bit) === 0; bit *= 2) {
    const child = virtual + bit;
    children.push({ virtual: child, count: Math.min(bit, size - child) });
  }
  return children;
}
