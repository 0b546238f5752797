/**
 * Every kind of view in every operation: as a whole and as a part of its memory, plain, from alloc() and shared between
 * threads. Three ranks.
 */
import assert from 'node:assert/strict';
import { alloc, type Communicator, IN_PLACE, init, type Request } from 'node-nbc';
import { assertBytes, piece } from './noise.js';
import { report } from './scenario.js';

/** Elements of a block: in the mailbox, around what a small array keeps inside its object, and by rendezvous. */
const LENGTHS = [0, 1, 3, 8, 9, 40_000];

type Maker = (bytes: number) => ArrayBufferView;

interface ArrayClass {
  new (length: number): ArrayBufferView & { length: number };
  new (buffer: ArrayBufferLike, byteOffset: number, length: number): ArrayBufferView & { length: number };
  readonly BYTES_PER_ELEMENT: number;
  readonly name: string;
}

const arrays: ArrayClass[] = [
  Int8Array,
  Uint8Array,
  Uint8ClampedArray,
  Int16Array,
  Uint16Array,
  Int32Array,
  Uint32Array,
  Float32Array,
  Float64Array,
  BigInt64Array,
  BigUint64Array,
];

/** By name: makes a view of so many bytes, a multiple of 8. */
const makers: Record<string, Maker> = {};
for (const View of arrays) {
  const width = View.BYTES_PER_ELEMENT;
  makers[View.name] = (bytes) => new View(bytes / width);
  makers[`${View.name} from alloc()`] = (bytes) => alloc(View, bytes / width);
  makers[`${View.name}, in the middle`] = (bytes) => new View(new ArrayBuffer(bytes + 4 * width), width, bytes / width);
  makers[`${View.name}, shared`] = (bytes) => new View(new SharedArrayBuffer(bytes + width), width, bytes / width);
}
makers['subarray of alloc()'] = (bytes) => alloc(Uint16Array, bytes / 2 + 7).subarray(3, bytes / 2 + 3);
makers['DataView'] = (bytes) => new DataView(new ArrayBuffer(bytes));
makers['DataView, odd offset'] = (bytes) => new DataView(new ArrayBuffer(bytes + 10), 5, bytes);
makers['DataView from alloc()'] = (bytes) => alloc(DataView, bytes);
makers['DataView, shared'] = (bytes) => new DataView(new SharedArrayBuffer(bytes + 1), 1, bytes);
makers['Buffer'] = (bytes) => Buffer.alloc(bytes);
makers['Buffer from the pool'] = (bytes) => Buffer.allocUnsafe(bytes);
makers['Buffer from alloc()'] = (bytes) => alloc(Buffer, bytes);
makers['Buffer, a slice'] = (bytes) => Buffer.alloc(bytes + 3).subarray(1, bytes + 1);
makers['of WebAssembly memory'] = (bytes) => new Uint8Array(wasmMemory(bytes), 8, bytes);

const world = await init();
const names = Object.keys(makers);
for (const [index, name] of names.entries()) {
  // The ranks of an operation may have different kinds; views of bytes go with every type.
  const bytes = ['Uint8Array', 'Buffer', 'DataView', 'Uint8Array from alloc()'][(index + world.rank) % 4];
  for (const other of [name, bytes]) {
    for (const length of LENGTHS) await all(world, index, name, makers[name], makers[other], 8 * length);
  }
}
inherited();
await world.close();
report(names.length);

function bytesOf(view: ArrayBufferView): Uint8Array {
  return new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
}

/** By way of the event loop, unless that would only poll and keep the other ranks from running. */
async function end(request: Request): Promise<void> {
  if (process.env['NBC_PROGRESS'] === 'manual') request.wait();
  else await request;
}

/** Fills the memory around a view with marks; the function returned checks that they are there. */
function guard(view: ArrayBufferView): () => void {
  const memory = new Uint8Array(view.buffer);
  if (memory.length > 2 * view.byteLength + 1000) return () => {}; // the pool of Buffer has other users
  const [start, end] = [view.byteOffset, view.byteOffset + view.byteLength];
  memory.fill(0xa7, 0, start).fill(0xa7, end);
  return () => {
    assert(memory.subarray(0, start).every((byte) => byte === 0xa7));
    assert(memory.subarray(end).every((byte) => byte === 0xa7));
  };
}

