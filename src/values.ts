/**
 * Values of any kind, for set-up and control: what the structured clone algorithm takes travels as bytes. Sizes travel
 * first. These operations allocate, copy and wait for each other: for data there are the operations on buffers.
 *
 * Source: the lower-case methods of mpi4py.
 */
import type { OperationOptions } from './aborts.js';
import { v8 } from './builtins.js';
import { ArgumentError, show, ValueError } from './errors.js';
import type { Counts } from './operations/operation.js';
import type { Compound } from './signatures.js';

/** The communicator that carries values. Nobody else uses it. */
interface Carrier {
  readonly rank: number;
  readonly size: number;
  readonly members: Uint32Array;
  readonly world: { readonly rank: number };
  ibcast(buffer: ArrayBufferView, root: number): PromiseLike<void>;
  iscatterv(
    send: ArrayBufferView | null,
    counts: Counts | null,
    displs: null,
    recv: ArrayBufferView,
    root: number,
  ): PromiseLike<void>;
  igatherv(
    send: ArrayBufferView,
    recv: ArrayBufferView | null,
    counts: Counts | null,
    displs: null,
    root: number,
  ): PromiseLike<void>;
  iallgather(send: ArrayBufferView, recv: ArrayBufferView): PromiseLike<void>;
  iallgatherv(send: ArrayBufferView, recv: ArrayBufferView, counts: Counts, displs: null): PromiseLike<void>;
  ialltoall(send: ArrayBufferView, recv: ArrayBufferView): PromiseLike<void>;
  ialltoallv(
    send: ArrayBufferView,
    sendCounts: Counts,
    sendDispls: null,
    recv: ArrayBufferView,
    recvCounts: Counts,
    recvDispls: null,
  ): PromiseLike<void>;
  begin(compound: Compound): void;
  isend(buffer: ArrayBufferView, dest: number, tag: number): PromiseLike<void>;
  irecv(buffer: ArrayBufferView, source: number, tag: number): PromiseLike<void>;
  endEverywhere(): void;
  close(): Promise<void>;
}

/** The communicator whose values these are. */
interface Owner {
  /** Makes a call of the program, which may have a signal. */
  call<T>(operation: string, options: OperationOptions | undefined, run: () => Promise<T>): Promise<T>;
}

/** The size of what could not be serialized: tells the other ranks that nothing comes. */
const FAILED = -1;

/** Serialized values one behind the other, and the size of each. */
interface Packed {
  bytes: Uint8Array;
  sizes: Float64Array;
  /** Why there are none: then all sizes are FAILED. */
  error: ValueError | null;
}

/**
 * Collectives and messages of values, on a communicator: `world.values`. A value is whatever `v8.serialize` takes, as
 * `structuredClone` does: objects, maps, dates, typed arrays, cycles, but no functions.
 *
 * All ranks call the collectives in the same order. They run one after another, in the order of the calls. Where the
 * value of a rank cannot be serialized, nothing is sent and all ranks of the collective get a {@link ValueError} whose
 * `peer` is that rank in the world. Wrong arguments reject with an {@link ArgumentError}, on this rank only.
 */
export class Values {
  private last: Promise<unknown> = Promise.resolve();
  /** The last receive of each source and tag. */
  private readonly receives = new Map<string, Promise<unknown>>();

  /** @internal */
  constructor(
    private readonly carrier: Carrier,
    private readonly owner: Owner,
  ) {}

  /** The root's value, on every rank. The `value` of other ranks is ignored. */
  bcast<T>(value: T, root: number, options?: OperationOptions): Promise<T> {
    return this.call('bcast', options, () => {
      this.checkRank('bcast', 'root', root);
      const packed = this.pack('bcast', root === this.carrier.rank ? [value] : []);
      return this.inOrder('values.bcast', () => this.broadcast('bcast', packed, root) as Promise<T>);
    });
  }

  /** The values of all ranks in their order at the root; null at the others. */
  gather<T>(value: T, root: number, options?: OperationOptions): Promise<T[] | null> {
    return this.call('gather', options, () => {
      this.checkRank('gather', 'root', root);
      const packed = this.pack('gather', [value]);
      return this.inOrder('values.gather', () => this.collect('gather', packed, root) as Promise<T[] | null>);
    });
  }

  /**
   * Value i of the root, on rank i.
   *
   * @param values at the root, one for each rank; ignored at other ranks
   */
  scatter<T>(values: readonly T[] | null, root: number, options?: OperationOptions): Promise<T> {
    return this.call('scatter', options, () => {
      const { rank, size } = this.carrier;
      this.checkRank('scatter', 'root', root);
      if (rank === root) this.checkList('scatter', values);
      const packed = this.pack('scatter', rank === root ? values! : []);
      return this.inOrder('values.scatter', async () => {
        const sizes = rank === root ? packed.sizes : new Float64Array(size);
        await this.carrier.ibcast(sizes, root);
        this.checkSizes('scatter', sizes, () => root, packed);
        const mine = new Uint8Array(sizes[rank]);
        const [source, counts] = rank === root ? [packed.bytes, packed.sizes] : [null, null];
        await this.carrier.iscatterv(source, counts, null, mine, root);
        return v8().deserialize(mine) as T;
      });
    });
  }

