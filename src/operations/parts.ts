/**
 * The arguments of exchanges in which every part has a buffer of its own.
 *
 * A plan knows one buffer to send from and one to receive into. Parts that lie in one ArrayBuffer are addressed in it:
 * they are sent from and received into their places. Parts that lie in several are copied here: those to send when the
 * operation starts, those received when its end is noticed.
 */
import { ArgumentError, type ErrorContext, ExhaustedError } from '../errors.js';
import { type Data, Layout } from '../layouts.js';
import { type Box, bytesOfBox, contiguous, eachBlock, extentOf, textOfBox } from '../schedules/box.js';
import { Role } from '../schedules/encoding.js';
import { checkView, IN_PLACE, kindOf } from '../views.js';
import { checkData } from './operation.js';

/** A view or a layout for each peer; null: nothing. */
export type Parts = ArrayLike<Data | null>;

/** The ranks that parts go to and come from. */
export interface Peers {
  readonly sends: ArrayLike<number | null>;
  readonly recvs: ArrayLike<number | null>;
}

/** Where the parts of a call are. */
export class Placement {
  constructor(
    readonly send: DataView | null,
    readonly recv: DataView | null,
    /** Where the parts to send are. */
    readonly from: Role,
    readonly sends: readonly Box[],
    readonly recvs: readonly Box[],
    readonly inPlace: boolean,
    /** The argument whose parts are copied, because they lie in several ArrayBuffers. */
    readonly copied: 'sends' | 'recvs' | null,
    /** To be called when the operation is complete. */
    readonly arrived: (() => void) | null,
  ) {}

  /** What tells it from others. */
  get detail(): string {
    let text = `${this.from}`;
    for (const box of this.sends) text += ` ${textOfBox(box)}`;
    text += ' /';
    for (const box of this.recvs) text += ` ${textOfBox(box)}`;
    return text;
  }
}

/**
 * @param peers the ranks to send to and to receive from; null: none, and the part is ignored
 * @throws {ArgumentError} naming `sends` or `recvs`
 */
export function place(sends: unknown, recvs: unknown, peers: Peers, context: ErrorContext): Placement {
  const into = readParts('recvs', recvs, peers.recvs, context);
  if (sends === IN_PLACE) {
    const target = memoryOf(into);
    const staged = target === null ? stage('recvs', into, true, context) : null;
    const memory = staged?.memory ?? target!;
    const boxes = staged?.boxes ?? boxesIn(into, memory);
    const arrived = staged?.arrived ?? null;
    return new Placement(
      null,
      bytesFrom(memory),
      Role.RECEIVE,
      boxes,
      boxes,
      true,
      staged === null ? null : 'recvs',
      arrived,
    );
  }
  const from = readParts('sends', sends, peers.sends, context);
  const stagedFrom = memoryOf(from) === null ? stage('sends', from, true, context) : null;
  const stagedInto = memoryOf(into) === null ? stage('recvs', into, false, context) : null;
  let source = stagedFrom?.memory ?? memoryOf(from)!;
  let target = stagedInto?.memory ?? memoryOf(into)!;
  const together = source.buffer === target.buffer && source.start < target.end && target.start < source.end;
  if (together) {
    const { buffer } = source;
    target = { buffer, start: Math.min(source.start, target.start), end: Math.max(source.end, target.end) };
    source = target;
  }
  return new Placement(
    together ? null : bytesFrom(source),
    bytesFrom(target),
    together ? Role.RECEIVE : Role.SEND,
    stagedFrom?.boxes ?? boxesIn(from, source),
    stagedInto?.boxes ?? boxesIn(into, target),
    false,
    stagedFrom !== null ? 'sends' : stagedInto !== null ? 'recvs' : null,
    stagedInto?.arrived ?? null,
  );
}

/**
 * Refuses parts that are received into each other, or into what is sent. Looks at every block, so only new plans are
 * checked.
 */
export function checkDisjoint({ from, inPlace, sends, recvs }: Placement, context: ErrorContext): void {
  const read = from === Role.RECEIVE && !inPlace ? sends : [];
  const all = [...recvs.map((box) => ({ box, written: true })), ...read.map((box) => ({ box, written: false }))];
  const extents = all.map(({ box, written }) => ({ start: box.offset, end: box.offset + extentOf(box), written }));
  if (!collide(extents)) return;
  const blocks: typeof extents = [];
  for (const { box, written } of all) {
    eachBlock(box, (start) => blocks.push({ start, end: start + box.block, written }));
  }
  if (collide(blocks)) throw new ArgumentError('recvs', 'some of them overlap each other, or what is sent', context);
}

function collide(ranges: { start: number; end: number; written: boolean }[]): boolean {
  let [reach, reachOfWrites] = [0, 0];
  for (const { start, end, written } of ranges
    .filter((range) => range.start < range.end)
    .sort((a, b) => a.start - b.start)) {
    if ((written ? reach : reachOfWrites) > start) return true;
    reach = Math.max(reach, end);
    if (written) reachOfWrites = Math.max(reachOfWrites, end);
  }
  return false;
}

