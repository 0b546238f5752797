/** What exchanges of blocks that have sizes and places of their own share. */
import { Role, type Schedule } from './schedule.js';
import type { Block, Shape } from './shape.js';

/** Where the block for each rank stands, and where the block of each rank goes; in place, both are the same. */
export interface AlltoallvShape extends Shape {
  readonly sendBlocks: readonly Block[];
  readonly recvBlocks: readonly Block[];
}

/** Copies a rank's own block, or saves all blocks; says where the blocks to send are to be read from. */
export function prepareAlltoallv(schedule: Schedule, { rank, inPlace, sendBlocks, recvBlocks }: AlltoallvShape): Role {
  const own = sendBlocks[rank];
  if (!inPlace) {
    schedule.copy(Role.SEND, own.offset, Role.RECEIVE, recvBlocks[rank].offset, own.bytes);
    return Role.SEND;
  }
  for (const { offset, bytes } of sendBlocks) schedule.copy(Role.RECEIVE, offset, Role.TEMP, offset, bytes);
  schedule.round();
  return Role.TEMP;
}

/** Exchanges what of the blocks of these ranks does not fit into slots. */
export function exchangeRest(
  schedule: Schedule,
  { sendBlocks, recvBlocks }: AlltoallvShape,
  source: Role,
  slot: number,
  others: readonly number[],
): void {
  for (const peer of others) {
    const [out, into] = [sendBlocks[peer], recvBlocks[peer]];
    if (into.bytes > slot) schedule.recv(peer, Role.RECEIVE, into.offset + slot, into.bytes - slot);
    if (out.bytes > slot) schedule.send(peer, source, out.offset + slot, out.bytes - slot);
  }
}