  /** The values of all ranks in their order, on every rank. */
  allgather<T>(value: T, options?: OperationOptions): Promise<T[]> {
    return this.call('allgather', options, () => {
      const packed = this.pack('allgather', [value]);
      return this.inOrder('values.allgather', async () => {
        const sizes = await this.allSizes('allgather', packed);
        const all = new Uint8Array(sum(sizes));
        await this.carrier.iallgatherv(packed.bytes, all, sizes, null);
        return unpack(all, sizes) as T[];
      });
    });
  }

  /** Value j of rank i becomes value i of rank j. @param values one for each rank */
  alltoall<T>(values: readonly T[], options?: OperationOptions): Promise<T[]> {
    return this.call('alltoall', options, () => {
      this.checkList('alltoall', values);
      const packed = this.pack('alltoall', values);
      return this.inOrder('values.alltoall', async () => {
        const sizes = new Float64Array(this.carrier.size);
        await this.carrier.ialltoall(packed.sizes, sizes);
        this.checkSizes('alltoall', sizes, (index) => index, packed);
        const all = new Uint8Array(sum(sizes));
        await this.carrier.ialltoallv(packed.bytes, packed.sizes, null, all, sizes, null);
        return unpack(all, sizes) as T[];
      });
    });
  }

  /**
   * Combines the values of all ranks, in their order: fn(fn(v0, v1), v2) and so on, at the root; null at the others.
   *
   * @param fn called at the root only. What it throws is the cause of a {@link ValueError} there
   */
  reduce<T>(value: T, fn: (a: T, b: T) => T, root: number, options?: OperationOptions): Promise<T | null> {
    return this.call('reduce', options, () => {
      this.checkRank('reduce', 'root', root);
      this.checkFunction('reduce', fn);
      const packed = this.pack('reduce', [value]);
      return this.inOrder('values.reduce', async () => {
        const values = (await this.collect('reduce', packed, root)) as T[] | null;
        return values === null ? null : this.fold('reduce', values, fn);
      });
    });
  }

  /**
   * Combines the values of all ranks as {@link reduce}; every rank gets the result.
   *
   * @param fn called on rank 0 only. If it throws, all ranks get a {@link ValueError}
   */
  allreduce<T>(value: T, fn: (a: T, b: T) => T, options?: OperationOptions): Promise<T> {
    return this.call('allreduce', options, () => {
      const root = 0;
      this.checkFunction('allreduce', fn);
      const packed = this.pack('allreduce', [value]);
      return this.inOrder('values.allreduce', async () => {
        const values = (await this.collect('allreduce', packed, root)) as T[] | null;
        let result = this.pack('allreduce', []);
        if (values !== null) {
          try {
            result = this.pack('allreduce', [this.fold('allreduce', values, fn)]);
          } catch (error) {
            result = { bytes: new Uint8Array(0), sizes: Float64Array.of(FAILED), error: error as ValueError };
          }
        }
        return (await this.broadcast('allreduce', result, root)) as T;
      });
    });
  }

  /** Sends a value to rank `dest`, which receives it with {@link recv} and the same tag, in the order of the sends. */
  send(value: unknown, dest: number, tag = 0, options?: OperationOptions): Promise<void> {
    return this.call('send', options, async () => {
      this.checkRank('send', 'dest', dest);
      const { bytes, sizes, error } = this.pack('send', [value]);
      if (error !== null) throw error;
      const { carrier } = this;
      await Promise.all([carrier.isend(sizes, dest, tag), carrier.isend(bytes, dest, tag)]);
    });
  }

  /** Receives the value that rank `source` sends with this tag. */
  recv(source: number, tag = 0, options?: OperationOptions): Promise<unknown> {
    return this.call('recv', options, async () => {
      this.checkRank('recv', 'source', source);
      // A value is two messages, so the next receive begins when this one has both.
      if (typeof tag !== 'number') this.refuse('recv', 'tag', `must be a whole number, not ${show(tag)}`);
      const stream = `${source} ${tag}`;
      const receive = async (): Promise<unknown> => {
        const sizes = new Float64Array(1);
        await this.carrier.irecv(sizes, source, tag);
        const bytes = new Uint8Array(sizes[0]);
        await this.carrier.irecv(bytes, source, tag);
        return v8().deserialize(bytes) as unknown;
      };
      const before = this.receives.get(stream);
      const result = before === undefined ? receive() : before.then(receive, receive);
      this.receives.set(stream, result);
      try {
        return await result;
      } finally {
        if (this.receives.get(stream) === result) this.receives.delete(stream);
      }
    });
  }

  /** @internal */
  revoke(): void {
    this.carrier.endEverywhere();
  }

  /** @internal */
  close(): Promise<void> {
    return this.carrier.close();
  }

