/**
 * Signals of the program (AbortSignal) that requests were started with. One that fires revokes the communicators of its
 * pending requests: only so do the other ranks learn of it. A signal has one listener here, however many requests there
 * are, and has none when the last of them has ended.
 */
import { AbortError, ArgumentError, type ErrorContext, type NbcError, RevokedError, show } from './errors.js';
import type { Pending } from './slots.js';

/** What is needed of an AbortSignal, which it must be. */
export interface SignalLike {
  readonly aborted: boolean;
  readonly reason: unknown;
  addEventListener(type: 'abort', listener: () => void): void;
  removeEventListener(type: 'abort', listener: () => void): void;
}

/** Options of every operation. */
export interface OperationOptions {
  /**
   * An AbortSignal. Fired before the call: the request fails with an {@link AbortError}, and nothing is sent. Fired
   * while it is pending: the same, and its communicator is revoked.
   */
  signal?: SignalLike | undefined;
}

/** A communicator. */
interface Revocable {
  revokeIfOpen(): void;
}

interface Settler {
  settleIfEnded(request: Pending): boolean;
  contextOf(request: Pending): ErrorContext;
}

/** @throws {ArgumentError} if it is no AbortSignal */
export function checkSignal(signal: unknown, context: ErrorContext): asserts signal is SignalLike {
  if (signal instanceof AbortSignal) return;
  throw new ArgumentError('signal', `must be an AbortSignal, not ${show(signal)}`, context);
}

/** A signal that has not fired, and the requests that end with it. */
interface Watch {
  readonly requests: Map<Pending, Revocable>;
  readonly listener: () => void;
}

export class Aborts {
  private readonly watches = new Map<SignalLike, Watch>();
  /** The signals of pending requests. */
  private readonly signals = new Map<Pending, SignalLike>();

  constructor(private readonly settler: Settler) {}

  /** Pending requests with a signal. */
  get size(): number {
    return this.signals.size;
  }

  /** The request has just been started, and is pending. */
  watch(request: Pending, signal: SignalLike, communicator: Revocable): void {
    let watch = this.watches.get(signal);
    if (watch === undefined) {
      watch = { requests: new Map(), listener: () => this.fire(signal) };
      this.watches.set(signal, watch);
      signal.addEventListener('abort', watch.listener);
    }
    watch.requests.set(request, communicator);
    this.signals.set(request, signal);
  }

  /** The request has ended so. Returns what its error is. */
  ended(request: Pending, error: NbcError | null): NbcError | null {
    const signal = this.signals.get(request);
    if (signal === undefined) return error;
    this.signals.delete(request);
    const watch = this.watches.get(signal)!;
    watch.requests.delete(request);
    if (watch.requests.size === 0) {
      signal.removeEventListener('abort', watch.listener);
      this.watches.delete(signal);
    }
    if (!signal.aborted || !(error instanceof RevokedError)) return error;
    const aborted = new AbortError(this.settler.contextOf(request), signal.reason);
    return error.buffersInUse ? Object.assign(aborted, { buffersInUse: true }) : aborted;
  }

  /** Requests that end meanwhile leave the list; so does the last one. */
  private fire(signal: SignalLike): void {
    const pending = [...this.watches.get(signal)!.requests].filter(([request]) => !this.settler.settleIfEnded(request));
    for (const communicator of new Set(pending.map(([, each]) => each))) communicator.revokeIfOpen();
    for (const [request] of pending) this.settler.settleIfEnded(request);
  }
}
