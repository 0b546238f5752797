/**
 * Buffers that the program drops, detaches or gives away while an operation uses them. Two ranks; needs `--expose-gc`.
 *
 * Data must still come from, and go to, the memory it was meant for, and memory that was freed and used again must stay
 * as it is. Each scenario makes sure that data moves only after the buffer is gone: the other side joins when it is
 * told to.
 */
import assert from 'node:assert/strict';
import { Worker } from 'node:worker_threads';
import { alloc, type Communicator, init, type Request, waitAll } from 'node-nbc';
import { WasmMemory } from '../support/wasm.js';
import { assertBytes, piece } from './noise.js';
import { play, report } from './scenario.js';

/** A rendezvous, shared by both copiers, in several pieces. */
const BYTES = 300_000;
/** They differ by the number modulo 2 and modulo 3. */
const REPETITIONS = process.env['NBC_TEST_BRIEF'] === '1' ? 6 : 12;
/** Tags: for the signal to go on, and for data. */
const GO = 1;
const DATA = 2;

/** The library works with copies of buffers: then what arrives for a lost one is lost, and the request says so. */
const COPIES = process.env['NBC_BUFFERS'] === 'copy' || 'Deno' in globalThis || 'Bun' in globalThis;

const gc = globalThis.gc!;
const untouched = new Uint8Array(BYTES).fill(0x77);

const world = await init();

await play({ dropped, transferred, lent, posted, grown, collected, small, released, allocated });
await world.close();

function makers(): ((bytes: number) => Uint8Array)[] {
  return [(bytes) => new Uint8Array(bytes), (bytes) => alloc(Uint8Array, bytes), (bytes) => Buffer.alloc(bytes)];
}

/** Whether what was expected has arrived. */
type Check = (expected: Uint8Array) => void;

/**
 * Rank 0 starts to send a buffer, then to receive one, both large, and loses each at once; rank 1 joins only then.
 * `lose` may return a check of what arrived where the memory is now. `lost`: the view has no memory any more.
 */
async function exchange(
  number: number,
  make: (bytes: number) => Uint8Array,
  lose: (view: Uint8Array) => Check | undefined | Promise<Check | undefined>,
  lost = false,
): Promise<void> {
  const there = piece(number, 0, 1, BYTES);
  const back = piece(number, 1, 0, BYTES);
  const signal = (peer: number): void => world.isend(new Uint8Array(1), peer, GO).wait();
  const expect = (peer: number): void => world.irecv(new Uint8Array(1), peer, GO).wait();
  if (world.rank === 0) {
    const keep = sendAndForget(there);
    await loseIt(keep);
    const junk = useFreedMemory();
    signal(1);
    expect(1); // it has received
    junk.check();

    const received = receiveAndForget();
    const { request } = received;
    received.request = null;
    const seen = await loseIt(received);
    const moreJunk = useFreedMemory();
    signal(1);
    expect(1); // it has sent
    moreJunk.check();
    seen?.(back);
    if (lost && COPIES) assert.throws(() => request!.wait(), { code: 'ERR_NBC_DETACHED' });
    else request?.wait();
  } else {
    expect(0);
    const target = new Uint8Array(BYTES);
    world.irecv(target, 0, DATA).wait();
    assertBytes(target, there, `exchange ${number}: what was sent from a lost buffer`);
    signal(0);

    expect(0);
    world.isend(Uint8Array.from(back), 0, DATA).wait();
    signal(0);
  }

  // Functions of their own, so that nothing on this stack holds the view.
  function sendAndForget(content: Uint8Array): { view: Uint8Array | null } {
    const view = make(BYTES);
    view.set(content);
    world.isend(view, 1, DATA);
    return { view };
  }
  function receiveAndForget(): { view: Uint8Array | null; request: Request | null } {
    const view = make(BYTES);
    const request = world.irecv(view, 1, DATA);
    return { view, request: number % 3 === 1 || lost ? request : null };
  }
  async function loseIt(holder: { view: Uint8Array | null }): Promise<Check | undefined> {
    const view = holder.view!;
    holder.view = null;
    return lose(view);
  }
}

