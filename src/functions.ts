/**
 * Functions of operators that the program has made ({@link createOp}). Native code hands out copies of both operands,
 * in pieces, when a reduction comes to them; the operation goes on with the result. Functions of this thread run when
 * control is here: on the event loop, and inside calls that wait or test. Those of modules run in workers.
 */
import { join } from 'node:path';
import workerThreads, { type Worker } from 'node:worker_threads';
import { v8 } from './builtins.js';
import { viewOfType } from './elements.js';
import { OperatorError } from './errors.js';
import type { Native, Reduction } from './native.js';
import type { Op, OpFunction } from './operators.js';
import type { SlotTable } from './slots.js';

/** Milliseconds after which functions let the event loop do other things, and calls that wait look at their limits. */
const MOST_MS = 1;

/** What a worker is to do. */
export interface Served {
  readonly world: number;
  readonly operator: number;
  /** URL of the module. */
  readonly module: string;
}

/** What a function threw: any value. */
export interface Thrown {
  readonly value: unknown;
}

export class Functions {
  /** A function of this thread runs. */
  running = false;
  /** The operators of pending and of persistent operations, by slot. */
  private readonly bySlot = new Map<number, Op>();
  /** What functions of this thread threw, by slot, until it is reported. */
  private readonly thrown = new Map<number, Thrown>();
  /** Null: the worker could not be started, and is not tried again. */
  private readonly workers = new Map<Op, Worker | null>();
  private open = true;

  constructor(
    private readonly native: Native,
    private readonly slots: SlotTable,
  ) {}

  /** Pieces wait for this thread. */
  get wait(): boolean {
    return this.open && this.slots.functionsWaiting > 0;
  }

  /** The operation in the slot has this operator. */
  use(slot: number, op: Op): void {
    if (op.id === 0) return;
    this.bySlot.set(slot, op);
    this.thrown.delete(slot);
    if (op.source instanceof URL && !this.workers.has(op)) this.launch(op, op.source);
  }

  /** There is no operation in the slot any more. */
  drop(slot: number): void {
    if (this.bySlot.size > 0) this.bySlot.delete(slot);
  }

  /** Runs functions for pieces that wait, for a bounded time; one of them at least. */
  run(): void {
    if (this.running) return;
    const until = performance.now() + MOST_MS;
    do {
      const piece = this.native.takeReduction();
      if (piece === null) return;
      this.compute(piece);
    } while (this.open && this.wait && performance.now() < until);
  }

  /** @throws {OperatorError} if a function runs: nobody would compute what it waits for */
  requireNone(operation: string, rank: number): void {
    if (!this.running) return;
    const message = `${operation}: the function of an operator must not wait; what it waits for may need it`;
    throw new OperatorError(message, { operation, rank });
  }

  /** What the function threw whose operation has failed in this slot. `detail`: what native code was told of it. */
  thrownIn(slot: number, detail: string): Thrown {
    const thrown = this.thrown.get(slot);
    this.thrown.delete(slot);
    return thrown ?? thrownOf(detail);
  }

  close(): void {
    this.open = false;
    process.off('exit', this.dismiss);
    for (const worker of this.workers.values()) void worker?.terminate();
    this.workers.clear();
    this.bySlot.clear();
    this.thrown.clear();
  }

  private compute(piece: Reduction): void {
    const { slot, operator, ticket, a, b } = piece;
    const op = this.bySlot.get(slot);
    let thrown: Thrown | null = { value: undefined };
    if (op?.id === operator) {
      this.running = true;
      thrown = apply(op.source as OpFunction, piece);
      this.running = false;
      if (!this.open) return;
      if (thrown !== null && this.bySlot.get(slot) === op) this.thrown.set(slot, thrown);
    }
    this.native.endReduction(this.slots.world, operator, ticket, a, b, thrown === null ? undefined : '');
  }

  private launch(op: Op, { href }: URL): void {
    const { native } = this;
    const { world } = this.slots;
    if (this.workers.size === 0) process.on('exit', this.dismiss);
    this.workers.set(op, null);
    const fail = (error: unknown): void => native.failOperator(world, op.id, textOfThrown(error));
    try {
      const workerData: Served = { world, operator: op.id, module: href };
      const before = native.listThreads();
      // By its module: as in ES modules, whoever replaces it there is heeded (scripts/commonjs.mjs).
      const worker = new workerThreads.Worker(join(import.meta.dirname, 'function-worker.js'), { workerData });
      native.awaitThread(world, op.id, before);
      worker.unref();
      worker.on('error', fail);
      // One that has ended before it could say which operator it serves.
      worker.on('exit', () => fail(new Error('the worker of the operator has ended')));
      this.workers.set(op, worker);
    } catch (error) {
      fail(error);
    }
  }

  /** Node.js waits for its workers when the process ends. */
  private readonly dismiss = (): void => this.native.dismissOperators();
}

/** Runs a function on a piece. Null: it has computed the result. */
export function apply(fn: OpFunction, { type, a, b }: Reduction): Thrown | null {
  const { byteLength } = b;
  const View = viewOfType(type);
  try {
    const result = (fn as (a: ArrayBufferView, b: ArrayBufferView) => unknown)(new View(a), new View(b));
    if (isPromise(result)) {
      result.then(undefined, () => {}); // what becomes of it concerns nobody
      throw new TypeError('it returned a promise, and nobody waits for that');
    }
    if (b.byteLength !== byteLength) throw new TypeError('it transferred the memory of b, which has the result');
    return null;
  } catch (value) {
    return { value };
  }
}

function isPromise(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function';
}

const SERIALIZED = 'v8:';

/** What a function threw as a text, so that native code can pass it on. */
export function textOfThrown(value: unknown): string {
  try {
    return SERIALIZED + v8().serialize(value).toString('base64');
  } catch {
    return String(value);
  }
}

function thrownOf(text: string): Thrown {
  if (!text.startsWith(SERIALIZED)) return { value: new Error(text) };
  return { value: v8().deserialize(Buffer.from(text.slice(SERIALIZED.length), 'base64')) as unknown };
}
