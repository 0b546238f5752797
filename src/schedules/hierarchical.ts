/**
 * Collectives on several hosts: inside a host, ranks work with its leader through shared memory; only leaders send
 * messages to other hosts, and each such message has what all ranks of a host have for another one.
 *
 * Source: the design is that of Open MPI's components "hierarch" and "han"; X. Luo et al., "HAN: a Hierarchical
 * AutotuNed Collective Communication Framework", 2020.
 */
import { allgathervLinear, allgathervRing } from './allgather.js';
import { barrierDissemination } from './barrier.js';
import { bcastBinomial, bcastLinear } from './bcast.js';
import { bcastCirculant } from './circulant.js';
import type { ReduceShape } from './combine.js';
import { type AlltoallvShape, exchangeRest, prepareAlltoallv } from './exchange.js';
import { allreduceRabenseifner, reduceRabenseifner } from './halving.js';
import { amongRanks, hostsOf } from './hosts.js';
import { appendPart, type Place } from './part.js';
import { allreduceDoubling, reduceBinomial } from './reduce.js';
import { Role, Schedule } from './schedule.js';
import { type Block, endOf, equalBlocks, type Shape } from './shape.js';

/** Above this many bytes, ranks of a host copy for each other. */
const LINEAR_MAX_BYTES = 32 * 1024;
/** Above this many bytes, what leaders send counts, and not in how many steps. */
const FEW_STEPS_MAX_BYTES = 16 * 1024;
/** With fewer hosts, the root receives no more by a tree than by Rabenseifner's algorithm, which takes more steps. */
const RABENSEIFNER_MIN_HOSTS = 4;
/** With more hosts, leaders send to one neighbour instead of to all of them at once. */
const LINEAR_MAX_HOSTS = 8;

const at = (role: Role, offset = 0): Place => ({ role, offset });
const SAME_PLACES = [at(Role.SEND), at(Role.RECEIVE), at(Role.TEMP)] as const;

/** From the leader to the ranks of its host. */
function appendBcastInside(schedule: Schedule, shape: Shape, ranks: readonly number[], leader: number): Schedule {
  const inside = amongRanks(shape, ranks, leader);
  const part = shape.bytes <= LINEAR_MAX_BYTES ? bcastLinear(inside) : bcastBinomial(inside);
  return appendPart(schedule, part, { ranks, places: SAME_PLACES });
}

/** From the root to the leaders, then inside each host. The root is a leader. */
export function bcastHierarchical(shape: Shape): Schedule {
  const { rank, root } = shape;
  const { leaders, leader, members } = hostsOf(shape, root);
  const schedule = new Schedule();
  if (rank === leader) {
    const between = bcastCirculant(amongRanks(shape, leaders, root));
    appendPart(schedule, between, { ranks: leaders, places: SAME_PLACES });
  }
  return appendBcastInside(schedule, shape, members, leader);
}

/** Inside each host to its leader, then from the leaders to the root, which is one of them. */
export function reduceHierarchical(shape: ReduceShape): Schedule {
  const { rank, root, bytes, inPlace } = shape;
  const { leaders, leader, members } = hostsOf(shape, root);
  const schedule = new Schedule();
  // Other leaders than the root have no receive buffer: the result of their host begins their temporary memory.
  const result = rank === root ? at(Role.RECEIVE) : at(Role.TEMP);
  const temp = at(Role.TEMP, bytes);
  const inside = amongRanks(shape, members, leader);
  appendPart(schedule, reduceBinomial(inside), { ranks: members, places: [at(Role.SEND), result, temp] });
  if (rank !== leader) return schedule;
  const between = { ...amongRanks(shape, leaders, root), inPlace: inPlace || rank === root };
  const fewSteps = bytes <= FEW_STEPS_MAX_BYTES || leaders.length < RABENSEIFNER_MIN_HOSTS;
  const part = fewSteps ? reduceBinomial(between) : reduceRabenseifner(between);
  return appendPart(schedule, part, { ranks: leaders, places: [result, result, temp] });
}

/** Inside each host to its leader, between the leaders, and inside each host again. */
export function allreduceHierarchical(shape: ReduceShape): Schedule {
  const { rank, bytes, inPlace } = shape;
  const { leaders, leader, members } = hostsOf(shape);
  const schedule = new Schedule();
  const own = at(inPlace ? Role.RECEIVE : Role.SEND);
  const places = [own, at(Role.RECEIVE), at(Role.TEMP)] as const;
  appendPart(schedule, reduceBinomial(amongRanks(shape, members, leader)), { ranks: members, places });
  if (rank === leader) {
    const between = { ...amongRanks(shape, leaders), inPlace: true };
    const part = bytes <= FEW_STEPS_MAX_BYTES ? allreduceDoubling(between) : allreduceRabenseifner(between);
    appendPart(schedule, part, { ranks: leaders, places });
  }
  return appendBcastInside(schedule, shape, members, leader);
}