/** Frees what can be freed, and takes memory of the same size: it must not change. */
function useFreedMemory(): { check(): void } {
  gc();
  const junk = Array.from({ length: 4 }, () => new Uint8Array(BYTES));
  junk.push(alloc(Uint8Array, BYTES), alloc(Uint8Array, BYTES));
  for (const block of junk) block.set(untouched);
  gc();
  return {
    check() {
      for (const block of junk)
        assertBytes(block, untouched, 'memory that had been freed and is used for something else');
    },
  };
}

/** The program keeps neither the view nor the request. */
async function dropped(): Promise<void> {
  for (let number = 0; number < REPETITIONS; number++) {
    await exchange(number, makers()[number % 3], () => {});
  }
}

/** The ArrayBuffer is transferred: the view is detached, the memory lives on in another object, or in none. */
async function transferred(): Promise<void> {
  for (let number = 0; number < REPETITIONS; number++) {
    const keep = number % 2 === 0;
    await exchange(
      number,
      (bytes) => new Uint8Array(bytes),
      (view) => {
        const content = Uint8Array.from(view);
        const moved = structuredClone(view, { transfer: [view.buffer as ArrayBuffer] });
        assert.equal(view.byteLength, 0, 'the view is detached');
        if (!keep) return;
        return (expected) =>
          assertBytes(moved, COPIES ? content : expected, 'what arrived after the buffer had been transferred');
      },
      true,
    );
  }
}

/**
 * The same with memory of alloc(), which needs no copy in any runtime. Node.js 20 copies it instead, later versions and
 * Bun refuse; in Deno what arrives is in the transferred buffer.
 */
async function lent(): Promise<void> {
  for (let number = 0; number < REPETITIONS; number++) {
    const keep = number % 2 === 0;
    await exchange(
      number,
      (bytes) => alloc(Uint8Array, bytes),
      (view) => {
        let place = view;
        try {
          const moved = structuredClone(view, { transfer: [view.buffer as ArrayBuffer] });
          if (view.byteLength === 0) place = moved;
        } catch (error) {
          assert.equal((error as Error).name, 'DataCloneError');
        }
        if (!keep) return;
        return (expected) => assertBytes(place, expected, 'what arrived in memory of alloc()');
      },
    );
  }
}

/** The ArrayBuffer is given to a worker, which drops it and ends. */
async function posted(): Promise<void> {
  for (let number = 0; number < 3; number++) {
    await exchange(
      number,
      (bytes) => new Uint8Array(bytes),
      async (view) => {
        const worker = new Worker("require('node:worker_threads').parentPort.once('message', () => {})", {
          eval: true,
        });
        const ended = new Promise((resolve) => worker.once('exit', resolve));
        worker.postMessage(view, [view.buffer as ArrayBuffer]);
        assert.equal(view.byteLength, 0, 'the view is detached');
        await ended;
        return () => {};
      },
      true,
    );
  }
}

/** The view is of a WebAssembly memory that grows: its ArrayBuffer is detached, and the memory may move. */
async function grown(): Promise<void> {
  const memories = new WeakMap<ArrayBuffer, WasmMemory>();
  for (let number = 0; number < REPETITIONS; number++) {
    await exchange(
      number,
      (bytes) => {
        const memory = new WasmMemory({ initial: Math.ceil(bytes / 65_536) });
        memories.set(memory.buffer, memory);
        return new Uint8Array(memory.buffer, 0, bytes);
      },
      (view) => {
        memories.get(view.buffer as ArrayBuffer)!.grow(16);
        assert.equal(view.byteLength, 0, 'the view is detached');
      },
      true,
    );
  }
}

