/** The schedule that a call on a communicator would run: everything that start does, but for native code. */
import { Communicator, NeighborCommunicator, type NeighborOperationName } from 'node-nbc';
import {
  decodeSchedule,
  type DecodedSchedule,
  NEIGHBOR_OPERATIONS,
  OPERATIONS,
  type OperationName,
} from 'node-nbc/schedules';
import type { Neighbors } from '../../src/topologies.js';

const { PlanCache } = (await import(
  new URL('../../../dist/plans.js', import.meta.url).href
)) as typeof import('../../src/plans.js');

export interface Captured {
  schedule: DecodedSchedule;
  /** All bytes of the memory that native code would be given, whatever view of it that is. */
  send: Uint8Array | null;
  receive: Uint8Array | null;
}

export interface Options {
  /** Default: the one that the operation chooses. */
  algorithm?: string | undefined;
  /** The host of each rank. */
  hosts?: readonly number[] | undefined;
  /** Whether ranks share processors. */
  crowded?: boolean | undefined;
  /** The neighbours of each rank, on a communicator that has some. */
  neighbors?: readonly Neighbors[] | undefined;
}

const bytesOf = (view: ArrayBufferView | null): Uint8Array | null =>
  view && new Uint8Array(view.buffer, view.byteOffset, view.byteLength);

/** What a rank starts. */
export function capture(
  name: OperationName | NeighborOperationName,
  rank: number,
  size: number,
  args: readonly unknown[],
  { algorithm, hosts, crowded = false, neighbors }: Options = {},
): Captured {
  let schedule: DecodedSchedule | undefined;
  let buffers: Pick<Captured, 'send' | 'receive'> | undefined;
  const native = {
    compile(_communicator: number, words: Uint32Array): number {
      schedule = decodeSchedule(words);
      return 0;
    },
    start(_plan: number, _slot: number, send: ArrayBufferView | null, receive: ArrayBufferView | null): boolean {
      buffers = { send: bytesOf(send), receive: bytesOf(receive) };
      return true;
    },
  };
  const { prototype } = neighbors === undefined ? Communicator : NeighborCommunicator;
  const communicator = Object.create(prototype) as Record<string, (...given: unknown[]) => unknown>;
  const [plans, neighborPlans]: Record<string, unknown>[] = [{}, {}];
  Object.assign(communicator, {
    rank,
    size,
    hosts,
    crowded,
    handle: 0,
    members: new Uint32Array(size),
    world: { rank, native, nextSlot: 0, startedComplete: () => undefined },
    plans,
    neighborPlans,
    neighbors: neighbors?.[rank],
  });
  for (const operation of OPERATIONS) plans[operation.name] = new PlanCache(communicator as never, operation as never);
  for (const operation of NEIGHBOR_OPERATIONS) {
    neighborPlans[operation.name] = new PlanCache(communicator as never, operation as never);
  }
  communicator[name](...args, ...(algorithm === undefined ? [] : [{ algorithm }]));
  if (schedule === undefined || buffers === undefined) throw new Error(`${name} started nothing`);
  return { schedule, ...buffers };
}
