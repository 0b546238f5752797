/** Layouts on real ranks: every operation, and messages. */
import assert from 'node:assert/strict';
import { alloc, init, type Request, ScheduleError, startAll, strided, TruncatedError, waitAll } from 'node-nbc';
import { OPERATIONS, Role, Schedule } from 'node-nbc/schedules';
import { BETWEEN, Scattered } from '../layouts.js';
import { arrange, contribution, ORACLES, withOperator } from '../oracle.js';
import { assertBytes, piece } from './noise.js';
import { play } from './scenario.js';

const world = await init();
const { rank, size } = world;

/**
 * Starts a schedule, on a layout each way or on one and a plain buffer.
 *
 * @param received what the receive buffer then begins with; it is 10 bytes longer than the send buffer
 */
function startOnLayouts(schedule: Schedule, number: number, length: number, received: Uint8Array): void {
  const [send, recv] = [new Scattered(length, number), new Scattered(length + 10, number + 1)];
  const [content, expected] = [piece(number, rank, 0, length), piece(number, rank, 1, length + 10)];
  const plain = expected.slice();
  send.write(content);
  recv.write(expected);
  const scattersSend = number % 3 > 0;
  const scattersRecv = number % 3 < 2;
  world.start(schedule, scattersSend ? send.layout : content, scattersRecv ? recv.layout : plain).wait();
  expected.set(received);
  const what = `${length} bytes, ${received.length} received, number ${number}, rank ${rank} of ${size}`;
  assertBytes(scattersRecv ? recv.read() : plain, expected, what);
  for (const scattered of [send, recv]) scattered.assertBetween(what);
}