/** Collectives on buffers that nobody else holds, with a collection after every start. */
async function collected(): Promise<void> {
  const { rank, size } = world;
  const peer = 1 - rank;
  for (let number = 0; number < 2.5 * REPETITIONS; number++) {
    const make = makers()[number % 3];
    const block = number % 2 === 0 ? 100 : BYTES / 2;
    const receive = make(size * block);
    const requests = [start(number, make, block, receive)];
    gc();
    requests.push(world.ibcast(filled(make, block, number), number % 2));
    gc();
    const junk = useFreedMemory();
    for (const request of requests) await request;
    junk.check();
    for (let from = 0; from < size; from++) {
      const arrived = receive.subarray(from * block, (from + 1) * block);
      assertBytes(arrived, piece(number, from, rank, block), `ialltoall ${number}, from rank ${from} (peer ${peer})`);
    }
  }

  function start(number: number, make: (bytes: number) => Uint8Array, block: number, receive: Uint8Array) {
    const send = make(size * block);
    for (let to = 0; to < size; to++) send.set(piece(number, rank, to, block), to * block);
    return world.ialltoall(send, receive);
  }
  function filled(make: (bytes: number) => Uint8Array, bytes: number, number: number): Uint8Array {
    const view = make(bytes);
    view.set(piece(number, 0, 0, bytes));
    return view;
  }
}

/** Typed arrays so small that V8 keeps their bytes inside the object, which a collection moves. */
async function small(): Promise<void> {
  const { rank } = world;
  for (let number = 0; number < 100; number++) {
    if (rank === 0) {
      const views = Array.from({ length: 20 }, () => new Uint8Array(8));
      const requests = views.map((view, tag) => world.irecv(view, 1, tag));
      gc();
      world.isend(new Uint8Array(1), 1, GO + 100).wait();
      for (const request of requests) request.wait();
      for (const [tag, view] of views.entries())
        assertBytes(view, piece(number, 0, tag, 8), `message ${number}.${tag}`);
    } else {
      world.irecv(new Uint8Array(1), 0, GO + 100).wait();
      const sends = Array.from({ length: 20 }, (_, tag) =>
        world.isend(Uint8Array.from(piece(number, 0, tag, 8)), 0, tag),
      );
      gc();
      waitAll(sends); // more than there are slots: to close with some of them pending would be an error at the peer
    }
  }
}

/** Once an operation has ended, nothing holds its buffers or its request any more. */
async function released(): Promise<void> {
  let finalized = 0;
  const registry = new FinalizationRegistry<string>(() => finalized++);
  const count = 30;
  for (let number = 0; number < count; number++) startOne(number);
  await sync(world);
  for (let tries = 0; tries < 100 && finalized < 3 * count; tries++) {
    gc();
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  report({ finalized, expected: 3 * count });

  function startOne(number: number): void {
    const bytes = number % 2 === 0 ? 64 : BYTES;
    const [send, receive] = [new Uint8Array(bytes), new Uint8Array(bytes)];
    const request = world.ialltoall(send, receive);
    registry.register(send.buffer, 'send');
    registry.register(receive.buffer, 'receive');
    registry.register(request, 'request');
    if (number % 3 === 0) request.wait();
  }
}

/** Memory of alloc() comes back after a collection, and is zeroed when it is handed out again. */
async function allocated(): Promise<void> {
  const before = world.stats().allocatedBytes;
  const zeros = new Uint8Array(1 << 20);
  let most = 0;
  for (let number = 0; number < 200; number++) {
    const memory = alloc(Uint8Array, 1 << 20);
    assertBytes(memory, zeros, 'what alloc() hands out');
    memory.fill(0xff);
    most = Math.max(most, world.stats().allocatedBytes);
    if (number % 10 === 9) {
      gc();
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
  gc();
  await new Promise((resolve) => setImmediate(resolve));
  report({ before, most, after: world.stats().allocatedBytes });
}

async function sync(communicator: Communicator): Promise<void> {
  await communicator.igather(new Uint8Array(1), communicator.rank === 0 ? new Uint8Array(communicator.size) : null, 0);
  await communicator.ibcast(new Uint8Array(1), 0);
}