async function all(
  communicator: Communicator,
  number: number,
  what: string,
  makeSend: Maker,
  makeReceive: Maker,
  bytes: number,
): Promise<void> {
  const { rank, size } = communicator;
  const root = number % size;
  const label = `${what}, ${bytes} bytes`;

  const message = makeReceive(bytes);
  const checks = [guard(message)];
  if (rank === root) bytesOf(message).set(piece(number, root, 0, bytes));
  await end(communicator.ibcast(message, root));
  assertBytes(bytesOf(message), piece(number, root, 0, bytes), `ibcast, ${label}`);

  for (const inPlace of [false, true]) {
    const block = makeSend(bytes);
    bytesOf(block).set(piece(number, rank, 1, bytes));
    const blocks = rank === root ? makeReceive(size * bytes) : null;
    if (blocks !== null) checks.push(guard(blocks));
    if (blocks !== null && inPlace) bytesOf(blocks).set(bytesOf(block), rank * bytes);
    communicator.igather(inPlace && rank === root ? IN_PLACE : block, blocks, root).wait();
    for (let from = 0; blocks !== null && from < size; from++) {
      const arrived = bytesOf(blocks).subarray(from * bytes, (from + 1) * bytes);
      assertBytes(arrived, piece(number, from, 1, bytes), `igather, ${label}`);
    }

    const receive = makeReceive(size * bytes);
    const send = inPlace ? receive : makeSend(size * bytes);
    checks.push(guard(receive), guard(send));
    for (let to = 0; to < size; to++) bytesOf(send).set(piece(number, rank, to, bytes), to * bytes);
    await end(communicator.ialltoall(inPlace ? IN_PLACE : send, receive));
    for (let from = 0; from < size; from++) {
      const arrived = bytesOf(receive).subarray(from * bytes, (from + 1) * bytes);
      assertBytes(arrived, piece(number, from, rank, bytes), `ialltoall, ${label}`);
    }
  }

  const [next, previous] = [(rank + 1) % size, (rank + size - 1) % size];
  const into = makeReceive(bytes);
  const out = makeSend(bytes);
  checks.push(guard(into));
  bytesOf(out).set(piece(number, rank, next, bytes));
  const requests = [communicator.irecv(into, previous, 3), communicator.isend(out, next, 3)];
  for (const request of requests) request.wait();
  assertBytes(bytesOf(into), piece(number, previous, rank, bytes), `message, ${label}`);
  for (const check of checks) check();
}

/** alloc() makes what it is asked for: of the class, zeroed, apart from others, also of a class of the user's own. */
function inherited(): void {
  class Samples extends Float32Array {}
  const samples = alloc(Samples, 100);
  assert(samples instanceof Samples);
  assert.equal(samples.length, 100);
  assert(samples.every((value) => value === 0));
  for (const View of arrays) {
    const view = alloc(View, 5);
    assert(view instanceof View);
    assert.equal(view.length, 5);
    assert.equal(view.byteLength, 5 * View.BYTES_PER_ELEMENT);
    assert.equal(alloc(View, 0).length, 0);
  }
  const exact: BigInt64Array = alloc(BigInt64Array, 2);
  exact[1] = -(2n ** 63n);
  assert.equal(exact[1], -(2n ** 63n));
  assert(Buffer.isBuffer(alloc(Buffer, 3)));
  assert.equal(alloc(DataView, 9).byteLength, 9);
}

function wasmMemory(bytes: number): ArrayBuffer {
  const { Memory } = (
    globalThis as unknown as { WebAssembly: { Memory: new (type: { initial: number }) => { buffer: ArrayBuffer } } }
  ).WebAssembly;
  return new Memory({ initial: Math.ceil((bytes + 8) / 65_536) }).buffer;
}
