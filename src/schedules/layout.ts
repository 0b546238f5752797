/** Schedules on buffers with a layout: the same schedule on packed copies of them, which the engine makes. */
import { bytesOfBox, type Box } from './box.js';
import { decodeSchedule, Role, Schedule, type ScheduleElement } from './schedule.js';

/** Packs a box: from a buffer into temporary memory. */
export function pack(schedule: Schedule, role: Role, box: Box, at: number): Schedule {
  return schedule.strided(role, box.offset, Role.TEMP, at, box.block, dimensionsOf(box, 'source'));
}

/** Unpacks a box: from temporary memory into a buffer. */
export function unpack(schedule: Schedule, at: number, role: Role, box: Box): Schedule {
  return schedule.strided(Role.TEMP, at, role, box.offset, box.block, dimensionsOf(box, 'target'));
}

function dimensionsOf(
  { block, steps }: Box,
  side: 'source' | 'target',
): { count: number; sourceStride: number; targetStride: number }[] {
  let inner = block;
  return steps
    .toReversed()
    .map(({ count, stride }) => {
      const packed = inner;
      inner *= count;
      return side === 'source'
        ? { count, sourceStride: stride, targetStride: packed }
        : { count, sourceStride: packed, targetStride: stride };
    })
    .reverse();
}

/** Where packed copies begin in temporary memory: in a cache line of their own. */
const ALIGNMENT = 64;
const aligned = (bytes: number): number => Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;

/**
 * The schedule, on buffers of which some have a layout: their packed copies stand in temporary memory, behind what the
 * schedule itself has there. The receive buffer is packed first only where the schedule needs what it holds.
 *
 * @param send the layout of the send buffer, or null
 * @param recv the layout of the receive buffer, or null
 */
export function withLayouts(schedule: Schedule, send: Box | null, recv: Box | null): Schedule {
  const { rounds, tempBytes } = decodeSchedule(schedule.encode());
  const sendAt = aligned(tempBytes);
  const recvAt = aligned(sendAt + (send === null ? 0 : bytesOfBox(send)));
  const result = new Schedule();
  if (send !== null && rounds.flat().some((element) => readsOf(element).some(({ role }) => role === Role.SEND))) {
    pack(result, Role.SEND, send, sendAt);
  }
  if (recv !== null && !overwrites(rounds, bytesOfBox(recv))) pack(result, Role.RECEIVE, recv, recvAt);
  result.round();
  const move = (role: Role, offset: number): [Role, number] => {
    if (role === Role.SEND && send !== null) return [Role.TEMP, sendAt + offset];
    if (role === Role.RECEIVE && recv !== null) return [Role.TEMP, recvAt + offset];
    return [role, offset];
  };
  for (const round of rounds) {
    for (const element of round) repeat(result, element, move);
    result.round();
  }
  if (recv !== null && rounds.flat().some((element) => writeOf(element)?.role === Role.RECEIVE)) {
    unpack(result, recvAt, Role.RECEIVE, recv);
  }
  return result;
}

/** Appends an element whose buffers are elsewhere. */
function repeat(
  schedule: Schedule,
  element: ScheduleElement,
  move: (role: Role, offset: number) => [Role, number],
): void {
  if (element.kind === 'send') {
    schedule.send(element.peer, ...move(element.role, element.offset), element.bytes);
    return;
  }
  if (element.kind === 'recv') {
    schedule.recv(element.peer, ...move(element.role, element.offset), element.bytes);
    return;
  }
  const source = move(element.sourceRole, element.sourceOffset);
  const target = move(element.targetRole, element.targetOffset);
  if (element.kind === 'copy') schedule.copy(...source, ...target, element.bytes);
  else if (element.kind === 'strided') schedule.strided(...source, ...target, element.blockBytes, element.dimensions);
  else {
    const { operator, type, order, bytes } = element;
    schedule.reduce(operator, type, ...source, ...target, bytes, order);
  }
}

interface Range {
  role: Role;
  start: number;
  end: number;
}

const range = (role: Role, start: number, bytes: number): Range => ({ role, start, end: start + bytes });

function readsOf(element: ScheduleElement): Range[] {
  if (element.kind === 'recv') return [];
  if (element.kind === 'send') return [range(element.role, element.offset, element.bytes)];
  const { sourceRole, sourceOffset, targetRole, targetOffset } = element;
  if (element.kind === 'strided') return [range(sourceRole, sourceOffset, Infinity)];
  const source = range(sourceRole, sourceOffset, element.bytes);
  return element.kind === 'copy' ? [source] : [source, range(targetRole, targetOffset, element.bytes)];
}

/** What an element is sure to write completely; of a strided copy, nothing. */
function writeOf(element: ScheduleElement): Range | null {
  if (element.kind === 'send') return null;
  if (element.kind === 'recv') return range(element.role, element.offset, element.bytes);
  const { targetRole, targetOffset } = element;
  return range(targetRole, targetOffset, element.kind === 'strided' ? 0 : element.bytes);
}

/** Whether a schedule writes all `bytes` of the receive buffer, and reads none that no earlier round has written. */
function overwrites(rounds: readonly ScheduleElement[][], bytes: number): boolean {
  let written: Range[] = [];
  const isWritten = (start: number, end: number): boolean =>
    start >= end || written.some((known) => known.start <= start && end <= known.end);
  for (const round of rounds) {
    const reads = round.flatMap(readsOf).filter(({ role, start, end }) => role === Role.RECEIVE && start < end);
    if (!reads.every(({ start, end }) => isWritten(start, end))) return false;
    const writes = round.map(writeOf).filter((write) => write?.role === Role.RECEIVE) as Range[];
    written = joined([...written, ...writes]);
  }
  return isWritten(0, bytes);
}

/** Ranges in order, those that touch as one. */
function joined(ranges: Range[]): Range[] {
  const result: Range[] = [];
  for (const next of ranges.sort((a, b) => a.start - b.start)) {
    const last = result.at(-1);
    if (last !== undefined && next.start <= last.end) last.end = Math.max(last.end, next.end);
    else result.push({ ...next });
  }
  return result;
}
