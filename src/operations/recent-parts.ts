/**
 * The last calls of an exchange of parts. {@link place} looks at every part and makes some objects for each; a program
 * that repeats a call needs comparisons only. Remembered is where parts are in their memory, never the memory itself.
 */
import { Layout } from '../layouts.js';
import { Recent } from '../recent.js';
import { type Box, equalBoxes } from '../schedules/box.js';
import { IN_PLACE } from '../views.js';
import type { Placement } from './parts.js';

/** More parts are looked at in each call. */
const MAX_PARTS = 4096;

/** A part of a call. */
interface Form {
  readonly kind: Kind;
  readonly bytes: number;
  /** From the first byte of the first part on. */
  readonly offset: number;
}

interface Call {
  /** null: in place. */
  readonly sends: readonly Form[] | null;
  readonly recvs: readonly Form[];
  /** From the first part received to the first one sent, where both are in one ArrayBuffer; NaN: they are not. */
  readonly distance: number;
  /** What native code is given: from the first part sent, or received, on. */
  readonly sendView: Range | null;
  readonly recvView: Range;
  readonly plan: number;
}

interface Range {
  readonly offset: number;
  readonly bytes: number;
}

/** A remembered call, with the memory of this one. */
export interface Found {
  readonly plan: number;
  readonly send: DataView | null;
  readonly recv: DataView;
}

export class RecentParts {
  private readonly calls = new Recent<Call>();

  find(sends: unknown, recvs: unknown): Found | null {
    const ends = endsOf(sends, recvs);
    if (ends === null) return null;
    const { from, into, distance } = ends;
    for (const call of this.calls.items) {
      if (!Object.is(call.distance, distance) || !equalForms(recvs as unknown[], call.recvs, into)) continue;
      if (!equalSends(sends, call.sends, from)) continue;
      const send = call.sendView === null ? null : viewAt(from!, call.sendView);
      return { plan: call.plan, send, recv: viewAt(into, call.recvView) };
    }
    return null;
  }

  /** @param placement what {@link place} made of the parts */
  remember(sends: unknown, recvs: unknown, { send, recv, copied }: Placement, plan: number): void {
    const ends = endsOf(sends, recvs);
    if (ends === null || copied !== null || recv === null) return;
    const { from, into, distance } = ends;
    // Where there is nothing to exchange, as at the end of a grid, the placement is in no memory of the program.
    if (recv.buffer !== into.buffer || (send !== null && send.buffer !== from?.buffer)) return;
    const recvForms = formsOf(recvs as unknown[], into);
    const sendForms = from === null ? null : formsOf(sends as unknown[], from);
    if (recvForms === undefined || sendForms === undefined) return;
    const sendView = send === null ? null : rangeFrom(from!, send);
    const recvView = rangeFrom(into, recv);
    this.calls.add({ sends: sendForms, recvs: recvForms, distance, sendView, recvView, plan });
  }

  forget(): void {
    this.calls.clear();
  }
}

/** The memory of a view or layout. */
function memoryOf(part: unknown): ArrayBufferView | null {
  if (part instanceof Layout) return part.range;
  return ArrayBuffer.isView(part) ? part : null;
}

interface Ends {
  /** The first part to send; null: in place. */
  readonly from: ArrayBufferView | null;
  /** The first part to receive. */
  readonly into: ArrayBufferView;
  readonly distance: number;
}

/** null: a call that is not remembered. */
function endsOf(sends: unknown, recvs: unknown): Ends | null {
  const into = firstOf(recvs);
  if (into === null) return null;
  if (sends === IN_PLACE) return { from: null, into, distance: NaN };
  const from = firstOf(sends);
  if (from === null) return null;
  return { from, into, distance: from.buffer === into.buffer ? from.byteOffset - into.byteOffset : NaN };
}

/** The memory of the first part. null: there is none, or memory that operations do not take. */
function firstOf(parts: unknown): ArrayBufferView | null {
  if (!Array.isArray(parts) || parts.length > MAX_PARTS) return null;
  for (const part of parts as unknown[]) {
    if (part === null) continue;
    const view = memoryOf(part);
    if (view === null) return null;
    const { byteLength, resizable, growable } = view.buffer as Memory;
    // Memory without bytes may be detached.
    return byteLength === 0 || resizable === true || growable === true ? null : view;
  }
  return null;
}

/** What ArrayBuffers of some runtimes say. */
type Memory = ArrayBufferLike & { resizable?: boolean; growable?: boolean };

/** Undefined: parts that cannot be told by where they are, because they have no bytes or do not lie in one memory. */
function formsOf(parts: readonly unknown[], first: ArrayBufferView): Form[] | undefined {
  const forms: Form[] = [];
  for (const part of parts) {
    const view = memoryOf(part);
    if (view === null) forms.push({ kind: null, bytes: 0, offset: 0 });
    else if (view.byteLength === 0 || view.buffer !== first.buffer) return undefined;
    else forms.push({ kind: kindOf(part), bytes: view.byteLength, offset: view.byteOffset - first.byteOffset });
  }
  return forms;
}

function equalSends(sends: unknown, forms: readonly Form[] | null, first: ArrayBufferView | null): boolean {
  if (first === null || forms === null) return first === forms;
  return equalForms(sends as unknown[], forms, first);
}

function equalForms(parts: readonly unknown[], forms: readonly Form[], first: ArrayBufferView): boolean {
  if (parts.length !== forms.length) return false;
  const { buffer, byteOffset } = first;
  for (let i = 0; i < forms.length; i++) {
    const { kind, bytes, offset } = forms[i];
    const part = parts[i];
    if (!equalKinds(kindOf(part), kind)) return false;
    if (part === null) continue;
    const view = memoryOf(part);
    if (view?.buffer !== buffer) return false;
    if (view.byteLength !== bytes || view.byteOffset - byteOffset !== offset) return false;
  }
  return true;
}

type Kind = object | null | undefined;

/** The class of a view, the box of a layout; null: no part. */
function kindOf(part: unknown): Kind {
  if (part === null) return null;
  return part instanceof Layout ? part.box : (part as object | undefined)?.constructor;
}

/** Programs make a layout anew for each call: boxes are compared by what is in them. */
function equalKinds(a: Kind, b: Kind): boolean {
  return a === b || (isBox(a) && isBox(b) && equalBoxes(a, b));
}

function isBox(kind: Kind): kind is Box {
  return typeof kind === 'object' && kind !== null; // a class is a function
}

function rangeFrom(first: ArrayBufferView, { byteOffset, byteLength }: DataView): Range {
  return { offset: byteOffset - first.byteOffset, bytes: byteLength };
}

function viewAt(first: ArrayBufferView, { offset, bytes }: Range): DataView {
  return new DataView(first.buffer, first.byteOffset + offset, bytes);
}
