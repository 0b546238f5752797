/** The schedule that a call on a communicator would run: everything that start does, but for native code. */
import { Communicator } from 'node-nbc';
import { decodeSchedule, type DecodedSchedule, OPERATIONS, type OperationName } from 'node-nbc/schedules';

const { PlanCache } = (await import(
  new URL('../../../dist/plans.js', import.meta.url).href
)) as typeof import('../../src/plans.js');

export interface Captured {
  schedule: DecodedSchedule;
  send: ArrayBufferView | null;
  receive: ArrayBufferView | null;
}

/** What a rank starts. `algorithm` undefined: the one that the operation chooses; `hosts`: of each rank. */
export function capture(
  name: OperationName,
  rank: number,
  size: number,
  args: readonly unknown[],
  algorithm?: string,
  hosts?: readonly number[],
): Captured {
  let schedule: DecodedSchedule | undefined;
  let buffers: Pick<Captured, 'send' | 'receive'> | undefined;
  const native = {
    compile(_communicator: number, words: Uint32Array): number {
      schedule = decodeSchedule(words);
      return 0;
    },
    start(_plan: number, _slot: number, send: ArrayBufferView | null, receive: ArrayBufferView | null): boolean {
      buffers = { send, receive };
      return true;
    },
  };
  const communicator = Object.create(Communicator.prototype) as Communicator;
  const plans: Record<string, unknown> = {};
  Object.assign(communicator, {
    rank,
    size,
    hosts,
    handle: 0,
    members: new Uint32Array(size),
    world: { rank, native, nextSlot: 0 },
    plans,
  });
  for (const operation of OPERATIONS) plans[operation.name] = new PlanCache(communicator as never, operation as never);
  const start = communicator[name].bind(communicator) as (...given: unknown[]) => unknown;
  start(...args, ...(algorithm === undefined ? [] : [{ algorithm }]));
  if (schedule === undefined || buffers === undefined) throw new Error(`${name} started nothing`);
  return { schedule, ...buffers };
}
