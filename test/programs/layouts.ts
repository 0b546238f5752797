/** Layouts on real ranks: every operation, and messages. */
import assert from 'node:assert/strict';
import { alloc, init, type Request, strided, waitAll } from 'node-nbc';
import { OPERATIONS } from 'node-nbc/schedules';
import { BETWEEN, Scattered } from '../layouts.js';
import { arrange, contribution, ORACLES, withOperator } from '../oracle.js';
import { assertBytes, piece } from './noise.js';
import { play } from './scenario.js';

const world = await init();
const { rank, size } = world;

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

  /** A persistent broadcast of a column: each start packs and unpacks anew. Messages refuse layouts. */
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
    for (const init of [world.sendInit.bind(world), world.recvInit.bind(world)]) {
      assert.throws(() => init(column as never, 0), { name: 'ArgumentError', argument: 'buffer' });
    }
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
