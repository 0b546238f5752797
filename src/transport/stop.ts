/**
 * What ends the waits of init() before their time: its signal. A function that waits registers what makes its wait
 * end. The errors that come of it do not matter: init() rejects with an AbortError then.
 */
import type { SignalLike } from '../aborts.js';
import { timers } from '../builtins.js';

export class Stop {
  constructor(private readonly signal?: SignalLike) {}

  hasFired(): boolean {
    return this.signal?.aborted === true;
  }

  /** Calls `end` when the signal fires, at once if it has. Returns what takes that back. */
  when(end: (error: Error) => void): () => void {
    const { signal } = this;
    if (signal === undefined) return () => undefined;
    const listener = (): void => end(new Error('the signal of init() has fired'));
    if (signal.aborted) listener();
    else signal.addEventListener('abort', listener);
    return () => signal.removeEventListener('abort', listener);
  }

  /** Rejects at once where the signal fires. */
  pause(milliseconds: number): Promise<void> {
    return this.sleep(milliseconds, true, new AbortController());
  }

  /** Until that is settled or the time is over; the process does not wait for it. Rejects where the signal fires. */
  async within(milliseconds: number, settled: Promise<unknown>): Promise<void> {
    const abort = new AbortController();
    try {
      await Promise.race([settled, this.sleep(milliseconds, false, abort)]);
    } finally {
      abort.abort();
    }
  }

  private async sleep(milliseconds: number, ref: boolean, abort: AbortController): Promise<void> {
    const forget = this.when((error) => abort.abort(error));
    try {
      await timers().setTimeout(milliseconds, undefined, { ref, signal: abort.signal });
    } finally {
      forget();
    }
  }
}

/** Of waits that nothing ends before their time. */
export const NEVER = new Stop();
