/**
 * The last calls of an exchange of parts. {@link place} looks at every part and makes some objects for each; a program
 * that repeats a call needs comparisons only. Remembered is where parts are in their memory. The memory itself is only
 * kept where it is small: then a call with the same views makes no view of its own, which takes as long as all the rest
 * of it.
 */
import { bind, type Binder, type Bound, isSmallMemory, unbind } from '../bound-calls.js';
import { isLayout } from '../layouts.js';
import { Recent } from '../recent.js';
import { type Box, equalBoxes } from '../schedules/box.js';
import { IN_PLACE } from '../views.js';
import type { Placement } from './parts.js';

/** More parts are looked at in each call. */
const MAX_PARTS = 4096;

/** The one that the caller named. */
type Algorithm = string | undefined;

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
  readonly algorithm: Algorithm;
  readonly plan: number;
}

interface Range {
  readonly offset: number;
  readonly bytes: number;
}

/** A call in small memory, with the very views that it had. Its plan is bound to that memory. */
interface Kept extends Found, Bound {
  /** null: in place. */
  readonly sends: readonly unknown[] | null;
  readonly recvs: readonly unknown[];
  readonly from: ArrayBufferLike | null;
  readonly into: ArrayBufferLike;
  readonly algorithm: Algorithm;
}

/** A remembered call, with the memory of this one. */
export interface Found {
  readonly plan: number;
  readonly send: DataView | null;
  readonly recv: DataView;
}

export class RecentParts {
  private readonly calls = new Recent<Call>();
  private readonly kept = new Recent<Kept>();
  /** What the last call received into, if its memory is small. */
  private lastList: unknown = null;

  constructor(private readonly binder: Binder) {}

  find(sends: unknown, recvs: unknown, algorithm: Algorithm): Found | null {
    for (const call of this.kept.items) {
      if (algorithm === call.algorithm && isAgain(call, sends, recvs)) return call;
    }
    const ends = endsOf(sends, recvs);
    if (ends === null) return null;
    const { from, into, distance } = ends;
    for (const call of this.calls.items) {
      if (algorithm !== call.algorithm || !Object.is(call.distance, distance)) continue;
      if (!equalForms(recvs as unknown[], call.recvs, into) || !equalSends(sends, call.sends, from)) continue;
      const send = call.sendView === null ? null : viewAt(from!, call.sendView);
      const found = { plan: call.plan, send, recv: viewAt(into, call.recvView) };
      this.keep(sends, recvs, ends, algorithm, found);
      return found;
    }
    return null;
  }

  /** @param placement what {@link place} made of the parts */
  remember(sends: unknown, recvs: unknown, placement: Placement, algorithm: Algorithm, plan: number): void {
    const { send, recv, copied } = placement;
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
    this.calls.add({ sends: sendForms, recvs: recvForms, distance, sendView, recvView, algorithm, plan });
    this.keep(sends, recvs, ends, algorithm, { plan, send, recv });
  }

  /** A program that makes its lists anew for each call would pay for the copies and have nothing of them. */
  private keep(sends: unknown, recvs: unknown, { from, into }: Ends, algorithm: Algorithm, found: Found): void {
    const memory = { from: from === null ? null : from.buffer, into: into.buffer };
    if (!isSmallMemory(memory.from) || !isSmallMemory(memory.into)) return;
    const again = recvs === this.lastList;
    this.lastList = recvs;
    if (!again || hasLayout(recvs) || (from !== null && hasLayout(sends))) return;
    const parts = { sends: from === null ? null : [...(sends as unknown[])], recvs: [...(recvs as unknown[])] };
    const bound = bind(this.binder, found.plan, found.send, found.recv);
    const makesRoom = this.kept.add({ ...parts, ...memory, ...found, ...bound, algorithm });
    if (makesRoom !== undefined) unbind(this.binder, makesRoom);
  }

  /** As {@link forget}, while native code is there: it lets go of the memory. */
  release(): void {
    for (const call of this.kept.items) unbind(this.binder, call);
    this.forget();
  }

  forget(): void {
    this.calls.clear();
    this.kept.clear();
    this.lastList = null;
  }
}

function hasLayout(parts: unknown): boolean {
  return (parts as unknown[]).some(isLayout);
}

/** Memory without bytes is detached: what has none is not remembered. */
function isAgain({ sends, recvs, from, into }: Kept, sendsNow: unknown, recvsNow: unknown): boolean {
  if (!sameParts(recvsNow, recvs) || into.byteLength === 0) return false;
  if (sends === null) return sendsNow === IN_PLACE;
  return sameParts(sendsNow, sends) && from!.byteLength > 0;
}

function sameParts(now: unknown, parts: readonly unknown[]): boolean {
  if (!Array.isArray(now) || now.length !== parts.length) return false;
  for (let i = 0; i < parts.length; i++) {
    if (now[i] !== parts[i]) return false;
  }
  return true;
}

/** The memory of a view or layout. */
function memoryOf(part: unknown): ArrayBufferView | null {
  if (ArrayBuffer.isView(part)) return part;
  return isLayout(part) ? part.range : null;
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
  return isLayout(part) ? part.box : (part as object | undefined)?.constructor;
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
