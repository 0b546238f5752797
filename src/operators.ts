/** Operators of reductions. */
import { Operator } from './schedules/encoding.js';

/** An operator. */
export class Op {
  /** Whether operands may change places; all operators that node-nbc has commute. */
  readonly commutes = true as boolean;

  private constructor(
    /** As MPI calls it, without `MPI_`. */
    readonly name: keyof typeof Operator,
    /** @internal */ readonly code: Operator,
  ) {}

  /** @internal */
  static of(name: keyof typeof Operator): Op {
    return Object.freeze(new Op(name, Operator[name]));
  }
}

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