/** A part of memory, with a box in it. */
interface Part {
  buffer: ArrayBufferLike;
  start: number;
  end: number;
  box: Box;
}

type Memory = Pick<Part, 'buffer' | 'start' | 'end'>;

const NOWHERE: Memory = { buffer: new ArrayBuffer(0), start: 0, end: 0 };
const NO_PART: Part = { ...NOWHERE, box: contiguous(0, 0) };

function readParts(name: string, parts: unknown, peers: Peers['sends'], context: ErrorContext): Part[] {
  if (typeof parts !== 'object' || parts === null || ArrayBuffer.isView(parts) || !('length' in parts)) {
    throw new ArgumentError(
      name,
      `must be an array with a view, a layout or null for each peer, not ${kindOf(parts)}`,
      context,
    );
  }
  if (parts.length !== peers.length) {
    throw new ArgumentError(
      name,
      `must have one for each of ${peers.length} peers, not ${String(parts.length)}`,
      context,
    );
  }
  const read: Part[] = [];
  for (let index = 0; index < peers.length; index++) {
    const data = (parts as Parts)[index];
    const view = data === null ? null : checkElement(data, name, index, context);
    read.push(view === null || peers[index] === null ? NO_PART : partOf(view, data));
  }
  return read;
}

function partOf(view: ArrayBufferView, data: unknown): Part {
  const { buffer, byteOffset: start, byteLength } = view;
  const box = data instanceof Layout ? data.box : contiguous(0, byteLength);
  return { buffer, start, end: start + byteLength, box };
}

/** The argument that an error names is the list. */
function checkElement(data: unknown, name: string, index: number, context: ErrorContext): ArrayBufferView {
  try {
    if (data instanceof Layout) return checkData(data, name, name === 'recvs', context).view;
    checkView(data, name, context);
    return data as ArrayBufferView;
  } catch (error) {
    if (!(error instanceof ArgumentError)) throw error;
    throw new ArgumentError(name, `[${index}] ${error.message.slice(name.length + 2)}`, context);
  }
}

/** The one ArrayBuffer in which all parts lie, from the first to the last byte; null: there are several. */
function memoryOf(parts: readonly Part[]): Memory | null {
  let memory = NOWHERE;
  for (const { buffer, start, end } of parts) {
    if (start === end) continue;
    if (memory === NOWHERE) memory = { buffer, start, end };
    else if (memory.buffer !== buffer) return null;
    else memory = { buffer, start: Math.min(memory.start, start), end: Math.max(memory.end, end) };
  }
  return memory;
}

function boxesIn(parts: readonly Part[], { start: begin }: Memory): Box[] {
  return parts.map(({ start, end, box }) =>
    start === end ? box : { offset: start - begin, block: box.block, steps: box.steps },
  );
}

/** As a DataView: no Uint8Array of Node.js 20 has more than 4 GiB. */
function bytesFrom({ buffer, start, end }: Memory): DataView {
  return new DataView(buffer, start, end - start);
}

interface Staged {
  memory: Memory;
  boxes: Box[];
  arrived: () => void;
}

/**
 * Memory for all parts, one behind the other; `filled` with what they hold.
 * @throws {ExhaustedError} where there is not so much memory, or no view of so much
 */
function stage(name: string, parts: readonly Part[], filled: boolean, context: ErrorContext): Staged {
  let total = 0;
  const boxes = parts.map(({ box }) => {
    const bytes = bytesOfBox(box);
    return contiguous((total += bytes) - bytes, bytes);
  });
  const staged = bytesForStaging(name, total, context);
  const copy = (out: boolean): void => {
    for (const [index, part] of parts.entries()) {
      // The program may have transferred the memory meanwhile: then there is nothing to copy to.
      if (boxes[index].block === 0 || part.buffer.byteLength < part.end) continue;
      const { block } = part.box;
      let at = boxes[index].offset;
      eachBlock(part.box, (offset) => {
        const packed = staged.subarray(at, (at += block));
        const own = new Uint8Array(part.buffer as ArrayBuffer, part.start + offset, block);
        if (out) own.set(packed);
        else packed.set(own);
      });
    }
  };
  if (filled) copy(false);
  return { memory: { buffer: staged.buffer, start: 0, end: total }, boxes, arrived: () => copy(true) };
}

function bytesForStaging(name: string, bytes: number, context: ErrorContext): Uint8Array<ArrayBuffer> {
  try {
    return new Uint8Array(bytes);
  } catch {
    const message = `${name}: to copy ${bytes} bytes of parts in several ArrayBuffers takes too much memory; use one`;
    throw new ExhaustedError('ERR_NBC_NO_MEMORY', message, context);
  }
}