/** The ranks of a host tell its leader, the leaders each other, and each leader the ranks of its host. */
export function barrierHierarchical(shape: Shape): Schedule {
  const { rank } = shape;
  const { leaders, leader, members } = hostsOf(shape);
  const schedule = new Schedule();
  if (rank !== leader) return schedule.send(leader, Role.TEMP, 0, 1).round().recv(leader, Role.TEMP, 1, 1);
  const others = members.filter((member) => member !== rank);
  for (const [index, member] of others.entries()) schedule.recv(member, Role.TEMP, index, 1);
  const temp = at(Role.TEMP, members.length);
  appendPart(schedule, barrierDissemination(amongRanks(shape, leaders)), {
    ranks: leaders,
    places: [temp, temp, temp],
  });
  for (const member of others) schedule.send(member, Role.TEMP, 0, 1);
  return schedule;
}

/**
 * The blocks of a host go to its leader, those of all its ranks in one message to the other leaders, and all blocks
 * from each leader to the ranks of its host. Where the ranks of each host are neighbours, nothing is packed.
 */
export function allgatherHierarchical(shape: Shape): Schedule {
  const { rank, size, bytes, inPlace } = shape;
  const { groups, leaders, own, leader, members } = hostsOf(shape);
  const schedule = new Schedule();
  if (!inPlace) schedule.copy(Role.SEND, 0, Role.RECEIVE, rank * bytes, bytes).round();
  if (rank === leader) {
    for (const member of members) if (member !== rank) schedule.recv(member, Role.RECEIVE, member * bytes, bytes);
    schedule.round();
    const packed = !groups.every((group) => group.at(-1)! - group[0] === group.length - 1);
    const blocks = blocksOfHosts(groups, bytes, packed);
    if (packed) {
      for (const [index, member] of members.entries()) {
        schedule.copy(Role.RECEIVE, member * bytes, Role.TEMP, blocks[own].offset + index * bytes, bytes);
      }
    }
    const between = { ...amongRanks(shape, leaders), blocks, inPlace: true };
    const part = leaders.length <= LINEAR_MAX_HOSTS ? allgathervLinear(between) : allgathervRing(between);
    const place = at(packed ? Role.TEMP : Role.RECEIVE);
    appendPart(schedule, part, { ranks: leaders, places: [place, place, place] });
    if (packed) {
      for (const [host, group] of groups.entries()) {
        for (const [index, member] of group.entries()) {
          schedule.copy(Role.TEMP, blocks[host].offset + index * bytes, Role.RECEIVE, member * bytes, bytes);
        }
      }
    }
  } else {
    schedule.send(leader, Role.RECEIVE, rank * bytes, bytes).round();
  }
  return appendBcastInside(schedule, { ...shape, bytes: size * bytes }, members, leader);
}

/** Where the blocks of all ranks of each host are: at the place of its lowest rank, or packed, host by host. */
function blocksOfHosts(groups: readonly (readonly number[])[], bytes: number, packed: boolean): Block[] {
  let next = 0;
  return groups.map((group) => {
    const offset = (packed ? next : group[0]) * bytes;
    next += group.length;
    return { offset, bytes: group.length * bytes };
  });
}

export function alltoallHierarchical(shape: Shape): Schedule {
  const blocks = equalBlocks(shape);
  return exchangeByLeaders({ ...shape, sendBlocks: blocks, recvBlocks: blocks }, shape.bytes);
}

/** Bytes of a block that travel by the leaders, which know no sizes; what is longer goes straight. */
export const HIERARCHICAL_SLOT_BYTES = 1024;

export function alltoallvHierarchical(shape: AlltoallvShape): Schedule {
  return exchangeByLeaders(shape, HIERARCHICAL_SLOT_BYTES);
}

/**
 * Blocks for ranks of other hosts go in slots of one size, packed by the rank, to its leader; from all ranks of a host
 * to all of another one, packed by the leader, to the leader there; and from that in one message to each rank. Ranks of
 * one host exchange theirs without leaders.
 *
 *     temp:  | in place: saved blocks | slots to send | slots received | at leaders: two areas of messages
 *
 * The first area has one row of slots from each rank of the host, then the messages that come from other leaders; the
 * second one the messages to other leaders, then one row of slots for each rank of the host.
 */
