/** Communicators with topologies; see topologies.test.ts. */
import assert from 'node:assert/strict';
import {
  alloc,
  ArgumentError,
  type CartCommunicator,
  type Communicator,
  dimsCreate,
  IN_PLACE,
  init,
  type NeighborCommunicator,
  type PersistentRequest,
  type Request,
  startAll,
  strided,
  SUM,
} from 'node-nbc';
import { NEIGHBOR_OPERATIONS, type Operation } from 'node-nbc/schedules';
import { graphLists, gridLists, type Lists, randomFrom } from '../lists.js';
import { NEIGHBOR_ORACLES } from '../neighbors.js';
import { arrange } from '../oracle.js';
import { gridShapes } from './grids.js';
import { assertBytes, piece } from './noise.js';
import { play } from './scenario.js';

const world = await init();
const { rank, size } = world;

type Name = (typeof NEIGHBOR_OPERATIONS)[number]['name'];

/** What memory holds that nothing is received into. */
const UNTOUCHED = 0xdd;
/** Bytes: nothing, small and large blocks. */
const COUNTS = [0, 1, 3, 6000, 36_000];

const memory = (number: number, length: number): Uint8Array =>
  (number % 2 === 0 ? alloc(Uint8Array, length) : new Uint8Array(length)).fill(UNTOUCHED);

/** What a rank calls an operation with, and what it must receive: sizes, gaps and memory take turns by `number`. */
function partOf(name: Name, number: number, { rank: own, size: ranks }: Communicator, lists: readonly Lists[]) {
  const [oracle, count] = [NEIGHBOR_ORACLES[name], COUNTS[number % COUNTS.length]];
  const c = { size: ranks, root: 0, count, inPlace: false, gaps: number % 2 === 1, op: SUM, lists };
  const part = arrange(oracle, c, own, (length) => memory(number, length));
  part.send?.set(piece(number, own, 0, part.send.length));
  const expected = part.recv?.slice() ?? null;
  if (expected !== null) {
    oracle.result(c, own, (from) => piece(number, from, 0, oracle.send(c, from) ?? 0), expected);
  }
  return { ...part, expected };
}

type Parts = (Uint8Array | null)[];

/** The parts of an alltoallw, which are in one array, in arrays of their own. `collect` copies them back. */
function apart([sends, recvs]: Parts[]): { args: Parts[]; collect: () => void } {
  const [from, into] = [sends, recvs].map((parts) => parts.map((part) => part?.slice() ?? null));
  return {
    args: [from, into],
    collect: () => into.forEach((part, i) => recvs[i]?.set(part!)),
  };
}

/** Those that are received, as every second byte of one array. */
function spread([sends, recvs]: Parts[], recv: Uint8Array): { args: unknown[]; collect: () => void } {
  const wide = new Uint8Array(2 * recv.length).fill(UNTOUCHED);
  const layouts = recvs.map(
    (part) =>
      part && strided(wide, { shape: [part.length], strides: [2], offset: 2 * (part.byteOffset - recv.byteOffset) }),
  );
  return {
    args: [sends, layouts],
    collect() {
      assert(
        wide.every((byte, i) => i % 2 === 0 || byte === UNTOUCHED),
        'between the elements',
      );
      recv.set(wide.filter((_, i) => i % 2 === 0));
    },
  };
}

/** Every operation, several in flight: all sizes, and every block in its place. */
async function exchange(communicator: NeighborCommunicator, lists: readonly Lists[]): Promise<void> {
  const mine = lists[communicator.rank];
  assert.deepEqual(communicator.sources, mine.sources);
  assert.deepEqual(communicator.destinations, mine.destinations);
  for (let n = 0; n < 6; n++) {
    const started = NEIGHBOR_OPERATIONS.map(({ name }, index) => {
      const part = partOf(name, n + 6 * index, communicator, lists);
      let { args, collect }: { args: unknown[]; collect?: () => void } = part;
      if (name === 'ineighborAlltoallw' && part.recv !== null && n % 3 < 2) {
        ({ args, collect } = n % 3 === 0 ? apart(args as Parts[]) : spread(args as Parts[], part.recv));
      }
      const method = communicator[name].bind(communicator) as (...given: unknown[]) => Request;
      return { name, request: method(...args), collect, ...part };
    });
    for (const { name, request, collect, recv, expected } of n % 2 === 0 ? started : started.toReversed()) {
      if (n % 3 === 0) await request;
      else request.wait();
      collect?.();
      if (recv !== null) {
        assertBytes(recv, expected!, `${name}, round ${n}, rank ${rank} of ${size}, ${JSON.stringify(mine)}`);
      }
    }
  }
}