await play({
  /** All operations, small and large, plain memory and alloc(); some ranks have a layout and others a plain buffer. */
  async operations() {
    let number = 0;
    for (const { name } of OPERATIONS) {
      if (name === 'ibarrier' || (name as string) === 'ialltoallw') continue;
      const oracle = ORACLES[name];
      for (const inPlace of oracle.inPlace ? [false, true] : [false]) {
        for (const count of [0, 30, 4098]) {
          number++;
          const root = oracle.rooted ? number % size : 0;
          const c = withOperator({ size, root, count, inPlace, gaps: oracle.listed && number % 2 === 0 }, number);
          const memory = new Map<Uint8Array, Scattered>();
          const make = (n: number) => (number % 2 === 0 ? new Uint8Array(n) : alloc(Uint8Array, n)).fill(BETWEEN);
          const part = arrange(oracle, c, rank, (length) => {
            const bytes = new Uint8Array(length).fill(0xee);
            if ((rank + number) % 3 > 0) memory.set(bytes, new Scattered(length, number + rank, make));
            return bytes;
          });
          const own = contribution(oracle, c, rank, part);
          own?.set(piece(number, rank, 0, own.length));
          const expected = part.recv?.slice();
          const lengthOf = (from: number): number => oracle.send(c, from) ?? oracle.recv(c, from)!;
          if (expected !== undefined)
            oracle.result(c, rank, (from) => piece(number, from, 0, lengthOf(from)), expected);
          for (const [bytes, scattered] of memory) scattered.write(bytes);
          const start = world[name].bind(world) as (...args: unknown[]) => Request;
          await start(...part.args.map((arg) => memory.get(arg as Uint8Array)?.layout ?? arg));
          const what = `${name}, ${count} elements, in place: ${inPlace}, rank ${rank} of ${size}`;
          if (expected !== undefined) assertBytes(memory.get(part.recv!)?.read() ?? part.recv!, expected, what);
          for (const scattered of memory.values()) scattered.assertBetween(what);
        }
      }
    }
  },

  /** A persistent broadcast of a column: each start packs and unpacks anew. */
  persistent() {
    const [rows, columns] = [300, 7];
    const matrix = new Float64Array(rows * columns).fill(-1);
    const column = strided(matrix, { shape: [rows], strides: [columns], offset: 2 });
    const request = world.bcastInit(column, 0);
    for (let round = 0; round < 3; round++) {
      for (let row = 0; rank === 0 && row < rows; row++) matrix[row * columns + 2] = round * 1000 + row;
      request.start();
      request.wait();
      const right = matrix.map((_, i) => (i % columns === 2 ? round * 1000 + Math.floor(i / columns) : -1));
      assert.deepEqual(matrix, right);
    }
    request.free();
  },

  /**
   * Persistent messages with layouts on both sides or on one, small and large, also to oneself. Before every second
   * start there is a message of the same tag, and the two sends start in another order.
   */
  persistentMessages() {
    let number = 0;
    for (const length of [1, 30, 4098, 40_000]) {
      for (const distance of [0, 1]) {
        number++;
        const [to, from] = [(rank + distance) % size, (rank - distance + size) % size];
        const make = (n: number) => (number % 2 === 0 ? new Uint8Array(n) : alloc(Uint8Array, n)).fill(BETWEEN);
        const [out, into] = [new Scattered(length, number + 2, make), new Scattered(length, number + 3, make)];
        const [plainOut, plainInto] = [new Uint8Array(length), new Uint8Array(length)];
        // Under tag 1 from a layout into a plain buffer, under tag 2 the other way round, under tag 3 between layouts.
        const sends = [world.sendInit(out.layout, to, 1), world.sendInit(plainOut, to, 2)];
        const recvs = [world.recvInit(plainInto, from, 1), world.recvInit(into.layout, from, 2)];
        const [send, recv] = [world.sendInit(out.layout, to, 3), world.recvInit(into.layout, from, 3)];
        for (let start = 0; start < 4; start++) {
          const content = (tag: number, by: number): Uint8Array => piece(10 * start + tag, by, 0, length);
          const what = `${length} bytes, start ${start}, rank ${rank} of ${size}, distance ${distance}`;
          out.write(content(1, rank));
          plainOut.set(content(2, rank));
          const others = [];
          if (start % 2 === 1) {
            const word = new Uint8Array(1);
            others.push(world.isend(word, to, 2), world.irecv(word.slice(), from, 2));
            sends.reverse();
          }
          startAll([...sends, ...recvs.toReversed()]);
          waitAll([...sends, ...recvs, ...others]);
          assertBytes(plainInto, content(1, from), what);
          assertBytes(into.read(), content(2, from), what);
          out.write(content(3, rank));
          startAll([recv, send]);
          waitAll([recv, send]);
          assertBytes(into.read(), content(3, from), what);
          for (const scattered of [out, into]) scattered.assertBetween(what);
          for (const { bytes } of [...sends, ...recvs, send, recv]) assert.equal(bytes, length, what);
        }
        for (const request of [...sends, ...recvs, send, recv]) request.free();
      }
    }
  },

  /** What persistent messages with layouts refuse, and by which error; what failed can be started again. */
  persistentErrors() {
    const [to, from] = [(rank + 1) % size, (rank - 1 + size) % size];
    const bytes = new Uint8Array(64);
    const same = strided(bytes, { shape: [8], strides: [0] });
    assert.throws(() => world.recvInit(same, from, 1), { name: 'ArgumentError', argument: 'buffer' });
    assert.throws(() => world.sendInit(same, size, 1), { name: 'ArgumentError', argument: 'dest' });
    assert.throws(() => world.recvInit(same, from, -1), { name: 'ArgumentError', argument: 'tag' });
    const forms = { gaps: { shape: [8], strides: [2] }, none: { shape: [8], strides: [1] } };
    for (const form of Object.values(forms)) {
      const lost = strided(new Uint8Array(64), form);
      const requests = [world.sendInit(lost, to, 1), world.recvInit(lost, from, 1)];
      structuredClone(null, { transfer: [lost.view.buffer as ArrayBuffer] });
      for (const request of requests) {
        assert.throws(() => request.start(), { name: 'ArgumentError', argument: 'buffer' });
        assert.throws(() => startAll([request]), { name: 'ArgumentError', argument: 'buffer' });
        request.free();
      }
      assert.throws(() => world.sendInit(lost, to, 1), { name: 'ArgumentError', argument: 'buffer' });
    }
    // One that is contiguous takes shorter messages; one with gaps does not.
    const [gaps, none] = [forms.gaps, forms.none].map((form) => world.recvInit(strided(bytes, form), from, 2));
    none.start();
    waitAll([world.isend(new Uint8Array(5), to, 2), none]);
    assert.equal(none.bytes, 5);
    gaps.start();
    const short = world.isend(new Uint8Array(5), to, 2);
    assert.throws(() => gaps.wait(), TruncatedError);
    try {
      short.wait();
    } catch (error) {
      assert(error instanceof TruncatedError);
    }
    gaps.start();
    waitAll([world.isend(new Uint8Array(8).fill(rank + 1), to, 2), gaps]);
    assert.deepEqual([bytes[14], gaps.bytes], [from + 1, 8]);
  },

  /** Schedules of the program's own see elements one behind the other, whatever layouts the buffers have. */
  schedules() {
    const [to, from] = [(rank + 1) % size, (rank - 1 + size) % size];
    for (const length of [1, 30, 4098, 40_000]) {
      const half = Math.floor(length / 2);
      const schedule = new Schedule();
      if (size === 1) schedule.copy(Role.SEND, 0, Role.TEMP, 0, length);
      else schedule.send(to, Role.SEND, 0, length).recv(from, Role.TEMP, 0, length);
      schedule.round().copy(Role.TEMP, 0, Role.RECEIVE, 0, half).round();
      for (const grown of [false, true]) {
        if (grown) schedule.copy(Role.TEMP, half, Role.RECEIVE, half, length - half).round();
        for (let number = 0; number < (length > 5000 ? 3 : 12); number++) {
          const received = piece(number, from, 0, length).subarray(0, grown ? length : half);
          for (let start = 0; start < 2; start++) startOnLayouts(schedule, number, length, received);
        }
      }
    }
    // More layouts than plans are kept.
    const one = new Schedule().copy(Role.SEND, 0, Role.RECEIVE, 0, 2).round();
    const [memory, two] = [Uint8Array.from({ length: 700 }, (_, i) => i & 0xff), new Uint8Array(2)];
    for (const stride of [...Array.from({ length: 600 }, (_, i) => i + 1), 2, 300, 600]) {
      world.start(one, strided(memory, { shape: [2], strides: [stride], offset: 3 }), two).wait();
      assert.deepEqual([...two], [3, (3 + stride) & 0xff]);
    }
  },

  /** Layouts that a schedule of the program's own cannot run on. */
  scheduleErrors() {
    const layout = (offset: number, shape = [8], strides = [2]) => strided(bytes, { shape, strides, offset });
    const bytes = new Uint8Array(64);
    const good = new Schedule().copy(Role.SEND, 0, Role.RECEIVE, 0, 8).round();
    const lost = strided(new Uint8Array(64), { shape: [8], strides: [2] });
    const other = new Uint8Array(8);
    world.start(good, layout(0), layout(32)).wait();
    world.start(good, lost, other).wait();
    structuredClone(null, { transfer: [lost.view.buffer as ArrayBuffer] });
    const wrong: [string, () => unknown][] = [
      ['send', () => world.start(good, layout(0, [7]), other)],
      ['recv', () => world.start(good, other, layout(0, [7]))],
      ['send', () => world.start(good, layout(0, [7], [1]), other)],
      ['recv', () => world.start(good, layout(0), layout(8))],
      ['recv', () => world.start(good, other, layout(0, [8], [0]))],
      ['send', () => world.start(good, lost, other)],
      ['recv', () => world.start(good, other, lost)],
      ['send', () => world.start(good, null, layout(0))],
    ];
    for (const [argument, call] of wrong) assert.throws(call, { name: 'ArgumentError', argument });
    // The error of a schedule names the word that the program has written.
    const bad = new Schedule().copy(Role.RECEIVE, 0, Role.RECEIVE, 4, 8).round();
    const messages = [other, layout(0)].map((recv) => {
      try {
        world.start(bad, null, recv);
      } catch (error) {
        assert(error instanceof ScheduleError);
        return error.message;
      }
      return assert.fail('it was started');
    });
    assert.equal(messages[0], messages[1]);
    bytes.fill(0);
    world
      .start(
        good,
        Uint8Array.from({ length: 8 }, (_, i) => i + 1),
        layout(1),
      )
      .wait();
    assert.deepEqual([...bytes.subarray(0, 17)], [0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0, 8, 0]);
  },

  /** Columns of a matrix become rows of another one, and the other way round; also to oneself. */
  messages() {
    const [rows, columns] = [300, 7];
    for (const distance of [0, 1]) {
      const [to, from] = [(rank + distance) % size, (rank - distance + size) % size];
      const matrix = Float64Array.from({ length: rows * columns }, (_, i) => rank * 1e6 + i);
      const into = new Float64Array(rows * columns).fill(-1);
      const column = strided(matrix, { shape: [rows], strides: [columns], offset: 2 });
      const target = strided(into, { shape: [rows], strides: [columns], offset: 5 });
      const plain = new Float64Array(rows);
      const requests = [
        world.isend(column, to, 1),
        world.isend(matrix.subarray(0, rows), to, 1),
        world.irecv(plain, from, 1),
        world.irecv(target, from, 1),
        world.isendrecv(column, to, strided(into, { shape: [rows], strides: [columns], offset: 6 }), from, 2, 2),
      ];
      waitAll(requests);
      const [bytes, lengths] = [rows * 8, requests.map((request) => request.bytes)];
      assert.deepEqual(lengths, [bytes, bytes, bytes, bytes, bytes]);
      for (let row = 0; row < rows; row++) {
        assert.equal(plain[row], from * 1e6 + row * columns + 2);
        assert.equal(into[row * columns + 5], from * 1e6 + row);
        assert.equal(into[row * columns + 6], from * 1e6 + row * columns + 2);
        for (let at = 0; at < 5; at++) assert.equal(into[row * columns + at], -1);
      }
    }
  },
});
await world.close();
