/** What the reductions share: how their arguments become a shape. */
import { Op, OPERATORS } from '../operators.js';
import { show } from '../errors.js';
import { nameOfType } from '../elements.js';
import { isDefined, isPaired } from '../schedules/encoding.js';
import type { ReduceShape } from '../schedules/combine.js';
import type { Call, Checked } from './operation.js';

export const THAKUR =
  'Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in MPICH", 2005';

/** The shape of a reduction of `bytes` from a rank's point of view. `data`: a buffer of elements to be combined. */
export function reduceShape(call: Call, data: Checked, bytes: number, inPlace: boolean): ReduceShape {
  const { op } = call;
  if (!Op.is(op)) {
    return call.refuse(
      'op',
      `must be an operator (${OPERATORS.map(({ name }) => name).join(', ')}, or of createOp), not ${show(op)}`,
    );
  }
  const { type, width } = data;
  if (!isDefined(op.code, type)) call.refuse('op', `${op.name} is not defined for ${nameOfType(type)}`);
  const unit = width * (isPaired(op.code) ? 2 : 1);
  if (bytes % unit !== 0) call.refuse('op', `${op.name} needs pairs: an even number of elements in every block`);
  const detail = op.id === 0 ? `${op.code} ${type}` : `${op.code} ${type} ${op.id}`;
  const { rank, size, root, hosts, crowded } = call.shape(bytes, inPlace);
  // Not by spreading the shape: that takes 6 µs, and this is done in every look-up.
  const { code: operator, commutes } = op;
  return { rank, size, root, bytes, inPlace, hosts, crowded, operator, type, unit, commutes, detail };
}

/** Buffers of equal length, at every rank: of iallreduce and the scans. */
export function reduceToAll(call: Call): ReduceShape {
  const recv = call.view('recv');
  if (call.sendInPlace) return reduceShape(call, recv, recv.bytes, true);
  const send = call.view('send');
  checkEqual(call, send, recv);
  return reduceShape(call, send, send.bytes, false);
}

/** Buffers that are combined must agree in length and, other than those that are moved, in type. */
export function checkEqual(call: Call, send: Checked, recv: Checked, bytes = recv.bytes): void {
  if (send.type !== recv.type) {
    call.refuse('recv', `has elements of type ${nameOfType(recv.type)}, and send of type ${nameOfType(send.type)}`);
  }
  if (send.bytes !== bytes) call.refuse('recv', `does not go with send, which has ${send.bytes} bytes, not ${bytes}`);
  call.checkPair(send, recv);
}