/** The grids that are tried on so many ranks. */
function gridsOf(ranks: number): { dims: number[]; periods: boolean[] }[] {
  return gridShapes(ranks).flatMap((dims) => {
    const alternating = dims.map((_, i) => i % 2 === 0);
    return [dims.map(() => false), dims.map(() => true), alternating].map((periods) => ({ dims, periods }));
  });
}

await play({
  async grids() {
    for (const { dims, periods } of gridsOf(size)) {
      const ranks = dims.reduce((product, length) => product * length, 1);
      const cart = await world.cart({ dims, periods, reorder: true });
      if (rank >= ranks) {
        assert.equal(cart, null);
        continue;
      }
      assert.ok(cart !== null);
      assert.deepEqual([cart.rank, cart.size, cart.dims, cart.periods], [rank, ranks, dims, periods]);
      for (let other = 0; other < ranks; other++) {
        const coords = cart.coords(other);
        coords.forEach((at, d) => assert(at >= 0 && at < dims[d]));
        assert.equal(cart.rankAt(coords), other);
        const around = coords.map((at, d) => at - 2 * dims[d]);
        assert.equal(cart.rankAt(around), periods.every(Boolean) ? other : null);
      }
      for (const [d, length] of dims.entries()) {
        for (const displacement of [-1, 0, 1, length]) {
          const { source, dest } = cart.shift(d, displacement);
          const to = cart.coords();
          to[d] += displacement;
          assert.equal(dest, cart.rankAt(to));
          const value = new Int32Array([-1]);
          cart.isendrecv(Int32Array.of(cart.rank), dest, value, source).wait();
          assert.equal(value[0], source ?? -1);
        }
      }
      await parts(cart);
      const copy = await cart.dup();
      assert.deepEqual([copy.dims, copy.coords()], [dims, cart.coords()]);
      await copy.ibarrier();
      await copy.close();
      await cart.close();
    }

    async function parts(cart: CartCommunicator): Promise<void> {
      const keep = cart.dims.map((_, d) => d === 0);
      for (const kept of [keep, keep.map((value) => !value), cart.dims.map(() => true), cart.dims.map(() => false)]) {
        const sub = await cart.sub(kept);
        assert.deepEqual(sub.dims, cart.dims.filter((_, d) => kept[d])); // prettier-ignore
        assert.deepEqual(sub.coords(), cart.coords().filter((_, d) => kept[d])); // prettier-ignore
        const members = new Int32Array(sub.size);
        await sub.iallgather(Int32Array.of(cart.rank), members);
        for (const [index, member] of members.entries()) {
          const [theirs, ours] = [cart.coords(member), cart.coords()];
          assert.deepEqual(theirs.filter((_, d) => kept[d]), sub.coords(index)); // prettier-ignore
          assert.deepEqual(theirs.filter((_, d) => !kept[d]), ours.filter((_, d) => !kept[d])); // prettier-ignore
        }
        await sub.close();
      }
    }
  },

  async carts() {
    for (const { dims, periods } of gridsOf(size)) {
      const cart = await world.cart({ dims, periods });
      if (cart !== null) await exchange(cart, gridLists(dims, periods));
      await cart?.close();
    }
  },

  /** Edges at random: double ones, to oneself, ranks with none; each rank has its lists in an order of its own. */
  async graphs() {
    const random = randomFrom(size);
    for (let graph = 0; graph < 4; graph++) {
      const lists = graphLists(size, random);
      const communicator = await world.distGraph(lists[rank]);
      await exchange(communicator, lists);
      if (graph === 0) await exchange(await communicator.dup(), lists);
      await communicator.close();
    }
  },

  /** The layers inside are sent, and ghost layers received, in one array; all at once, and twice. */
  async ghosts() {
    const cart = (await world.cart({ dims: dimsCreate(size, 2), periods: [true, false] }))!;
    const [height, width] = [5, 4];
    const stride = width + 2;
    for (const make of [(n: number) => new Float64Array(n), (n: number) => alloc(Float64Array, n)]) {
      for (const persistent of [false, true]) await layers(make, persistent);
    }
    async function layers(make: (n: number) => Float64Array, persistent: boolean): Promise<void> {
      const grid = make((height + 2) * stride).fill(-1);
      const value = (of: number, y: number, x: number): number => of * 1000 + y * 100 + x;
      for (let y = 1; y <= height; y++) for (let x = 1; x <= width; x++) grid[y * stride + x] = value(cart.rank, y, x);
      const row = (y: number) => strided(grid, { shape: [width], strides: [1], offset: y * stride + 1 });
      const column = (x: number) => strided(grid, { shape: [height], strides: [stride], offset: stride + x });
      const inside = [row(1), row(height), column(1), column(width)];
      const ghosts = [row(0), row(height + 1), column(0), column(width + 1)];
      const request = persistent ? cart.neighborAlltoallwInit(inside, ghosts) : null;
      for (let n = 0; n < 2; n++) {
        request?.start();
        await (request ?? cart.ineighborAlltoallw(inside, ghosts));
      }
      request?.free();
      const [up, down, left, right] = cart.sources;
      const expected = (of: number | null, y: number, x: number): number => (of === null ? -1 : value(of, y, x));
      for (let x = 1; x <= width; x++) {
        assert.equal(grid[x], expected(up, height, x));
        assert.equal(grid[(height + 1) * stride + x], expected(down, 1, x));
      }
      for (let y = 1; y <= height; y++) {
        assert.equal(grid[y * stride], expected(left, y, width));
        assert.equal(grid[y * stride + width + 1], expected(right, y, 1));
        for (let x = 1; x <= width; x++) assert.equal(grid[y * stride + x], value(cart.rank, y, x));
      }
      for (const corner of [0, stride - 1, (height + 1) * stride, (height + 2) * stride - 1]) {
        assert.equal(grid[corner], -1);
      }
    }
  },

  /** The persistent forms, three starts each. */
  async persistent() {
    const cart = (await world.cart({ dims: dimsCreate(size, 2), periods: [true, false] }))!;
    const lists = gridLists(cart.dims, cart.periods);
    const prepared = NEIGHBOR_OPERATIONS.map(({ name }, index) => {
      const part = partOf(name, 3 + 5 * index, cart, lists);
      const methods = cart as unknown as Record<string, (...given: unknown[]) => PersistentRequest>;
      return { name, request: methods[`${name.slice(1)}Init`](...part.args), ...part };
    });
    for (let round = 0; round < 3; round++) {
      for (const { recv } of prepared) recv?.fill(UNTOUCHED);
      startAll(prepared.map(({ request }) => request));
      for (const { name, request, recv, expected } of prepared) {
        await request;
        if (recv !== null) assertBytes(recv, expected!, `${name}, round ${round}, rank ${rank}`);
      }
    }
    for (const { request } of prepared) request.free();
    const apart = Array.from({ length: size }, () => new Float64Array(2));
    const whole = new Float64Array(2 * size);
    const together = apart.map((_, peer) => whole.subarray(2 * peer, 2 * peer + 2));
    for (const [argument, sends, recvs] of [
      ['sends', apart, together],
      ['recvs', together, apart.slice()],
      ['recvs', IN_PLACE, apart],
    ] as const) {
      if (size > 1) assert.throws(() => world.alltoallwInit(sends, recvs), { name: 'ArgumentError', argument });
    }
  },

  /** ialltoallw: parts of one array, arrays of their own, layouts in each, and in place; small and large. */
  async memories() {
    for (const length of [1, 100, 50_000]) {
      const value = (from: number, to: number, i: number): number => from * 1e7 + to * 1e6 + i;
      const ranks = Array.from({ length: size }, (_, peer) => peer);
      const separate = (): Float64Array[] => ranks.map(() => new Float64Array(2 * length).fill(-1));
      const shared = (): Float64Array[] => {
        const all = new Float64Array(2 * length * size).fill(-1);
        return ranks.map((peer) => all.subarray(2 * length * peer, 2 * length * (peer + 1)));
      };
      for (const [makeSends, makeRecvs] of [
        [separate, separate],
        [separate, shared],
        [shared, separate],
        [shared, shared],
        [null, separate],
        [null, shared],
      ]) {
        for (const spread of [1, 2]) {
          const recvs = makeRecvs!();
          const sends = makeSends === null ? recvs : makeSends();
          for (const to of ranks) for (let i = 0; i < length; i++) sends[to][i * spread] = value(rank, to, i);
          const layoutOf = (memory: Float64Array) =>
            spread === 1 ? memory.subarray(0, length) : strided(memory, { shape: [length], strides: [spread] });
          const request = world.ialltoallw(makeSends === null ? IN_PLACE : sends.map(layoutOf), recvs.map(layoutOf));
          if (spread === 1) await request;
          else while (!request.test());
          for (const from of ranks) {
            recvs[from].forEach((is, i) => {
              const inside = i % spread === 0 && i < length * spread;
              assert.equal(is, inside ? value(from, rank, i / spread) : -1, `from ${from}, element ${i} of ${length}`);
            });
          }
        }
      }
    }
  },

  /** Memory to receive into that the program transfers while the operation is pending: the request ends as usual. */
  transferred() {
    const ranks = Array.from({ length: size }, (_, peer) => peer);
    const recvs = ranks.map(() => new Float64Array(4));
    // The last rank starts when all others have transferred theirs.
    if (rank === size - 1) for (const peer of ranks.slice(0, -1)) world.irecv(new Uint8Array(1), peer).wait();
    const request = world.ialltoallw(
      ranks.map((peer) => new Float64Array(4).fill(10 * rank + peer)),
      recvs,
    );
    if (rank < size - 1) {
      assert.equal(request.done, false);
      structuredClone(null, { transfer: [recvs[0].buffer] });
      world.isend(new Uint8Array(1), size - 1).wait();
    }
    request.wait();
    for (const from of ranks) if (recvs[from].length > 0) assert.equal(recvs[from][3], 10 * from + rank);
    assert.equal(recvs[0].length, rank < size - 1 ? 0 : 4);
  },

  async mistakes() {
    const any = (value: unknown): never => value as never;
    const refused = async (argument: string, call: () => Promise<unknown>): Promise<void> => {
      await assert.rejects(call, (error: unknown) => error instanceof ArgumentError && error.argument === argument);
    };
    const thrown = (argument: string, call: () => unknown, operation?: string): void => {
      assert.throws(
        call,
        (error: unknown) => {
          assert(error instanceof ArgumentError, `${String(call)} throws ${String(error)}`);
          assert.equal(error.argument, argument, `${String(call)}: ${error.message}`);
          if (operation !== undefined) assert.equal(error.operation, operation, error.message);
          return true;
        },
        String(call),
      );
    };
    for (const dims of [undefined, null, 3, [], [0], [1.5], ['2'], [-1, -3], [2, 2], [size + 1]]) {
      await refused('dims', () => world.cart({ dims: any(dims) }));
    }
    for (const options of [undefined, null, 3]) {
      await refused('options', () => world.cart(any(options)));
      await refused('options', () => world.distGraph(any(options)));
    }
    for (const periods of [true, [], [true, false], [1]]) {
      await refused('periods', () => world.cart({ dims: [size], periods: any(periods) }));
    }
    for (const list of [undefined, 5, [-1], [size], [0.5], ['0'], [null]]) {
      await refused('sources', () => world.distGraph({ sources: any(list), destinations: [] }));
      await refused('destinations', () => world.distGraph({ sources: [], destinations: any(list) }));
    }
    await refused('destinations', () => world.distGraph({ sources: [rank], destinations: [rank, rank] }));

    // Ranks that disagree: all of them fail, and the communicator goes on.
    await refused('dims', () => world.cart({ dims: rank === 0 ? [3] : [2] }));
    await refused('dims', () => world.cart({ dims: rank === 1 ? [3, 1] : [3] }));
    await refused('dims', () => world.cart({ dims: [3], periods: [rank === 2] }));
    const next = (rank + 1) % size;
    await refused('sources', () => world.distGraph({ sources: [], destinations: rank === 0 ? [next] : [] }));
    await refused('sources', () => world.distGraph({ sources: rank === 0 ? [next] : [], destinations: [] }));
    const twice = { sources: [(rank + 2) % size], destinations: rank === 1 ? [next, next] : [next] };
    await refused('sources', () => world.distGraph(twice));

    const cart = (await world.cart({ dims: [size], periods: [true] }))!;
    thrown('rank', () => cart.coords(size));
    thrown('coords', () => cart.rankAt([]));
    thrown('coords', () => cart.rankAt([0.5]));
    thrown('dimension', () => cart.shift(1, 1));
    thrown('displacement', () => cart.shift(0, any('1')));
    await refused('keep', () => cart.sub([]));
    await refused('keep', () => cart.sub([any(1)]));

    const four = (): Int32Array => new Int32Array(4);
    const overlapping = new Int32Array(8);
    const layout = strided(overlapping, { shape: [2, 2], strides: [1, 1] });
    const before = world.stats().started;
    for (const { name, parameters } of NEIGHBOR_OPERATIONS as readonly Operation[]) {
      const methods = cart as unknown as Record<string, (...args: unknown[]) => unknown>;
      const right: Record<string, unknown> = {
        send: name.startsWith('ineighborAllgather') ? new Int32Array(2) : four(),
        recv: four(),
        sends: [new Int32Array(2), new Int32Array(2)],
        recvs: [new Int32Array(2), new Int32Array(2)],
        ...Object.fromEntries(['counts', 'sendCounts', 'recvCounts'].map((parameter) => [parameter, [2, 2]])),
        ...Object.fromEntries(['displs', 'sendDispls', 'recvDispls'].map((parameter) => [parameter, [0, 2]])),
      };
      const wrongs: Record<string, unknown[]> = {
        send: [undefined, null, 4, [1], new ArrayBuffer(8), IN_PLACE],
        recv: [undefined, null, 4, IN_PLACE, new Int32Array(3), new Uint8Array(3), layout],
        sends: [undefined, null, four(), [], [four()], [four(), 'a'], [undefined, four()]],
        recvs: [undefined, null, IN_PLACE, four(), [], [four()], [four(), 'a'], [four(), layout]],
        counts: [undefined, null, [1], [-1, 1], [0.5, 1]],
        displs: [[1], [-1, 1], [0, 3], [0, 1]],
        sendCounts: [undefined, null, [1], [-1, 1], [0.5, 1]],
        sendDispls: [[1], [-1, 1], [0, 3]],
        recvCounts: [undefined, null, [1], [-1, 1], [0.5, 1]],
        recvDispls: [[1], [-1, 1], [0, 3], [0, 1]],
      };
      for (const parameter of parameters) {
        for (const wrong of wrongs[parameter]) {
          // In these operations a buffer that is too short is a wrong displacement.
          if (name.endsWith('v') && ArrayBuffer.isView(wrong)) continue;
          const args = parameters.map((other) => (other === parameter ? wrong : right[other]));
          for (const form of [name, `${name.slice(1)}Init`]) thrown(parameter, () => methods[form](...args), form);
        }
      }
    }
    // Parts that overlap, or that are sent while they are received into.
    const array = new Int32Array(16);
    const part = (offset: number, stride = 1) => strided(array, { shape: [2], strides: [stride], offset });
    thrown('recvs', () => cart.ineighborAlltoallw([part(8), part(10)], [part(0), part(1)]));
    thrown('recvs', () => cart.ineighborAlltoallw([part(8), part(10)], [part(0, 8), part(4)]));
    thrown('recvs', () => cart.ineighborAlltoallw([part(8), part(10)], [part(0, 4), part(2, 2)]));
    thrown('recvs', () => world.ialltoallw([null, null, null], [part(0, 2), part(1, 2), part(3, 2)]));
    assert.equal(world.stats().started, before, 'nothing was started');

    // A rank sends itself what it receives from itself.
    const own = await world.distGraph({ sources: [rank], destinations: [rank] });
    thrown('recv', () => own.ineighborAlltoall(four(), new Int32Array(2)));
    thrown('recvCounts', () => own.ineighborAlltoallv(four(), [4], null, four(), [3], null));
    thrown('counts', () => own.ineighborAllgatherv(four(), four(), [3], null));
    thrown('recvs', () => own.ineighborAlltoallw([four()], [new Int32Array(3)]));
    thrown('recv', () => own.ineighborAlltoall(array.subarray(0, 4), array.subarray(2, 6)));
    const none = await world.distGraph({ sources: [], destinations: [] });
    await none.ineighborAlltoall(null, null);
    await cart.ibarrier();
    await cart.close();
    await assert.rejects(async () => cart.ineighborAlltoall(four(), four()), { code: 'ERR_NBC_CLOSED' });
    await world.ibarrier();
  },
});
await world.close();
