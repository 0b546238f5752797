/**
 * Signals of the program (AbortSignal) that operations were started with: requests, and calls that give promises. One
 * that fires revokes the communicators of those that are pending: only so do the other ranks learn of it. A signal has
 * one listener here, however many operations there are, and has none when the last of them has ended.
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
   * An AbortSignal. Fired before the call: the request fails with an {@link AbortError}, or the promise rejects with
   * it, and nothing is sent. Fired while it is pending: the same, and its communicator is revoked.
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

/** A call that gives a promise. */
export interface Call<T> {
  readonly context: ErrorContext;
  readonly run: () => Promise<T>;
  /** The signal has fired while it ran. */
  readonly abort: () => void;
  /** It has ended well after that, and nobody waits for the result. Does not throw. */
  readonly discard: (result: T) => void;
}

/** A signal that has not fired, and what ends with it. */
interface Watch {
  readonly requests: Map<Pending, Revocable>;
  readonly calls: Set<() => void>;
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
    this.watchOf(signal).requests.set(request, communicator);
    this.signals.set(request, signal);
  }

  /**
   * Makes a call. A signal that fires ends it at once: it has no buffers of the program that must come free before.
   * @throws {AbortError} (rejects) if the signal has fired, or fires before the call has ended
   */
  async call<T>(signal: SignalLike, { context, run, abort, discard }: Call<T>): Promise<T> {
    if (signal.aborted) throw new AbortError(context, signal.reason);
    const result = run();
    let fire!: () => void;
    const aborted = new Promise<never>((_, reject) => {
      fire = () => {
        this.endCall(signal, fire);
        reject(new AbortError(context, signal.reason));
        abort();
      };
    });
    this.watchOf(signal).calls.add(fire);
    let inTime = false;
    const ended = result.finally(() => {
      inTime = this.endCall(signal, fire);
    });
    void ended.then(
      (value) => {
        if (!inTime) discard(value);
      },
      () => undefined,
    );
    return Promise.race([ended, aborted]);
  }

  /** The request has ended so. Returns what its error is. */
  ended(request: Pending, error: NbcError | null): NbcError | null {
    const signal = this.signals.get(request);
    if (signal === undefined) return error;
    this.signals.delete(request);
    const watch = this.watches.get(signal)!;
    watch.requests.delete(request);
    this.dropIfIdle(signal, watch);
    if (!signal.aborted || !(error instanceof RevokedError)) return error;
    const aborted = new AbortError(this.settler.contextOf(request), signal.reason);
    return error.buffersInUse ? Object.assign(aborted, { buffersInUse: true }) : aborted;
  }

  private watchOf(signal: SignalLike): Watch {
    let watch = this.watches.get(signal);
    if (watch === undefined) {
      watch = { requests: new Map(), calls: new Set(), listener: () => this.fire(signal) };
      this.watches.set(signal, watch);
      signal.addEventListener('abort', watch.listener);
    }
    return watch;
  }

  private dropIfIdle(signal: SignalLike, { requests, calls, listener }: Watch): void {
    if (requests.size > 0 || calls.size > 0) return;
    signal.removeEventListener('abort', listener);
    this.watches.delete(signal);
  }

  /** False: the call has ended before. */
  private endCall(signal: SignalLike, fire: () => void): boolean {
    const watch = this.watches.get(signal);
    if (watch?.calls.delete(fire) !== true) return false;
    this.dropIfIdle(signal, watch);
    return true;
  }

  /** Requests that end meanwhile leave the list; so does the last one. */
  private fire(signal: SignalLike): void {
    const { requests, calls } = this.watches.get(signal)!;
    const pending = [...requests].filter(([request]) => !this.settler.settleIfEnded(request));
    for (const call of [...calls]) call();
    for (const communicator of new Set(pending.map(([, each]) => each))) communicator.revokeIfOpen();
    for (const [request] of pending) this.settler.settleIfEnded(request);
  }
}
