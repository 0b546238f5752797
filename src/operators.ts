/** Operators of reductions. */
import { ArgumentError, requireObject, show } from './errors.js';
import { Operator } from './schedules/encoding.js';

/** Computes b[i] = a[i] op b[i] for every i. */
export type OpFunction = (a: never, b: never) => unknown;

/** An operator. */
export class Op {
  /** What has the prototype, and a Proxy, does not have it. */
  readonly #genuine = true;

  private constructor(
    /** As MPI calls it, without `MPI_`; of an operator of {@link createOp}, the name of its function, or `USER`. */
    readonly name: string,
    /** Whether operands may change places. */
    readonly commutes: boolean,
    /** @internal */ readonly code: Operator,
    /** @internal Tells the operators of {@link createOp} apart; 0: one that node-nbc has. */
    readonly id: number,
    /** @internal Its function, or the URL of the module that has it. */
    readonly source: OpFunction | URL | null,
  ) {
    Object.freeze(this);
  }

  /** @internal Whether createOp() or this module has made it. */
  static is(value: unknown): value is Op {
    return typeof value === 'object' && value !== null && #genuine in value;
  }

  /** @internal */
  static of(name: Exclude<keyof typeof Operator, 'USER'>): Op {
    return new Op(name, true, Operator[name], 0, null);
  }

  /** @internal */
  static made(source: OpFunction | URL, commutes: boolean): Op {
    const name = typeof source === 'function' && source.name !== '' ? source.name : 'USER';
    return new Op(name, commutes, Operator.USER, ++made, source);
  }
}

/** How many operators createOp has made. */
let made = 0;

export const SUM = Op.of('SUM');
export const PROD = Op.of('PROD');
export const MIN = Op.of('MIN');
export const MAX = Op.of('MAX');
/** Logical: an element that is not 0 is true; the result is 0 or 1. For integers. */
export const LAND = Op.of('LAND');
export const LOR = Op.of('LOR');
export const LXOR = Op.of('LXOR');
/** Bitwise. For integers. */
export const BAND = Op.of('BAND');
export const BOR = Op.of('BOR');
export const BXOR = Op.of('BXOR');
/** On pairs (value, index), one behind the other in the view: the smaller value; of equal ones the lower index. */
export const MINLOC = Op.of('MINLOC');
/** As {@link MINLOC}, with the larger value. */
export const MAXLOC = Op.of('MAXLOC');

/** All operators. */
export const OPERATORS: readonly Op[] = [
  ...[SUM, PROD, MIN, MAX, LAND, LOR, LXOR, BAND, BOR, BXOR],
  ...[MINLOC, MAXLOC],
];

/** A URL. Described by what it has: without @types/node and the types of browsers TypeScript knows none. */
export interface ModuleUrl {
  readonly href: string;
}

/** Options of {@link createOp}. */
export interface OpOptions {
  /** Whether operands may change places: a op b = b op a. Then more algorithms can be used. Default: false. */
  commutative?: boolean | undefined;
}

/**
 * An operator of the program's own, for every reduction. Its function computes `b[i] = a[i] op b[i]` for every i, and
 * must be associative. `a` comes from the lower ranks. Both are views of the same length and of the element type of the
 * reduction's buffers; a reduction is computed in pieces, and how long they are is not specified.
 *
 * ```ts
 * const hypot = createOp((a: Float64Array, b: Float64Array) => {
 *   for (let i = 0; i < b.length; i++) b[i] = Math.hypot(a[i], b[i]);
 * }, { commutative: true });
 * await world.iallreduce(send, recv, hypot);
 * ```
 *
 * A function runs on the event loop, and inside `wait()` and `test()` of any request, of the thread that opened the
 * world. A module runs in a worker of its own, which imports it when the operator is first used; its default export is
 * the function. Then reductions need nobody's event loop.
 *
 * The views hold copies, which are detached when the function returns. A function that throws fails the request with an
 * {@link OperatorError}, and the requests of the other ranks that need the result with an {@link AbandonedError}. It
 * must not wait: neither return a promise nor call `wait()`.
 *
 * Make an operator once, and use it often: schedules are kept for each operator, and so is a worker. All ranks pass the
 * same one. What they compare is `commutative`, not the functions: a module of one rank may be a function of another.
 *
 * Source: MPI_Op_create.
 *
 * @param functionOrModule a function, or the URL of a module: `new URL('./op.js', import.meta.url)`
 * @throws {ArgumentError}
 */
export function createOp<View extends ArrayBufferView>(
  functionOrModule: ((a: View, b: View) => void) | ModuleUrl | string,
  options: OpOptions = {},
): Op {
  const operation = 'createOp';
  requireObject(options, 'options', { operation });
  const { commutative = false } = options;
  if (typeof commutative !== 'boolean') {
    throw new ArgumentError('commutative', `must be true or false, not ${show(commutative)}`, { operation });
  }
  return Op.made(sourceOf(functionOrModule), commutative);
}

function sourceOf(given: unknown): OpFunction | URL {
  const operation = 'createOp';
  const argument = 'functionOrModule';
  if (typeof given === 'function') {
    if (!['AsyncFunction', 'GeneratorFunction', 'AsyncGeneratorFunction'].includes(given.constructor.name)) {
      return given as OpFunction;
    }
    const message = 'must be a plain function: nobody waits for one that is async, or iterates over a generator';
    throw new ArgumentError(argument, message, { operation });
  }
  if (given instanceof URL) return new URL(given);
  if (typeof given === 'string' && URL.canParse(given)) return new URL(given);
  const message = `must be a function or a module's URL, as new URL('./op.js', import.meta.url), not ${show(given)}`;
  throw new ArgumentError(argument, message, { operation });
}
