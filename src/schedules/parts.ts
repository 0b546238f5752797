/**
 * Exchanges of parts: of boxes that lie anywhere, each with a peer of its own. All-to-alls with a layout for each rank,
 * and exchanges with neighbours.
 *
 * A contiguous part is sent from and received into its place. Any other is packed before, or unpacked after:
 *
 *     round 0    packs what is sent
 *     round 1    all messages; copies from a rank to itself
 *     round 2    unpacks what was received
 *
 * Source: MPI 4.1, 6.8 (MPI_ALLTOALLW) and 8.6 (neighborhood collectives).
 */
import { type Box, bytesOfBox } from './box.js';
import { pack, unpack } from './layout.js';
import { Role, Schedule } from './schedule.js';

export interface Edge {
  readonly peer: number;
  readonly box: Box;
}

/**
 * The schedule of a rank. What it sends to itself it receives in the same order, with the same sizes.
 *
 * @param from where the parts to send are
 * @param save the parts to send are overwritten by those received: all are packed
 */
export function exchangeParts(
  rank: number,
  sends: readonly Edge[],
  recvs: readonly Edge[],
  from: Role,
  save = false,
): Schedule {
  const schedule = new Schedule();
  let temporary = 0;
  const take = (box: Box): number => (temporary += bytesOfBox(box)) - bytesOfBox(box);

  const sources = sends.map(({ peer, box }) => {
    if (!save && box.steps.length === 0) return { peer, role: from, offset: box.offset, bytes: box.block };
    const at = take(box);
    pack(schedule, from, box, at);
    return { peer, role: Role.TEMP, offset: at, bytes: bytesOfBox(box) };
  });
  schedule.round();

  const own = sources.filter(({ peer }) => peer === rank);
  const arrivals: { at: number; box: Box }[] = [];
  for (const { peer, box } of recvs) {
    const direct = box.steps.length === 0;
    const [role, offset] = direct ? [Role.RECEIVE, box.offset] : [Role.TEMP, take(box)];
    if (!direct) arrivals.push({ at: offset, box });
    const bytes = bytesOfBox(box);
    if (peer === rank) {
      const source = own.shift()!;
      schedule.copy(source.role, source.offset, role, offset, bytes);
    } else schedule.recv(peer, role, offset, bytes);
  }
  for (const { peer, role, offset, bytes } of sources) if (peer !== rank) schedule.send(peer, role, offset, bytes);
  schedule.round();

  for (const { at, box } of arrivals) unpack(schedule, at, Role.RECEIVE, box);
  return schedule;
}
