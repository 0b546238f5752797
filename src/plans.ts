/**
 * Compiled schedules of one operation on one communicator, by shape (bytes, root, algorithm) and never by buffer: a
 * program that repeats an operation builds its schedule once.
 */
import { ArgumentError, type ErrorContext, show } from './errors.js';
import type { Native } from './native.js';
import { errorFromNative } from './native-errors.js';
import type { Schedule } from './schedules/schedule.js';

/** Plans kept per operation. Programs have a handful of shapes; a bound is for those that never repeat one. */
const MAX_PLANS = 256;

/** The communicator that plans belong to. */
export interface Owner {
  readonly rank: number;
  readonly size: number;
  readonly handle: number;
  readonly world: { readonly rank: number; readonly native: Native };
  requireOpen(operation: string): void;
  checkRank(value: number, argument: string, context: ErrorContext): void;
}

/** An operation, as far as its plans are concerned. */
export interface PlanSource {
  readonly operation: string;
  /** What `options.algorithm` may be. */
  readonly algorithms: readonly string[];
  /** The schedule of this rank; `algorithm` undefined: choose. `bytes` is what the operation is looked up by. */
  build(communicator: Owner, algorithm: string | undefined, root: number, bytes: number): Schedule;
}

/** The plans of one operation by what they are looked up by; the one kept longest is given back for a new one. */
export class PlanStore<Key> {
  private readonly plans = new Map<Key, number>();

  /** @param dropped is told of a plan that is given back to make room */
  constructor(
    private readonly communicator: Owner,
    private readonly operation: string,
    private readonly dropped: (plan: number) => void = () => undefined,
  ) {}

  /**
   * The plan of a shape, compiled if need be.
   * @throws {ClosedError} if the communicator is closed
   */
  find(key: Key, build: () => Schedule): number {
    const { communicator, operation } = this;
    const { native, rank } = communicator.world;
    communicator.requireOpen(operation);
    const known = this.plans.get(key);
    if (known !== undefined) return known;
    const words = build().encode();
    let plan: number;
    try {
      plan = native.compile(communicator.handle, words);
    } catch (thrown) {
      throw errorFromNative(thrown, { operation, rank });
    }
    this.makeRoom();
    this.plans.set(key, plan);
    return plan;
  }

  /** Gives all plans back. */
  release(): void {
    for (const plan of this.plans.values()) this.communicator.world.native.releasePlan(plan);
    this.plans.clear();
  }

  private makeRoom(): void {
    if (this.plans.size < MAX_PLANS) return;
    const [oldest, plan] = this.plans.entries().next().value!;
    this.plans.delete(oldest);
    this.dropped(plan);
    this.communicator.world.native.releasePlan(plan);
  }
}

/** Plans of an operation whose shape is a few numbers. */
export class PlanCache {
  // The plan used last: most programs repeat one shape for a while, and then these three comparisons are all of the
  // look-up. NaN equals nothing, so that without a last plan every call is looked up.
  bytes = NaN;
  root = NaN;
  plan = -1;

  private readonly plans: PlanStore<number>;

  constructor(
    private readonly communicator: Owner,
    private readonly source: PlanSource,
  ) {
    this.plans = new PlanStore(communicator, source.operation, (plan) => {
      if (plan === this.plan) this.forget();
    });
  }

  /**
   * The plan for a shape that is not the last one used, compiled if need be.
   * @throws {ClosedError} if the communicator is closed (closing it forgets the plan used last, so every call gets
   *   here)
   * @throws {ArgumentError} naming `root` or `algorithm`
   */
  find(bytes: number, root: number, options: { algorithm?: string | undefined } | undefined): number {
    const { communicator } = this;
    const { operation, algorithms } = this.source;
    const context = { operation, rank: communicator.world.rank };
    communicator.requireOpen(operation);
    communicator.checkRank(root, 'root', context);
    const algorithm = options?.algorithm;
    const index = algorithm === undefined ? 0 : 1 + algorithms.indexOf(algorithm);
    if (index === 0 && algorithm !== undefined) {
      const names = algorithms.map((name) => `'${name}'`).join(', ');
      const message = `${operation} has ${names}, but not ${show(algorithm)}`;
      throw new ArgumentError('algorithm', message, context);
    }

    // A number below 2^53 for all sizes that memory and ranks can have.
    const key = (bytes * communicator.size + root) * (1 + algorithms.length) + index;
    const plan = this.plans.find(key, () => this.source.build(communicator, algorithm, root, bytes));
    if (index === 0) {
      this.bytes = bytes;
      this.root = root;
      this.plan = plan;
    }
    return plan;
  }

  /** The next look-up of any shape goes through `find`. */
  forget(): void {
    this.bytes = NaN;
  }

  /** Gives all plans back. */
  release(): void {
    this.forget();
    this.plans.release();
  }
}
