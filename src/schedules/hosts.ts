/**
 * The ranks of each host, and one of them that speaks for all: its *leader*. Algorithms in which only leaders reach
 * other hosts are built from this.
 */
import type { Shape } from './shape.js';

export interface Hosts {
  /** The ranks of each host, in their order; hosts in the order of their lowest ranks. */
  readonly groups: readonly (readonly number[])[];
  /** The leader of each host: its lowest rank, or the root. */
  readonly leaders: readonly number[];
  /** Which of the hosts is the rank's own. */
  readonly own: number;
  /** The ranks of the own host. */
  readonly members: readonly number[];
  readonly leader: number;
}

/** The hosts as a rank sees them. Where hosts are not known, all ranks are on one. */
export function hostsOf({ rank, size, hosts }: Shape, root?: number): Hosts {
  const byHost = new Map<number, number[]>();
  for (let member = 0; member < size; member++) {
    const host = hosts?.[member] ?? 0;
    const group = byHost.get(host);
    if (group === undefined) byHost.set(host, [member]);
    else group.push(member);
  }
  const groups = [...byHost.values()];
  const leaders = groups.map((group) => (root !== undefined && group.includes(root) ? root : group[0]));
  const own = groups.findIndex((group) => group.includes(rank));
  return { groups, leaders, own, members: groups[own], leader: leaders[own] };
}

/** Whether there are several hosts, and one of them has several ranks: the same on all ranks. */
export function spansHosts({ size, hosts }: Shape): boolean {
  if (hosts === undefined) return false;
  const count = new Set(hosts).size;
  return count > 1 && count < size;
}

/** The shape of an operation of some of the ranks. The rank must be one of them. */
export function amongRanks<S extends Shape>(shape: S, ranks: readonly number[], root = ranks[0]): S {
  return { ...shape, rank: ranks.indexOf(shape.rank), size: ranks.length, root: ranks.indexOf(root), hosts: undefined };
}
