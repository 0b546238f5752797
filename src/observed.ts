/**
 * The channel `node-nbc:operation` of diagnostics_channel: tells of operations while somebody has subscribed, and costs
 * one look at `hasSubscribers` for each otherwise.
 *
 * Subscribers are the user's code. So they run where an operation is started, or in a microtask, and never while
 * requests are being settled.
 */
import { channel } from 'node:diagnostics_channel';
import type { NbcError } from './errors.js';

/** What the channel `node-nbc:operation` carries: once when an operation was started, and once when it has ended. */
export interface OperationEvent {
  /** The method: `'iallreduce'`. */
  readonly operation: string;
  /** This rank, in the world. */
  readonly rank: number;
  /** When the call that started it returned, as `performance.now()` has it. */
  readonly start: number;
  /** When the program learned that it had ended; undefined: it has not. */
  readonly end?: number;
  /** Why it failed. */
  readonly error?: NbcError;
}

const operations = channel('node-nbc:operation');

/** What is told of one world. */
export class Observed {
  /** Pending operations whose start was told. */
  private readonly running = new Map<object, OperationEvent>();
  /** Ends that have not been told yet. */
  private ended: OperationEvent[] = [];

  constructor(private readonly rank: number) {}

  /** Somebody has subscribed. */
  get listens(): boolean {
    return operations.hasSubscribers;
  }

  /** Some started operation may have to be told of. */
  get any(): boolean {
    return this.running.size > 0;
  }

  /** @param request undefined: it has ended already */
  started(operation: string, request?: object): void {
    this.tellEnded(); // so that these cannot grow without a limit where the event loop is never reached
    const start = performance.now();
    const event = { operation, rank: this.rank, start };
    if (request !== undefined) this.running.set(request, event);
    operations.publish(event);
    if (request === undefined) operations.publish({ ...event, end: start });
  }

  over(request: object, error: NbcError | null): void {
    const event = this.running.get(request);
    if (event === undefined) return;
    this.running.delete(request);
    if (this.ended.length === 0) queueMicrotask(() => this.tellEnded());
    const end = performance.now();
    this.ended.push(error === null ? { ...event, end } : { ...event, end, error });
  }

  private tellEnded(): void {
    if (this.ended.length === 0) return;
    const { ended } = this;
    this.ended = [];
    for (const event of ended) operations.publish(event);
  }
}
