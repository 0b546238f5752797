/**
 * What an operation is: an entry of the table (index.ts). The communicator, the benchmarks, the tests and the documents
 * go over the table, so an entry says all that they need.
 */
import { BYTES, bytesOfType, elementTypeOf, nameOfType } from '../elements.js';
import { ArgumentError, type ErrorContext, show } from '../errors.js';
import type { ElementType } from '../schedules/encoding.js';
import type { Schedule } from '../schedules/schedule.js';
import type { Shape } from '../schedules/shape.js';
import { Layout } from '../layouts.js';
import type { Neighbors } from '../topologies.js';
import { checkView, IN_PLACE, overlap } from '../views.js';

/** Numbers, one for each rank: an array or a typed array. */
export type Counts = ArrayLike<number>;

/** A row of an operation's algorithms. */
export interface Algorithm<Name extends string = string, S extends Shape = Shape> {
  /** What `options.algorithm` calls it. */
  readonly name: Name;
  /** Messages that follow each other on the longest path, for p ranks. */
  readonly steps: string;
  /** Bytes that the busiest rank sends or receives, for a message (or block) of n bytes. */
  readonly bytes: string;
  /** When it is taken, or worth forcing. */
  readonly when: string;
  readonly source: string;
  /** Of a reduction: operands change places, so it is refused to operators that do not commute. */
  readonly reorders?: true;
  /** What the rank of the shape does. */
  build(shape: S): Schedule;
}

export interface Operation<Name extends string = string, Hint extends string = string, S extends Shape = Shape> {
  /** The name of the method. */
  readonly name: Name;
  readonly mpi: string;
  /** One sentence. */
  readonly summary: string;
  /** The arguments of the method, in their order, without the options. */
  readonly parameters: readonly string[];
  readonly algorithms: readonly Algorithm<Hint, S>[];
  /** Checks the arguments, and says what the plan depends on. @throws {ArgumentError} */
  shape(call: Call): S;
  /** Checks that cost more: made only where there is no plan of the shape yet. @throws {ArgumentError} */
  check?(call: Call): void;
  /** The sizes that all ranks must agree in. Default: the bytes of the shape. Of many operations, there are none. */
  sizes?(shape: S): readonly number[];
  /** The algorithm that is taken where the caller names none: the same on all ranks. */
  choose(shape: S): NoInfer<Hint>;
}

/** Of operations whose sizes differ from rank to rank. */
export const NO_SIZES = (): readonly number[] => [];

/** Gives an entry its types. */
export function operation<const Name extends string, const Hint extends string, S extends Shape>(
  entry: Operation<Name, Hint, S>,
): Operation<Name, Hint, S> {
  return entry;
}

/** A rank and the ranks it calls with. */
export interface Caller {
  readonly rank: number;
  readonly size: number;
  readonly world: { readonly rank: number };
  /** The host of each rank; undefined: all ranks are on one. */
  readonly hosts: readonly number[] | undefined;
  /** Whether the job's ranks share memory, with at least four of them a processor. */
  readonly crowded: boolean;
  /** Of a communicator with a topology. */
  readonly neighbors?: Neighbors;
}

/** A checked view or layout. */
export interface Checked {
  /** Of a layout: from its first to its last byte. */
  readonly view: ArrayBufferView;
  /** Bytes of its elements. */
  readonly bytes: number;
  readonly type: ElementType;
  /** Bytes of an element. */
  readonly width: number;
}

/**
 * What should be a view or a layout of one.
 * @param written it is received into
 * @throws {ArgumentError}
 */
export function checkData(data: unknown, name: string, written: boolean, context: ErrorContext): Checked {
  if (!(data instanceof Layout)) {
    const bytes = checkView(data, name, context);
    const type = elementTypeOf(data as ArrayBufferView);
    return { view: data as ArrayBufferView, bytes, type, width: bytesOfType(type) };
  }
  checkView(data.view, name, context);
  if (written && !data.distinct) {
    throw new ArgumentError(name, 'is a layout in which elements overlap; it can be sent, but not received', context);
  }
  const type = elementTypeOf(data.view);
  return { view: data.range, bytes: data.bytes, type, width: bytesOfType(type) };
}

/** The arguments of a call, and the checks that operations share. All of them throw an {@link ArgumentError}. */
export class Call {
  readonly rank: number;
  readonly size: number;

  constructor(
    private readonly operation: string,
    private readonly caller: Caller,
    readonly send: unknown,
    readonly recv: unknown,
    readonly root: number,
    readonly lists: readonly (Counts | null | undefined)[],
    readonly op?: unknown,
  ) {
    this.rank = caller.rank;
    this.size = caller.size;
  }

  /** Of a communicator with a topology. */
  get neighbors(): Neighbors {
    return this.caller.neighbors!;
  }

  get isRoot(): boolean {
    return this.root === this.rank;
  }

  get sendInPlace(): boolean {
    return this.send === IN_PLACE;
  }

  /** The part of a shape that all operations have. */
  shape(bytes: number, inPlace = false): Shape {
    const { rank, size, root, caller } = this;
    return { rank, size, root, bytes, inPlace, hosts: caller.hosts, crowded: caller.crowded };
  }

  refuse(argument: string, message: string): never {
    throw new ArgumentError(argument, message, this.context);
  }

  get context(): ErrorContext {
    return { operation: this.operation, rank: this.caller.world.rank };
  }

  checkRoot(): void {
    const { root, size } = this;
    if (Number.isInteger(root) && root >= 0 && root < size) return;
    this.refuse('root', `must be a rank of the communicator, 0 to ${size - 1}, not ${show(root)}`);
  }

  /** @param name what the documentation calls the argument, if not 'send' or 'recv' */
  view(argument: 'send' | 'recv', name: string = argument): Checked {
    return checkData(this[argument], name, argument === 'recv', this.context);
  }

  /** Bytes of one of equal blocks, one per rank or neighbour, that fill the buffer and consist of whole elements. */
  block(argument: 'send' | 'recv', { bytes, width }: Checked, blocks = this.size): number {
    if (bytes % (blocks * width) === 0) return bytes / blocks;
    const what = `${bytes / width} elements of ${width} bytes`;
    const who = this.caller.neighbors === undefined ? 'rank' : 'neighbour';
    return this.refuse(argument, `must hold ${blocks} equal blocks of whole elements, one per ${who}, not ${what}`);
  }

  /** What is sent and what is received, in one rank: elements of the same type, in memory of their own. */
  checkPair(send: Checked, recv: Checked): void {
    if (send.type !== recv.type && send.type !== BYTES && recv.type !== BYTES) {
      const [from, to] = [nameOfType(send.type), nameOfType(recv.type)];
      this.refuse('recv', `has elements of type ${to}, and send of type ${from}; a copy does not convert`);
    }
    if (overlap(send.view, recv.view)) this.refuse('recv', 'overlaps send in memory; use IN_PLACE or two buffers');
  }

  /** Refuses blocks that begin or end within an element. */
  checkWhole(argument: 'send' | 'recv', { width }: Checked, block: number): void {
    if (block % width !== 0) this.refuse(argument, `blocks of ${block} bytes split its elements of ${width} bytes`);
  }
}