  private call<T>(name: string, options: OperationOptions | undefined, run: () => Promise<T>): Promise<T> {
    return this.owner.call(`values.${name}`, options, run);
  }

  private async broadcast(operation: string, packed: Packed, root: number): Promise<unknown> {
    const { carrier } = this;
    const isRoot = carrier.rank === root;
    const sizes = isRoot ? packed.sizes : new Float64Array(1);
    await carrier.ibcast(sizes, root);
    this.checkSizes(operation, sizes, () => root, packed);
    const bytes = isRoot ? packed.bytes : new Uint8Array(sizes[0]);
    await carrier.ibcast(bytes, root);
    return v8().deserialize(bytes) as unknown;
  }

  private async collect(operation: string, packed: Packed, root: number): Promise<unknown[] | null> {
    const sizes = await this.allSizes(operation, packed);
    const all = this.carrier.rank === root ? new Uint8Array(sum(sizes)) : null;
    await this.carrier.igatherv(packed.bytes, all, all === null ? null : sizes, null, root);
    return all === null ? null : unpack(all, sizes);
  }

  /** The sizes of the values of all ranks, one each. */
  private async allSizes(operation: string, packed: Packed): Promise<Float64Array> {
    const sizes = new Float64Array(this.carrier.size);
    await this.carrier.iallgather(packed.sizes, sizes);
    this.checkSizes(operation, sizes, (index) => index, packed);
    return sizes;
  }

  /** @param rankOf the rank whose value an entry is the size of */
  private checkSizes(name: string, sizes: Float64Array, rankOf: (index: number) => number, packed: Packed): void {
    if (packed.error !== null) throw packed.error;
    const index = sizes.indexOf(FAILED);
    if (index < 0) return;
    const operation = `values.${name}`;
    const peer = this.carrier.members[rankOf(index)];
    const message = `${operation}: rank ${peer} of the world could not serialize its value, or make it`;
    throw new ValueError(message, { operation, rank: this.carrier.world.rank, peer });
  }

  private pack(operation: string, values: readonly unknown[]): Packed {
    const { size } = this.carrier;
    try {
      const { serialize } = v8();
      const parts = Array.from(values, (value) => serialize(value));
      return { bytes: Buffer.concat(parts), sizes: Float64Array.from(parts, (part) => part.length), error: null };
    } catch (cause) {
      const sizes = new Float64Array(values.length === 1 ? 1 : size).fill(FAILED);
      return { bytes: new Uint8Array(0), sizes, error: this.failure(operation, 'cannot be serialized', cause) };
    }
  }

  private fold<T>(operation: string, values: readonly T[], fn: (a: T, b: T) => T): T {
    try {
      return values.reduce((a, b) => fn(a, b));
    } catch (cause) {
      throw this.failure(operation, 'the function failed', cause);
    }
  }

  private failure(name: string, what: string, cause: unknown): ValueError {
    const operation = `values.${name}`;
    const { rank } = this.carrier.world;
    const reason = cause instanceof Error ? cause.message : show(cause);
    return new ValueError(`${operation}: ${what}: ${reason}`, { operation, rank, peer: rank }, { cause });
  }

  /** Runs a collective when all earlier ones have ended, well or not. */
  private inOrder<T>(compound: Compound, task: () => Promise<T>): Promise<T> {
    const run = (): Promise<T> => {
      this.carrier.begin(compound);
      return task();
    };
    const result = this.last.then(run, run);
    this.last = result;
    // The caller has the same promise; this one must not be reported as unhandled as well.
    result.catch(() => undefined);
    return result;
  }

  private checkRank(operation: string, argument: string, value: number): void {
    const { size } = this.carrier;
    if (Number.isInteger(value) && value >= 0 && value < size) return;
    this.refuse(operation, argument, `must be a rank of the communicator, 0 to ${size - 1}, not ${show(value)}`);
  }

  private checkList(operation: string, values: unknown): void {
    const { size } = this.carrier;
    if (Array.isArray(values) && values.length === size) return;
    const what = Array.isArray(values) ? `${values.length} values` : show(values);
    this.refuse(operation, 'values', `must be an array of ${size} values, one for each rank, not ${what}`);
  }

  private checkFunction(operation: string, fn: unknown): void {
    if (typeof fn !== 'function') this.refuse(operation, 'fn', `must be a function, not ${show(fn)}`);
  }

  private refuse(operation: string, argument: string, message: string): never {
    throw new ArgumentError(argument, message, { operation: `values.${operation}`, rank: this.carrier.world.rank });
  }
}

/** Copies, because a value may keep the memory that it was read from. */
function unpack(bytes: Uint8Array, sizes: Float64Array): unknown[] {
  let at = 0;
  const { deserialize } = v8();
  return Array.from(sizes, (size) => deserialize(bytes.slice(at, (at += size))) as unknown);
}

function sum(sizes: Float64Array): number {
  return sizes.reduce((a, b) => a + b, 0);
}
