/** Communicators with topologies; see topologies.test.ts. */
import assert from 'node:assert/strict';
import {
  alloc,
  ArgumentError,
  type CartCommunicator,
  dimsCreate,
  IN_PLACE,
  init,
  type NeighborCommunicator,
  type PersistentRequest,
  type Request,
  startAll,
  strided,
} from 'node-nbc';
import { NEIGHBOR_OPERATIONS, type Operation } from 'node-nbc/schedules';
import { play } from './scenario.js';

const world = await init();
const { rank, size } = world;

/** Every rank knows all lists: sources and destinations of each. */
interface Lists {
  sources: (number | null)[];
  destinations: (number | null)[];
  /** For each source: which entry of that rank's destinations its message is. */
  entries: (number | null)[];
}

/** Elements that rank `from` sends as entry `entry`, in round `n`: some are empty, some are large. */
function blockOf(n: number, from: number, entry: number, equal: boolean): Uint32Array {
  const sizes = [0, 1, 3, 1500, 9000];
  const length = equal ? sizes[n % sizes.length] : sizes[(n + from + entry) % sizes.length];
  return Uint32Array.from({ length }, (_, i) => n * 1e8 + from * 1e6 + entry * 1e5 + i);
}

/** The oracle: what each operation is called with, and what it must receive from each source. */
interface NeighborOracle {
  arguments(mine: Lists, n: number): { args: unknown[]; received: () => (Uint32Array | null)[] };
  /** Element i of these is what must come from source i. */
  expected(mine: Lists, n: number): Uint32Array[];
}

const UNTOUCHED = 0xdddddddd;
const concat = (blocks: readonly Uint32Array[]): Uint32Array => {
  const all = new Uint32Array(blocks.reduce((sum, block) => sum + block.length, 0));
  let at = 0;
  for (const block of blocks) all.set(block, (at += block.length) - block.length);
  return all;
};
const memory = (n: number, length: number): Uint32Array =>
  (n % 2 === 0 ? alloc(Uint32Array, length) : new Uint32Array(length)).fill(UNTOUCHED);

/** What comes from each source: for an allgather, entry 0 stands for all. */
function incoming({ sources, entries }: Lists, n: number, equal: boolean, same: boolean): Uint32Array[] {
  return sources.map((from, index) => blockOf(n, from ?? rank, same ? 0 : (entries[index] ?? 0), equal));
}

const outgoing = ({ destinations }: Lists, n: number, equal: boolean): Uint32Array[] =>
  destinations.map((_, entry) => blockOf(n, rank, entry, equal));

/** Reads blocks of these lengths at these places. */
function reader(recv: Uint32Array, blocks: readonly Uint32Array[], places: readonly number[]): () => Uint32Array[] {
  return () => blocks.map((block, index) => recv.slice(places[index], places[index] + block.length));
}

const packedPlaces = (blocks: readonly Uint32Array[], gap = 0): number[] => {
  let at = 0;
  return blocks.map(({ length }) => (at += length + gap) - length - gap);
};

const ORACLES: Record<(typeof NEIGHBOR_OPERATIONS)[number]['name'], NeighborOracle> = {
  ineighborAllgather: {
    expected: (mine, n) => incoming(mine, n, true, true),
    arguments(mine, n) {
      const blocks = incoming(mine, n, true, true);
      const recv = memory(n, concat(blocks).length);
      return { args: [blockOf(n, rank, 0, true), recv], received: reader(recv, blocks, packedPlaces(blocks)) };
    },
  },
  ineighborAllgatherv: {
    expected: (mine, n) => incoming(mine, n, false, true),
    arguments(mine, n) {
      const blocks = incoming(mine, n, false, true);
      const recv = memory(n, concat(blocks).length + blocks.length);
      const places = packedPlaces(blocks, 1);
      const args = [blockOf(n, rank, 0, false), recv, blocks.map(({ length }) => length), places];
      return { args, received: reader(recv, blocks, places) };
    },
  },
  ineighborAlltoall: {
    expected: (mine, n) => incoming(mine, n, true, false),
    arguments(mine, n) {
      const blocks = incoming(mine, n, true, false);
      const recv = memory(n, concat(blocks).length);
      return { args: [concat(outgoing(mine, n, true)), recv], received: reader(recv, blocks, packedPlaces(blocks)) };
    },
  },
  ineighborAlltoallv: {
    expected: (mine, n) => incoming(mine, n, false, false),
    arguments(mine, n) {
      const [out, blocks] = [outgoing(mine, n, false), incoming(mine, n, false, false)];
      const recv = memory(n, concat(blocks).length + blocks.length);
      const places = packedPlaces(blocks, 1);
      const counts = (list: readonly Uint32Array[]): number[] => list.map(({ length }) => length);
      return {
        args: [concat(out), counts(out), null, recv, counts(blocks), places],
        received: reader(recv, blocks, places),
      };
    },
  },
  ineighborAlltoallw: {
    expected: (mine, n) => incoming(mine, n, false, false),
    arguments(mine, n) {
      const blocks = incoming(mine, n, false, false);
      // Every second element of one array, or arrays of their own.
      const recv = memory(n, 2 * concat(blocks).length + 2);
      const places = packedPlaces(blocks);
      const shared = n % 3 > 0;
      const apart = blocks.map(({ length }) => new Uint32Array(length).fill(UNTOUCHED));
      const layouts = blocks.map(({ length }, i) =>
        strided(recv, { shape: [length], strides: [2], offset: 2 * places[i] }),
      );
      const received = (): Uint32Array[] => {
        const every = recv.filter((_, i) => i % 2 === 0);
        if (shared)
          assert(
            recv.every((value, i) => i % 2 === 0 || value === UNTOUCHED),
            'between the elements',
          );
        return shared ? reader(every, blocks, places)() : apart;
      };
      return { args: [outgoing(mine, n, false), shared ? layouts : apart], received };
    },
  },
};

