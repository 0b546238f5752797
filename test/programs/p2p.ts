/** Point-to-point messages; see p2p.test.ts. */
import assert from 'node:assert/strict';
import { AbandonedError, alloc, init, type Request, startall, TruncatedError, waitAll } from 'node-nbc';
import { assertBytes } from './noise.js';
import { play } from './scenario.js';

const world = await init();
const { rank, size } = world;
const peer = (rank + 1) % size;
const before = (rank + size - 1) % size;

/** Byte i of message n. */
const byteOf = (n: number, i: number): number => (n * 37 + i * 11 + 5) & 255;
function message(n: number, bytes: number): Uint8Array {
  const data = new Uint8Array(bytes);
  for (let i = 0; i < bytes; i++) data[i] = byteOf(n, i);
  return data;
}

function check(data: Uint8Array, n: number, what: string): void {
  assertBytes(data, message(n, data.length), `${what}, message ${n}`);
}

await play({
  /**
   * Messages of one tag arrive in the order in which they were sent, small and large ones mixed; other tags don't
   * matter.
   */
  order() {
    const sizes = [0, 1, 24, 25, 4096, 4097, 100_000];
    const count = 300;
    const pending: Request[] = [];
    const received: Uint8Array[] = [];
    for (let n = 0; n < count; n++) pending.push(world.isend(message(n, sizes[n % sizes.length]), peer, n % 3));
    // Tags in another order than they were sent in, but each tag in its own.
    for (const tag of [2, 0, 1]) {
      for (let n = tag; n < count; n += 3) {
        received[n] = new Uint8Array(sizes[n % sizes.length]);
        pending.push(world.irecv(received[n], before, tag));
      }
    }
    waitAll(pending);
    received.forEach((data, n) => check(data, n, 'order'));
  },

  /** Every tag there is at its ends, in reverse. */
  tags() {
    const tags = [0, 1, 255, 256, 32766, 32767];
    const sent = tags.map((tag) => world.isend(Int32Array.of(tag), peer, tag));
    for (const tag of tags.toReversed()) {
      const data = new Int32Array(1);
      world.irecv(data, before, tag).wait();
      assert.equal(data[0], tag);
    }
    waitAll(sent);
  },

  /** A rank sends to itself: small, large, and in exposed memory. */
  async self() {
    for (const make of [(n: number) => new Uint8Array(n), (n: number) => alloc(Uint8Array, n)]) {
      for (const bytes of [0, 8, 5000, 1_000_000]) {
        const source = make(bytes);
        source.set(message(1, bytes));
        const target = make(bytes);
        const sent = world.isend(source, rank, 7);
        await world.irecv(target, rank, 7);
        await sent;
        check(target, 1, `self, ${bytes} bytes`);
      }
    }
  },

  /** Large messages in both directions at once, which would stop two ranks that only sent. */
  both() {
    for (const bytes of [4097, 1 << 20, 5_000_000]) {
      const out = message(rank, bytes);
      const into = new Uint8Array(bytes);
      const requests = [world.isend(out, peer, 1), world.irecv(into, before, 1)];
      startall(requests);
      waitAll(requests);
      check(into, before, 'both');
    }
  },

  /** No bytes are a message, too: a receive of none waits for it. */
  zero() {
    if (rank === 0) {
      const none = world.irecv(new Uint8Array(0), 1, 3);
      assert.equal(none.test(), false, 'nothing was sent yet');
      world.isend(Uint8Array.of(1), 1, 4).wait();
      none.wait();
    } else if (rank === 1) {
      world.irecv(new Uint8Array(1), 0, 4).wait();
      world.isend(new Uint8Array(0), 0, 3).wait();
    }
  },

  /** Receives with room for more than comes, on both sides of the eager limit, posted early and late. */
  async shorter() {
    const sizes = [0, 1, 200, 255, 256, 4096, 4097, 8193, 100_000, 3_000_000];
    for (const make of [(n: number) => new Uint8Array(n), (n: number) => alloc(Uint8Array, n)]) {
      for (const early of [true, false]) {
        const pairs = sizes.flatMap((sent) =>
          sizes.filter((room) => room >= sent).map((room) => [sent, room] as const),
        );
        const targets = pairs.map(([, room]) => make(room).fill(0xee));
        const receive = (): Request[] => targets.map((target, n) => world.irecv(target, before, n));
        const received = early ? receive() : [];
        if (early) await world.ibarrier();
        const sends = pairs.map(([sent], n) => {
          const out = make(sent);
          out.set(message(n, sent));
          return world.isend(out, peer, n);
        });
        if (!early) await world.ibarrier();
        if (!early) received.push(...receive());
        for (const request of received) if (!request.done) assert.equal(request.bytes, undefined);
        waitAll([...sends, ...received]);
        for (const [n, [sent, room]] of pairs.entries()) {
          const what = `${sent} bytes into ${room}, ${early ? 'early' : 'late'}`;
          assert.deepEqual([sends[n].bytes, received[n].bytes], [sent, sent], what);
          check(targets[n].subarray(0, sent), n, what);
          assertBytes(targets[n].subarray(sent), new Uint8Array(room - sent).fill(0xee), `${what}, the rest`);
        }
      }
    }
    assert.equal(world.ibarrier().bytes, undefined, 'collectives have no count');
  },

  /** One request for both directions: small, large, of different sizes; it meets messages of isend and irecv. */
  async sendrecv() {
    for (const [n, bytes] of [0, 8, 5000, 1_000_000].entries()) {
      // Each rank sends 16 bytes more than the rank before it.
      const sized = (from: number): number => bytes + 16 * from;
      const into = new Uint8Array(sized(before));
      const request = world.isendrecv(message(rank, sized(rank)), peer, into, before, 4, 4);
      if (n % 2 === 0) request.wait();
      else await request;
      assert.equal(request.done, true);
      assert.equal(request.bytes, sized(before));
      check(into, before, `sendrecv, ${bytes} bytes`);
      const own = new Uint8Array(bytes);
      world.isendrecv(message(n, bytes), rank, own, rank, 1, 1).wait();
      check(own, n, 'sendrecv with oneself');
    }
    // The first of three messages is of isend, the second is received by irecv; tags differ.
    const [first, second, third] = [0, 1, 2].map(() => new Uint8Array(100));
    const requests = [
      world.isend(message(1, 100), peer, 6),
      world.isendrecv(message(2, 100), peer, third, before, 6, 7),
      world.isendrecv(message(3, 100), peer, first, before, 7, 6),
      world.irecv(second, before, 6),
    ];
    waitAll(requests);
    check(first, 1, 'the message of isend');
    check(second, 2, 'received by irecv');
    check(third, 3, 'the other tag');
    // null is MPI_PROC_NULL.
    const untouched = Uint8Array.of(9);
    const nothing = world.isendrecv(null, null, untouched, null);
    assert.equal(nothing.test(), true);
    assert.equal(nothing.bytes, 0);
    assert.deepEqual([...untouched], [9]);
    const only = new Uint8Array(8);
    const half = [world.isendrecv(message(4, 8), peer, null, null, 8), world.isendrecv(null, null, only, before, 0, 8)];
    waitAll(half);
    check(only, 4, 'one direction');
    assert.deepEqual(
      half.map((request) => request.bytes),
      [0, 8],
    );
    // What comes may be shorter than the buffer, on both sides of the eager limit.
    for (const bytes of [0, 100, 100_000]) {
      const room = new Uint8Array(bytes + 50).fill(0xee);
      const request = world.isendrecv(message(5, bytes), peer, room, before);
      request.wait();
      assert.equal(request.bytes, bytes);
      check(room.subarray(0, bytes), 5, 'shorter than its buffer');
      assertBytes(room.subarray(bytes), new Uint8Array(50).fill(0xee), 'the rest');
    }
  },

  /** A message that is too long fails the whole request of its receiver, with an error of one of its messages. */
  sendrecvSizes() {
    const other = 1 - rank;
    const into = new Uint8Array(rank === 0 ? 4000 : 4096);
    const request = world.isendrecv(message(1, 4096), other, into, other);
    const isError = (error: unknown): boolean =>
      (error instanceof TruncatedError || error instanceof AbandonedError) && error.operation === 'isendrecv';
    if (rank === 0) {
      assert.throws(() => request.wait(), isError);
      return;
    }
    // Where the receiver asks for a message, the sender learns of the size, too; else all is well here.
    try {
      request.wait();
      check(into, 1, 'sendrecv');
    } catch (error) {
      assert(isError(error), String(error));
    }
  },

  /** Many more messages than slots and RTRs, none of them awaited at first. */
  exhaustion() {
    const count = 5000;
    const large = 200;
    const requests: Request[] = [];
    for (let n = 0; n < count; n++) requests.push(world.isend(Uint32Array.of(n), peer, 1));
    for (let n = 0; n < large; n++) requests.push(world.isend(message(n, 10_000), peer, 2));
    const bulk = Array.from({ length: large }, () => new Uint8Array(10_000));
    bulk.forEach((data) => requests.push(world.irecv(data, before, 2)));
    const small = Array.from({ length: count }, () => new Uint32Array(1));
    small.forEach((data) => requests.push(world.irecv(data, before, 1)));
    waitAll(requests);
    small.forEach((data, n) => assert.equal(data[0], n));
    bulk.forEach((data, n) => check(data, n, 'exhaustion'));
  },
});
await world.close();
