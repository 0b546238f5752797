/**
 * The bridge between pending requests and the event loop.
 *
 * A *look* is one native call: it watches what has been started since the last look, makes progress for a bounded time
 * until something that is watched has ended, and says what. An awaited request is looked for twice at most before the
 * event loop sleeps: in a microtask, after everything that awaits at the same moment, and in the check that follows
 * when control is back at the event loop. Then native code arms its doorbell, and a peer wakes the event loop.
 *
 * Looks take turns with the event loop: a new one begins only for so long after the first, however many requests end
 * meanwhile. Then everything else that the event loop has to do comes first.
 *
 * Pending requests keep the event loop alive. Programs that start and wait without ever returning to it pay nothing for
 * that: the first pending request schedules one check.
 */
import type { Functions } from './functions.js';
import type { Native } from './native.js';
import type { Pending, SlotTable } from './slots.js';

/** What settles requests. Settling only resolves promises: no code of the user runs before a look is over. */
export interface Settler {
  settleIfEnded(request: Pending): boolean;
}

export interface EventLoopOptions {
  /** Nobody else makes progress: poll for as long as something is pending. */
  manual: boolean;
  /** How long a look lasts, and how long after the first another one may begin, in microseconds; 0: do not look. */
  awaitSpin: number;
}

export class EventLoop {
  private readonly exchange: Uint32Array;
  private readonly manual: boolean;
  private readonly awaitSpin: number;
  /** Somebody awaits a request for which there has been no look yet that lasted its full time. */
  private unlooked = false;
  private lookQueued = false;
  /** When the first look of this turn began, in milliseconds; -1: there has been none. */
  private turnBegan = -1;
  /** Native code keeps the event loop alive for us. */
  private keptAlive = false;
  private checkScheduled = false;
  private closed = false;

  constructor(
    private readonly native: Native,
    private readonly slots: SlotTable,
    private readonly settler: Settler,
    private readonly functions: Functions,
    options: EventLoopOptions,
  ) {
    this.manual = options.manual;
    this.awaitSpin = options.awaitSpin;
    this.exchange = slots.exchange;
  }

  /** A request is pending that was not before. */
  started(): void {
    if (!this.checkScheduled) this.scheduleCheck();
  }

  /** Somebody awaits a pending request. */
  awaited(): void {
    this.unlooked = true;
    if (!this.checkScheduled) this.scheduleCheck();
    if (this.lookQueued || this.awaitSpin === 0) return;
    this.lookQueued = true;
    queueMicrotask(this.lookNow);
  }

  /** The last pending request has ended. If that was without the event loop, look again whether to keep it alive. */
  allEnded(): void {
    if (this.keptAlive && !this.checkScheduled) this.scheduleCheck();
  }

  /** Native code calls: watched requests may have ended. */
  onCompletions(): void {
    if (this.closed) return;
    this.turnBegan = -1;
    this.look(0);
    if (this.isClosed()) return;
    if (this.slots.pendingCount > 0) {
      this.unlooked = true;
      if (!this.checkScheduled) this.scheduleCheck();
    } else {
      this.keepAlive(false);
    }
  }

  /** A function may close the world. */
  private isClosed(): boolean {
    return this.closed;
  }

  close(): void {
    this.closed = true;
    this.keptAlive = false;
  }

  /** How many watched requests have ended; they are settled. Then functions of operators that wait are run. */
  private look(microseconds: number): number {
    const { exchange, slots } = this;
    let all = 0;
    for (;;) {
      const count = slots.takeFresh(exchange);
      const more = slots.hasFresh;
      const ended = this.native.look(count, more || all > 0 ? 0 : microseconds);
      for (let i = 0; i < ended; i++) {
        const request = slots.at(exchange[i]);
        if (request !== null) this.settler.settleIfEnded(request);
      }
      all += ended;
      if (!more && ended < exchange.length) break;
    }
    if (this.functions.wait) this.functions.run();
    return all;
  }

  /** Looks for what is awaited, if it is still time for that in this turn of the event loop. */
  private lookForAwaited(): number {
    const now = performance.now();
    if (this.turnBegan === -1) this.turnBegan = now;
    else if ((now - this.turnBegan) * 1000 > this.awaitSpin) return 0;
    const ended = this.look(this.awaitSpin);
    if (ended === 0) {
      this.unlooked = false;
      this.turnBegan = -Infinity; // no other look in this turn
    }
    return ended;
  }

  private readonly lookNow = (): void => {
    this.lookQueued = false;
    if (!this.closed && this.unlooked) this.lookForAwaited();
  };

  private scheduleCheck(): void {
    // The immediate itself keeps the event loop alive until it has run.
    this.checkScheduled = true;
    setImmediate(this.check);
  }

  /** Control is back at the event loop: let it sleep, and keep it alive if, and only if, something is pending. */
  private readonly check = (): void => {
    this.checkScheduled = false;
    if (this.closed) return;
    this.turnBegan = -1;
    const ended = this.unlooked && this.awaitSpin > 0 ? this.lookForAwaited() : this.look(0);
    this.turnBegan = -1;
    if (this.isClosed()) return;
    const pending = this.slots.pendingCount > 0;
    // What has just ended may have others go on, in microtasks; they come first.
    if (pending && (this.manual || ended > 0 || !this.native.rest())) this.scheduleCheck();
    this.keepAlive(pending);
  };

  private keepAlive(on: boolean): void {
    if (on === this.keptAlive) return;
    this.keptAlive = on;
    this.native.setKeepAlive(on);
  }
}