function exchangeByLeaders(shape: AlltoallvShape, slot: number): Schedule {
  const { rank, inPlace, sendBlocks, recvBlocks } = shape;
  const { groups, leaders, leader, members, own } = hostsOf(shape);
  const remote = groups.filter((_, host) => host !== own).flat();
  const row = remote.length * slot;
  const out = inPlace ? endOf(sendBlocks) : 0;
  const into = out + row;
  const [first, second] = [into + row, into + row + members.length * row];
  const slots = { rank, leader, members, row, out, into, first, second };

  const schedule = new Schedule();
  const source = prepareAlltoallv(schedule, shape);
  const near = members.filter((member) => member !== rank);
  for (const peer of near) {
    schedule.recv(peer, Role.RECEIVE, recvBlocks[peer].offset, recvBlocks[peer].bytes);
    schedule.send(peer, source, sendBlocks[peer].offset, sendBlocks[peer].bytes);
  }
  exchangeRest(schedule, shape, source, slot, remote);
  for (const [index, to] of remote.entries()) {
    const { offset, bytes } = sendBlocks[to];
    schedule.copy(source, offset, Role.TEMP, out + index * slot, Math.min(bytes, slot));
  }
  schedule.round();
  if (remote.length === 0) return schedule;
  collectRows(schedule, slots);
  if (rank === leader) {
    const hosts = groups.map((group, host) => ({ peer: leaders[host], count: group.length }));
    exchangeRows(
      schedule,
      slots,
      slot,
      hosts.filter((_, host) => host !== own),
    );
  }
  spreadRows(schedule, slots);
  for (const [index, from] of remote.entries()) {
    const { offset, bytes } = recvBlocks[from];
    schedule.copy(Role.TEMP, into + index * slot, Role.RECEIVE, offset, Math.min(bytes, slot));
  }
  return schedule;
}

/** Between leaders: the slots of all rows for one host become a message, and the one from that host becomes rows. */
function exchangeRows(
  schedule: Schedule,
  { members, row, first, second }: Rows,
  slot: number,
  hosts: readonly { peer: number; count: number }[],
): void {
  let before = 0; // slots of a row
  const messages = hosts.map(({ peer, count }) => {
    const at = before;
    before += count;
    const bytes = count * members.length * slot;
    return { peer, count, inRow: at * slot, offset: at * members.length * slot, bytes };
  });
  for (const { count, inRow, offset } of messages) {
    const rows = { count: members.length, sourceStride: row, targetStride: count * slot };
    schedule.strided(Role.TEMP, first + inRow, Role.TEMP, second + offset, count * slot, [rows]);
  }
  schedule.round();
  for (const { peer, offset, bytes } of messages) {
    schedule.recv(peer, Role.TEMP, first + offset, bytes).send(peer, Role.TEMP, second + offset, bytes);
  }
  schedule.round();
  for (const { count, inRow, offset } of messages) {
    const rows = { count: members.length, sourceStride: slot, targetStride: row };
    const froms = { count, sourceStride: members.length * slot, targetStride: slot };
    schedule.strided(Role.TEMP, first + offset, Role.TEMP, second + inRow, slot, [rows, froms]);
  }
  schedule.round();
}

interface Rows {
  rank: number;
  leader: number;
  members: readonly number[];
  /** Bytes of a row: the slots of one rank for, or from, all ranks of other hosts. */
  row: number;
  out: number;
  into: number;
  first: number;
  second: number;
}

/** Every rank's row goes to its leader, into the first area. */
function collectRows(schedule: Schedule, { rank, leader, members, row, out, first }: Rows): void {
  if (rank !== leader) {
    schedule.send(leader, Role.TEMP, out, row).round();
    return;
  }
  for (const [index, member] of members.entries()) {
    if (member === rank) schedule.copy(Role.TEMP, out, Role.TEMP, first + index * row, row);
    else schedule.recv(member, Role.TEMP, first + index * row, row);
  }
  schedule.round();
}

/** Every rank gets its row from its leader, out of the second area. */
function spreadRows(schedule: Schedule, { rank, leader, members, row, into, second }: Rows): void {
  if (rank !== leader) {
    schedule.recv(leader, Role.TEMP, into, row).round();
    return;
  }
  for (const [index, member] of members.entries()) {
    if (member === rank) schedule.copy(Role.TEMP, second + index * row, Role.TEMP, into, row);
    else schedule.send(member, Role.TEMP, second + index * row, row);
  }
  schedule.round();
}
