/** Operators of the program's own, on bytes, for oracle.ts: by the names that its table has. */
import { createOp, type Op } from 'node-nbc';
import affine from './programs/operators/affine.js';

/** Composes maps x → p x + q of numbers below 16, with p in the upper half of a byte: it does not commute. */
export const AFFINE = createOp(affine, { commutative: false });

/** Exclusive or: a function that commutes. */
export const XOR = createOp(
  function BXOR(a: Uint8Array, b: Uint8Array) {
    for (let i = 0; i < b.length; i++) b[i] ^= a[i];
  },
  { commutative: true },
);

const nameIt = (op: Op, name: string): Op => {
  const { commutes, code, id, source } = op as Op & Record<'code' | 'id' | 'source', unknown>;
  return Reflect.construct(op.constructor, [name, commutes, code, id, source]) as Op;
};

/** The same, in workers. */
export const AFFINE_MODULE = nameIt(createOp(new URL('./programs/operators/affine.js', import.meta.url)), 'AFFINE');
export const XOR_MODULE = nameIt(
  createOp('data:text/javascript,export default (a, b) => a.forEach((value, i) => { b[i] ^= value; })', {
    commutative: true,
  }),
  'BXOR',
);
