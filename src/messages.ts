/** Messages that are schedules: in both directions at once, or with a layout. */
import { ArgumentError, type ErrorContext } from './errors.js';
import type { Data } from './layouts.js';
import { checkData, type Checked } from './operations/operation.js';
import { Layouts, type Owner, PlanStore } from './plans.js';
import { Role, Schedule } from './schedules/schedule.js';
import { overlap } from './views.js';

/** One direction of an exchange. */
export interface End {
  /** What the documentation calls the buffer. */
  readonly argument: string;
  readonly data: Data;
  readonly peer: number;
  readonly tag: number;
}

/** Plans of messages on one communicator. */
export class MessagePlans {
  private readonly plans: PlanStore;

  constructor(private readonly owner: Owner) {
    this.plans = new PlanStore(owner, true);
  }

  /**
   * The plan that sends, receives, or does both.
   * @throws {ArgumentError} for buffers that cannot take part, or that overlap
   */
  find(operation: string, send: End | null, recv: End | null): number {
    const context = { operation, rank: this.owner.world.rank };
    const out = check(send, false, context);
    const into = check(recv, true, context);
    if (out !== null && into !== null && overlap(out.view, into.view)) {
      throw new ArgumentError(recv!.argument, 'overlaps send in memory; use two buffers', context);
    }
    const layouts = new Layouts(send?.data, recv?.data);
    const key = [send?.peer, out?.bytes, recv?.peer, into?.bytes, layouts.detail].join(' ');
    const found = this.plans.get(key);
    if (found !== undefined) return found;
    const schedule = new Schedule();
    if (recv !== null) schedule.recv(recv.peer, Role.RECEIVE, 0, into!.bytes);
    if (send !== null) schedule.send(send.peer, Role.SEND, 0, out!.bytes);
    return this.plans.add(key, layouts.apply(schedule), operation);
  }

  release(): void {
    this.plans.release();
  }
}

function check(end: End | null, written: boolean, context: ErrorContext): Checked | null {
  return end === null ? null : checkData(end.data, end.argument, written, context);
}