/** Every operation, several in flight: all sizes, and every block in its place. */
async function exchange(communicator: NeighborCommunicator, lists: readonly Lists[]): Promise<void> {
  const mine = lists[communicator.rank];
  assert.deepEqual(communicator.sources, mine.sources);
  assert.deepEqual(communicator.destinations, mine.destinations);
  for (let n = 0; n < 6; n++) {
    const started = NEIGHBOR_OPERATIONS.map(({ name }) => {
      const oracle = ORACLES[name];
      const { args, received } = oracle.arguments(mine, n);
      const method = communicator[name].bind(communicator) as (...given: unknown[]) => Request;
      return { name, request: method(...args), received, expected: oracle.expected(mine, n) };
    });
    for (const { name, request, received, expected } of n % 2 === 0 ? started : started.toReversed()) {
      if (n % 3 === 0) await request;
      else request.wait();
      for (const [index, block] of received().entries()) {
        const what = `${name}, round ${n}, rank ${rank} of ${size}, block ${index} of ${JSON.stringify(mine)}`;
        const right = mine.sources[index] === null ? expected[index].map(() => UNTOUCHED) : expected[index];
        assert.deepEqual(block, right, what);
      }
    }
  }
}

/** Numbers from 0 to `below` that are the same on all ranks. */
function randomFrom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** The grids that are tried on so many ranks. */
function gridsOf(ranks: number): { dims: number[]; periods: boolean[] }[] {
  const shapes = [[ranks], dimsCreate(ranks, 2), dimsCreate(ranks, 3), [1, ranks], ranks > 1 ? [ranks - 1] : [1]];
  return shapes.flatMap((dims) => {
    const alternating = dims.map((_, i) => i % 2 === 0);
    return [dims.map(() => false), dims.map(() => true), alternating].map((periods) => ({ dims, periods }));
  });
}

/** The neighbours of all ranks of a grid, by the text of the standard and without the library. */
function listsOf(dims: readonly number[], periods: readonly boolean[]): Lists[] {
  const ranks = dims.reduce((product, length) => product * length, 1);
  const strides = dims.map((_, d) => dims.slice(d + 1).reduce((product, length) => product * length, 1));
  const moved = (from: number, d: number, by: number): number | null => {
    const at = Math.floor(from / strides[d]) % dims[d];
    if (!periods[d] && (at + by < 0 || at + by >= dims[d])) return null;
    return from + (((at + by + dims[d]) % dims[d]) - at) * strides[d];
  };
  return Array.from({ length: ranks }, (_, from) => {
    const list = dims.flatMap((__, d) => [moved(from, d, -1), moved(from, d, 1)]);
    // What comes from below was sent up.
    const entries = dims.flatMap((__, d) => [2 * d + 1, 2 * d]);
    return { sources: list, destinations: list, entries };
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
      if (cart !== null) await exchange(cart, listsOf(dims, periods));
      await cart?.close();
    }
  },

  /** Edges at random: double ones, to oneself, ranks with none; each rank has its lists in an order of its own. */
  async graphs() {
    const random = randomFrom(size);
    for (let graph = 0; graph < 4; graph++) {
      const lists: Lists[] = Array.from({ length: size }, () => ({ sources: [], destinations: [], entries: [] }));
      const edges = random(4 * size);
      for (let edge = 0; edge < edges; edge++) lists[random(size)].destinations.push(random(size));
      for (let to = 0; to < size; to++) {
        // Sources in random order; the entries of one source in the order of its list.
        const from = lists.flatMap(({ destinations }, other) => destinations.filter((d) => d === to).map(() => other));
        for (let i = from.length - 1; i > 0; i--) {
          const j = random(i + 1);
          [from[i], from[j]] = [from[j], from[i]];
        }
        lists[to].sources = from;
        lists[to].entries = from.map((other, index) => {
          const before = from.slice(0, index).filter((earlier) => earlier === other).length;
          return lists[other].destinations.flatMap((d, entry) => (d === to ? [entry] : []))[before];
        });
      }
      const mine = lists[rank] as { sources: number[]; destinations: number[] };
      const communicator = await world.distGraph(mine);
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

  /** The persistent forms, three starts each. Those with parts: ghosts. */
  async persistent() {
    const cart = (await world.cart({ dims: dimsCreate(size, 2), periods: [true, false] }))!;
    const mine = listsOf(cart.dims, cart.periods)[cart.rank];
    const prepared = NEIGHBOR_OPERATIONS.flatMap(({ name }) => {
      if (name === 'ineighborAlltoallw') return [];
      const { args, received } = ORACLES[name].arguments(mine, 3);
      const methods = cart as unknown as Record<string, (...given: unknown[]) => PersistentRequest>;
      const request = methods[`${name.slice(1)}Init`](...args);
      const recv = args.filter((arg) => arg instanceof Uint32Array).at(-1)!;
      return [{ name, request, received, recv, expected: ORACLES[name].expected(mine, 3) }];
    });
    for (let round = 0; round < 3; round++) {
      for (const { recv } of prepared) recv.fill(UNTOUCHED);
      startAll(prepared.map(({ request }) => request));
      for (const { name, request, received, expected } of prepared) {
        await request;
        const right = expected.map((block, i) => (mine.sources[i] === null ? block.map(() => UNTOUCHED) : block));
        assert.deepEqual(received(), right, `${name}, round ${round}, rank ${rank}`);
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
