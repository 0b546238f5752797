/**
 * The bridge between pending requests and the event loop. Awaited requests are *watched*: native code calls back once
 * for any number of them that ended.
 *
 * Pending requests keep the event loop alive. Programs that start and wait without ever returning to it pay nothing for
 * that: the first pending request schedules one check, which runs when control is back at the loop.
 */
import type { Native } from './native.js';
import type { Pending, SlotTable } from './slots.js';

/** What settles requests. */
export interface Settler {
  settleIfEnded(request: Pending): boolean;
  /** Settles every request that has ended. */
  sweep(): void;
}

export class EventLoop {
  private watched: Pending[] = [];
  /** Native code keeps the event loop alive for us. */
  private keptAlive = false;
  private checkScheduled = false;
  private closed = false;

  /** @param manual nobody else makes progress: poll for as long as something is pending */
  constructor(
    private readonly native: Native,
    private readonly slots: SlotTable,
    private readonly settler: Settler,
    private readonly manual: boolean,
  ) {}

  /** A request is pending that was not before. */
  started(): void {
    if (!this.checkScheduled) this.scheduleCheck();
  }

  /** The last pending request has ended. If that was without the event loop, look again whether to keep it alive. */
  allEnded(): void {
    if (this.keptAlive && !this.checkScheduled) this.scheduleCheck();
  }

  /** Native code calls: watched requests have ended. */
  onCompletions(): void {
    this.settleWatched();
    if (this.slots.pendingCount === 0 && !this.closed) this.keepAlive(false);
  }

  close(): void {
    this.closed = true;
    this.watched = [];
    this.keptAlive = false;
  }

  private watch(request: Pending): void {
    if (request.watched) return;
    request.watched = true;
    this.watched.push(request);
    this.native.watch(request.slot);
  }

  private settleWatched(): void {
    // Settling only resolves promises: no code of the user runs before this is over.
    let kept = 0;
    for (const request of this.watched) {
      if (!this.settler.settleIfEnded(request)) this.watched[kept++] = request;
    }
    this.watched.length = kept;
  }

  private scheduleCheck(): void {
    // The immediate itself keeps the event loop alive until it has run.
    this.checkScheduled = true;
    setImmediate(this.check);
  }

  /** Control is back at the event loop: keep it alive if, and only if, something is pending. */
  private readonly check = (): void => {
    this.checkScheduled = false;
    if (this.closed) return;
    // What is about to end needs no call back: a pass costs little beside waking the progress thread and then this one.
    this.settler.sweep();
    if (this.manual) {
      if (this.slots.pendingCount > 0) this.scheduleCheck();
      return;
    }
    this.slots.each((request) => this.watch(request));
    this.keepAlive(this.slots.pendingCount > 0);
  };

  private keepAlive(on: boolean): void {
    if (on === this.keptAlive) return;
    this.keptAlive = on;
    this.native.setKeepAlive(on);
  }
}
