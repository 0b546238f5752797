/** Ranks that call different collectives, and ranks whose calls look different and are not. Two ranks and more. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { setTimeout } from 'node:timers/promises';
import {
  AbandonedError,
  ArgumentError,
  type CartCommunicator,
  type Communicator,
  createOp,
  type GraphOptions,
  IN_PLACE,
  init,
  MAX,
  MismatchError,
  NbcError,
  type PersistentRequest,
  type Request,
  SUM,
  TimeoutError,
  TruncatedError,
  waitAll,
} from 'node-nbc';
import { barrierDissemination, Role, Schedule } from 'node-nbc/schedules';
import { OPERATIONS } from '#library/operations/index.js';
import { ElementType, Operator } from '#library/schedules/encoding.js';
import { signatureOf } from '#library/signatures.js';
import { play, report } from './scenario.js';

/** A difference must not hang; this is what a very busy machine may need. */
const LIMIT_MS = Number(process.env['NBC_TEST_LIMIT_MS'] ?? 20_000);

/** How long a rank waits before it asks the others which call they are in: kPatience of the engine. */
const PATIENCE_MS = 100;

type Begun = Request | Promise<unknown>;
type Start = (comm: Communicator) => Begun;
type StartRequest = (comm: Communicator) => Request;

const bytes = (count: number): Uint8Array => new Uint8Array(count);
const bcast =
  (count: number, root: number): StartRequest =>
  (comm) =>
    comm.ibcast(bytes(count), root);
const allgather =
  (count: number): StartRequest =>
  (comm) =>
    comm.iallgather(bytes(count), bytes(count * comm.size));
const gather =
  (count: number, root: number): Start =>
  (comm) =>
    comm.igather(bytes(count), comm.rank === root ? bytes(count * comm.size) : null, root);
const allreduce =
  (View: typeof Float64Array | typeof Int32Array, count: number, op = SUM, algorithm?: 'ring'): Start =>
  (comm) => {
    const options = algorithm && { algorithm };
    return comm.iallreduce(new View(count), new View(count), op, options);
  };
/** The algorithm that likeTo() counts with, whatever the size. */
const LINEAR = { algorithm: 'linear' } as const;
const reduce =
  (count: number): Start =>
  (comm) =>
    comm.ireduce(new Float64Array(count / 8), comm.rank === 0 ? new Float64Array(count / 8) : null, SUM, 0, LINEAR);
function smaller(a: Float64Array, b: Float64Array): void {
  for (let i = 0; i < b.length; i++) b[i] = Math.min(a[i], b[i]);
}
const barrier: Start = (comm) => comm.ibarrier();
const own: Start = (comm) => {
  const { rank, size } = comm;
  return comm.start(barrierDissemination({ rank, size, root: 0, bytes: 0, inPlace: false }), null, null);
};
const persistent =
  (make: (comm: Communicator) => PersistentRequest): Start =>
  (comm) => {
    const request = make(comm);
    request.start();
    return request;
  };

/** An Init, and more calls than a rank remembers before it is started. */
const afterOthers = (make: (comm: Communicator) => PersistentRequest): Start[] => {
  let made: PersistentRequest;
  const init: Start = (comm) => {
    made = make(comm);
    return made;
  };
  return [init, ...Array<Start>(50).fill(barrier), () => (made.start(), made)];
};

/** The next size, in multiples of 8 bytes, that a call has the same signature with: only its messages tell. */
function likeTo(name: 'ibcast' | 'ireduce', size: number): number {
  const operation = OPERATIONS.find((one) => one.name === name)!;
  const like = { type: ElementType.FLOAT64, operator: Operator.SUM, rank: 0, size: 2, root: 0, inPlace: false };
  const signature = (count: number): number => signatureOf(operation, { ...like, bytes: count }, 0);
  for (let other = size + 8; ; other += 8) if (signature(other) === signature(size)) return other;
}

function list(comm: Communicator, root: number): number[] | null {
  return comm.rank === root ? Array<number>(comm.size).fill(1) : null;
}

interface Difference {
  /** What all ranks but one call, and what that one calls. */
  most: Start[];
  odd: Start[];
  /** Both calls, as an error names them. */
  names: [most: string, odd: string];
  /** What fails afterwards at once: default a barrier. */
  later?: Start;
}

const DIFFERENCES: Record<string, Difference> = {};
for (const count of [8, 20_000, 600_000]) {
  const [small, values] = [count / 8, `${count} bytes of`];
  Object.assign(DIFFERENCES, {
    [`${values} different operations`]: {
      most: [allreduce(Float64Array, small)],
      odd: [allgather(count)],
      names: ['iallreduce', 'iallgather'],
    },
    [`${values} different roots`]: { most: [bcast(count, 0)], odd: [bcast(count, 1)], names: ['root 0', 'root 1'] },
    [`${values} another order`]: {
      most: [bcast(count, 0), allgather(count)],
      odd: [allgather(count), bcast(count, 0)],
      names: ['ibcast', 'iallgather'],
    },
    [`${values} a gather and a broadcast`]: {
      most: [gather(count, 0)],
      odd: [bcast(count, 1)],
      names: ['igather', 'ibcast'],
    },
    [`${values} two types`]: {
      most: [allreduce(Float64Array, small)],
      odd: [allreduce(Int32Array, 2 * small)],
      names: ['float64', 'int32'],
    },
    [`${values} two operators`]: {
      most: [allreduce(Float64Array, small)],
      odd: [allreduce(Float64Array, small, MAX)],
      names: ['SUM', 'MAX'],
    },
    [`${values} an operator that commutes and one that does not`]: {
      most: [allreduce(Float64Array, small, createOp(smaller, { commutative: true }))],
      odd: [allreduce(Float64Array, small, createOp(smaller))],
      names: ['iallreduce', 'iallreduce'],
    },
    [`${values} different Inits`]: {
      most: [persistent((comm) => comm.bcastInit(bytes(count), 0))],
      odd: [persistent((comm) => comm.allgatherInit(bytes(count), bytes(count * comm.size)))],
      names: ['bcastInit', 'allgatherInit'],
    },
    [`${values} different Inits, started long after`]: {
      most: afterOthers((comm) => comm.gatherInit(bytes(count), comm.rank === 0 ? bytes(count * comm.size) : null, 0)),
      odd: afterOthers((comm) => comm.gatherInit(bytes(count), comm.rank === 1 ? bytes(count * comm.size) : null, 1)),
      names: ['root 0', 'root 1'],
    },
    [`${values} a persistent request and none`]: {
      most: [persistent((comm) => comm.bcastInit(bytes(count), 0))],
      odd: [bcast(count, 0)],
      names: ['bcastInit', 'ibcast'],
    },
    [`${values} the other way`]: {
      most: [allgather(count)],
      odd: [persistent((comm) => comm.allgatherInit(bytes(count), bytes(count * comm.size)))],
      names: ['allgatherInit', 'iallgather'],
    },
  });
}
Object.assign(DIFFERENCES, {
  'a barrier and a sum': { most: [allreduce(Float64Array, 1)], odd: [barrier], names: ['iallreduce', 'ibarrier'] },
  'sizes at a limit of algorithms': {
    most: [bcast(32_767, 0)],
    odd: [bcast(32_768, 0)],
    names: ['ibcast', 'ibcast'],
  },
  'sizes at a limit of algorithms, the other way': {
    most: [bcast(32_768, 0)],
    odd: [bcast(32_767, 0)],
    names: ['ibcast', 'ibcast'],
  },
  'small and large': { most: [allgather(8)], odd: [allgather(600_000)], names: ['iallgather', 'iallgather'] },
  'large and small': { most: [allgather(600_000)], odd: [allgather(8)], names: ['iallgather', 'iallgather'] },
  'small sizes of one signature': {
    most: [reduce(64)],
    odd: [reduce(likeTo('ireduce', 64))],
    names: ['another size', 'ireduce'],
  },
  'large sizes of one signature': {
    most: [bcast(1 << 20, 0)],
    odd: [bcast(likeTo('ibcast', 1 << 20), 0)],
    names: ['another size', 'ibcast'],
  },
  'nothing and something': { most: [bcast(0, 0)], odd: [bcast(8, 0)], names: ['ibcast', 'ibcast'] },
  'a barrier and a schedule of its own': { most: [barrier], odd: [own], names: ['ibarrier', 'start'] },
  'a named algorithm': {
    most: [allreduce(Float64Array, 600)],
    odd: [allreduce(Float64Array, 600, SUM, 'ring')],
    names: ['algorithm', 'ring'],
  },
} satisfies Record<string, Difference>);
const later: Start = (comm) => comm.values.allgather(1);
const grids = new WeakMap<Communicator, CartCommunicator>();
const onGrid =
  (start: (grid: CartCommunicator) => Request): Start =>
  async (comm) => {
    const grid = grids.get(comm) ?? (await comm.cart({ dims: [comm.size], periods: [true] }))!;
    grids.set(comm, grid);
    await start(grid);
  };
const shareWithNeighbors = onGrid((grid) => grid.ineighborAllgather(bytes(8), bytes(16)));
const afterSetUp: Start = (comm) => comm.dup();
const ring = (comm: Communicator): GraphOptions => {
  return { sources: [(comm.rank + comm.size - 1) % comm.size], destinations: [(comm.rank + 1) % comm.size] };
};
Object.assign(DIFFERENCES, {
  'a broadcast of values and a gather of values': {
    ...{ most: [(comm) => comm.values.bcast('a', 0)], odd: [(comm) => comm.values.gather('b', 0)], later },
    names: ['values.bcast (root 0)', 'values.gather'],
  },
  'values that are gathered and reduced': {
    most: [(comm) => comm.values.gather(1, 0)],
    odd: [(comm) => comm.values.reduce(1, (a, b) => a + b, 0)],
    ...{ names: ['values.gather', 'values.reduce'], later },
  },
  'values from different roots': {
    ...{
      most: [(comm) => comm.values.scatter(list(comm, 0), 0)],
      odd: [(comm) => comm.values.scatter(list(comm, 1), 1)],
    },
    ...{ names: ['values.scatter (root 0)', 'values.scatter (root 1)'], later },
  },
  'values to all': {
    ...{
      most: [(comm) => comm.values.allgather(1)],
      odd: [(comm) => comm.values.alltoall(list(comm, comm.rank)!)],
      later,
    },
    names: ['values.allgather', 'values.alltoall'],
  },
  'two exchanges with neighbors': {
    most: [shareWithNeighbors],
    odd: [onGrid((grid) => grid.ineighborAlltoall(bytes(16), bytes(16)))],
    ...{ names: ['ineighborAllgather', 'ineighborAlltoall'], later: shareWithNeighbors },
  },
  'a copy and a split': {
    ...{ most: [(comm) => comm.dup()], odd: [(comm) => comm.split(0)], names: ['dup', 'split'], later: afterSetUp },
  },
  'a grid and a graph': {
    most: [(comm) => comm.cart({ dims: [comm.size], periods: [false] })],
    odd: [(comm) => comm.distGraph(ring(comm))],
    ...{ names: ['cart', 'distGraph'], later: afterSetUp },
  },
} satisfies Record<string, Difference>);

const awaits = process.env['TEST_AWAITS'] === '1';

async function outcomeOf(start: () => Begun): Promise<NbcError | null> {
  try {
    const begun = start();
    if (awaits || !('wait' in begun)) await begun;
    else begun.wait(LIMIT_MS);
    return null;
  } catch (error) {
    assert(error instanceof NbcError, String(error));
    return error;
  }
}

/** Every difference on a communicator of its own: all ranks get the error, and the world goes on. */
async function differences(): Promise<void> {
  const world = await init({ timeout: LIMIT_MS });
  const { rank, size } = world;
  const found: Record<string, { message: string; ranks: unknown; names: string[]; calls: number }> = {};
  for (const [index, [name, { most, odd, names, later = barrier }]] of Object.entries(DIFFERENCES).entries()) {
    // Not on every size: the default may be this algorithm.
    const differs = 1 + (index % (size - 1));
    const comm = await world.dup();
    const list = rank === differs ? odd : most;
    // A rank whose calls were complete before anybody could know of the difference gets it from its next one.
    let error: NbcError | null = null;
    let calls = 0;
    for (; error === null; calls++) error = await outcomeOf(() => list[calls % list.length](comm));
    assert(!(error instanceof TimeoutError), `${name}: ${error.message}`);
    assert(error instanceof MismatchError, `${name}: ${String(error)}`);
    found[name] = { message: error.message, ranks: error.ranks, names, calls };
    // All later ones fail at once.
    assert((await outcomeOf(() => later(comm))) instanceof MismatchError, name);
    await comm.close();
  }
  await world.ibarrier();
  await world.close();
  report(found);
}

/** Two ranks: both are the root of a small broadcast, and nothing else is called. */
async function atTheEnd(): Promise<void> {
  const world = await init();
  const other = 1 - world.rank;
  // Over a network, the other rank's message may be here before that of this rank has left.
  const early = await outcomeOf(() => bcast(8, world.rank)(world));
  assert(early === null || early instanceof MismatchError, String(early));
  // What the other rank has sent is here before its message.
  waitAll([world.isend(bytes(1), other), world.irecv(bytes(1), other)], LIMIT_MS);
  if (early !== null) {
    await world.close();
    report('told');
    return;
  }
  await assert.rejects(world.close(), (error: unknown) => {
    assert(error instanceof MismatchError, String(error));
    assert.match(error.message, /^close: .*root 0.*root 1|^close: .*root 1.*root 0/);
    return true;
  });
  await world.close();
  report('told');
}

/** What may differ from rank to rank. */
async function legal(): Promise<void> {
  const world = await init({ timeout: LIMIT_MS });
  const { rank, size } = world;
  const root = size - 1;
  for (const count of [1, 5000, 100_000]) {
    // In place at some ranks; numbers of other types of the same size, where data are only moved.
    const block = rank % 2 === 0 ? bytes(4 * count) : new DataView(new ArrayBuffer(4 * count));
    const all = new Uint8Array(4 * count * size);
    await world.iallgather(rank % 2 === 0 ? block : IN_PLACE, all);
    await world.igather(rank === root ? IN_PLACE : block, rank === root ? all : null, root);
    await world.ibcast(rank === 0 ? new Float32Array(count) : new Int32Array(count), 0);
    const sums = new Float64Array(count).fill(1);
    await world.iallreduce(rank === 0 ? IN_PLACE : new Float64Array(count).fill(1), sums, SUM);
    assert(sums.every((sum) => sum === size));
    // Sizes that only the root knows, and sizes of a pair.
    const counts = Array.from({ length: size }, (_, at) => at * count);
    const total = counts.reduce((sum, each) => sum + each, 0);
    await world.igatherv(bytes(counts[rank]), rank === 0 ? bytes(total) : null, rank === 0 ? counts : [], null, 0);
    const sent = counts.map((_, to) => (rank + to) * count);
    const ends = sent.reduce((sum, each) => sum + each, 0);
    await world.ialltoallv(bytes(ends), sent, null, bytes(ends), sent, null);
    // Places of the blocks of an allgatherv.
    const displs = counts.map((_, at) => counts.slice(0, at).reduce((sum, each) => sum + each, rank));
    await world.iallgatherv(bytes(counts[rank]), bytes(total + rank), counts, displs);
    // Schedules of its own, each with a length of its own.
    const to = (rank + 1) % size;
    const from = (rank + root) % size;
    const ring = new Schedule();
    ring.send(to, Role.SEND, 0, count).recv(from, Role.RECEIVE, 0, count);
    await world.start(ring, bytes(count), bytes(count));
  }
  // Persistent and others match apart.
  const [sums, out] = [new Float64Array(1), new Float64Array(1).fill(1)];
  const sum = world.allreduceInit(out, sums, SUM);
  for (let step = 0; step < 10; step++) {
    const requests: Request[] = [];
    const both = [() => requests.push(world.ibarrier()), () => (sum.start(), requests.push(sum))];
    for (const start of rank % 2 === 0 ? both : both.reverse()) start();
    waitAll(requests, LIMIT_MS);
  }
  // Many at a time, more than a rank remembers; the ranks are apart by all of them.
  for (let round = 0; round < 5; round++) {
    const many: Request[] = [];
    for (let index = 0; index < 100; index++) {
      many.push(index % 3 === 0 ? bcast(8, index % size)(world) : allgather(index % 2 === 0 ? 8 : 5000)(world));
    }
    waitAll(many, LIMIT_MS);
  }
  await world.close();
  report('legal');
}

/** A call that is refused by its arguments is none. Two ranks and more; rank 1 makes the mistakes. */
async function refused(): Promise<void> {
  const world = await init({ timeout: LIMIT_MS });
  const mistaken = world.rank === 1;
  const refuse = (): void => {
    if (mistaken) assert.throws(() => world.ibcast(bytes(8), world.size), ArgumentError);
  };
  if (mistaken) assert.throws(() => world.bcastInit(bytes(8), world.size), ArgumentError);
  // The rank can make it again, and nothing is shifted.
  for (let step = 0; step < 3; step++) {
    refuse();
    const buffer = bytes(8).fill(world.rank === 0 ? step : 99);
    await world.ibcast(buffer, 0);
    assert.deepEqual(buffer, bytes(8).fill(step));
  }
  // If it goes on instead, its next call meets the one that it has not made. A communicator of its own: where a rank is
  // late, the last calls above must not fail with these.
  const comm = await world.dup();
  refuse();
  const list = mistaken ? [allgather(8)] : [bcast(8, 0), allgather(8)];
  let error: NbcError | null = null;
  for (let call = 0; error === null; call++) error = await outcomeOf(() => list[call % list.length](comm));
  assert(error instanceof MismatchError, String(error));
  assert.match(error.message, /ibcast.*iallgather|iallgather.*ibcast/);
  await world.close();
  report('refused');
}

/** Two ranks. What rank 0 does, and has done when rank 1 closes the communicator. */
async function closedAfter(world: Communicator, first: Start, second: Start | null): Promise<Communicator> {
  const comm = await world.dup();
  const start = world.rank === 0 ? first : second;
  if (start !== null) await start(comm);
  const other = 1 - world.rank;
  // What was sent before is here before this message.
  waitAll([comm.isend(bytes(1), other), comm.irecv(bytes(1), other)], LIMIT_MS);
  return comm;
}

/** What is left when a communicator is closed: messages, and calls that only others have made. */
async function leftOver(): Promise<void> {
  const world = await init({ timeout: LIMIT_MS });
  const { rank } = world;
  const warnings: Error[] = [];
  process.on('warning', (warning) => warnings.push(warning));

  // A message that fails has nothing to do with what is left of collectives.
  const twice: Start = (comm) => {
    comm.isendrecv(bytes(8), 1, bytes(8), 1).wait(LIMIT_MS);
    const schedule = new Schedule();
    schedule.send(1, Role.SEND, 0, 8).send(1, Role.SEND, 0, 8);
    return comm.start(schedule, bytes(8), null);
  };
  const once: Start = (comm) => {
    assert.throws(() => comm.isendrecv(bytes(8), 0, bytes(1), 0).wait(LIMIT_MS), TruncatedError);
    return comm.start(new Schedule().recv(0, Role.RECEIVE, 0, 8), null, bytes(8));
  };
  const unfit = await closedAfter(world, twice, once);
  if (rank === 0) await unfit.close();
  else {
    await assert.rejects(unfit.close(), (error: unknown) => {
      assert(error instanceof MismatchError, String(error));
      assert.match(
        error.message,
        /^close: rank 0 of the world has sent a message in start that rank 1 has not received/,
      );
      return true;
    });
  }

  const uncalled = await closedAfter(world, bcast(8, 0), null);
  await uncalled.close();
  // Closing while an operation is pending is no mistake, and neither is a persistent request that another rank starts
  // more often, before this one has ended.
  const made: PersistentRequest[] = [];
  const init2: Start = (comm) => {
    const request = comm.bcastInit(bytes(8), 0);
    made.push(request);
    request.start();
    return request;
  };
  const again = await closedAfter(world, init2, init2);
  if (rank === 0) await (made[0].start(), made[0]);
  waitAll([world.isend(bytes(1), 1 - rank), world.irecv(bytes(1), 1 - rank)], LIMIT_MS);
  await again.close();
  const pending = await world.dup();
  const request = allgather(8)(pending);
  await pending.close();
  await request;

  await new Promise(setImmediate);
  const texts = warnings.filter(({ name }) => name === 'MismatchWarning').map(({ message }) => message);
  await world.close();
  report(texts);
}

/** Three ranks. Rank 1 closes each communicator without the call in which the others wait, before or after they ask. */
async function closedWithout(): Promise<void> {
  const world = await init({ timeout: LIMIT_MS });
  const { rank } = world;
  const calls: Record<string, Start> = {
    'a barrier': barrier,
    'values of all': (comm) => comm.values.allgather(1),
    'a split': (comm) => comm.split(0),
  };
  const found: Record<string, string[]> = {};
  for (const [name, start] of Object.entries(calls)) {
    for (const asked of [false, true]) {
      const comm = await world.dup();
      const call = rank === 1 ? null : Promise.resolve(start(comm));
      const error = call?.then(
        () => null,
        (thrown: unknown) => thrown,
      );
      if (asked && rank === 0) {
        // Time to ask. Where it is too short, the ranks ask later, and learn the same.
        await setTimeout(4 * PATIENCE_MS);
        await world.isend(bytes(1), 1);
      }
      if (asked && rank === 1) await world.irecv(bytes(1), 0);
      const thrown = await error;
      if (rank !== 1) {
        assert(thrown instanceof MismatchError, `${name}: ${String(thrown)}`);
        (found[name] ??= []).push(thrown.message);
      }
      await comm.close();
      await world.ibarrier();
    }
  }
  await world.close();
  report(found);
}

/** Bytes that rank 1 sends to rank 0, or rank 0 to rank 1, and bytes that are expected there. */
const COUNTS = [
  [8, 16],
  [16, 8],
  [0, 8],
  [8, 0],
  [8, 600_000],
  [600_000, 8],
  [0, 600_000],
  [600_000, 0],
  [600_000, 600_001],
  [600_001, 600_000],
];
/** How a call ended, in which rank 0 or 1 receives a block of another size than it expects. */
export interface Counted {
  name: string;
  sent: number;
  receiver: number;
  failure: string | null;
  origin: number | null;
}

/** The counts of ranks 0 and 1 disagree, in a block of one to the other. Rank 2 makes no mistake. Three ranks. */
async function counts(): Promise<void> {
  const world = await init({ timeout: LIMIT_MS });
  const { rank } = world;
  const sum = (list: readonly number[]): number => list.reduce((all, each) => all + each, 0);
  const filled = (count: number): Uint8Array => bytes(count).fill(rank + 1);
  const outcomes: Counted[] = [];
  for (const rest of [100, 300_000]) {
    for (const [sent, expected] of COUNTS) {
      /** Who receives the block that is in question; null: the rank has no result. */
      const calls: Record<string, [receiver: number, start: (comm: Communicator) => [Request, Uint8Array | null]]> = {
        igatherv: [
          0,
          (comm) => {
            const recv = rank === 0 ? bytes(expected + 2 * rest) : null;
            const list = rank === 0 ? [rest, expected, rest] : [];
            return [comm.igatherv(filled(rank === 1 ? sent : rest), recv, list, null, 0), recv];
          },
        ],
        iscatterv: [
          1,
          (comm) => {
            const recv = bytes(rank === 1 ? expected : rest);
            const list = [rest, sent, rest];
            return [comm.iscatterv(rank === 0 ? filled(sum(list)) : null, rank === 0 ? list : [], null, recv, 0), recv];
          },
        ],
        ialltoallv: [
          0,
          (comm) => {
            const sends = [rank === 1 ? sent : rest, rest, rest];
            const receives = [rest, rank === 0 ? expected : rest, rest];
            const recv = bytes(sum(receives));
            return [comm.ialltoallv(filled(sum(sends)), sends, null, recv, receives, null), recv];
          },
        ],
      };
      for (const [name, [receiver, start]] of Object.entries(calls)) {
        const comm = await world.dup();
        const what = `${name}, ${sent} bytes sent, ${expected} expected, others ${rest}, on rank ${rank}`;
        let result: [Request, Uint8Array | null] | undefined;
        const error = await outcomeOf(() => (result = start(comm))[0]);
        const recv = result?.[1] ?? null;
        outcomes.push({ name, sent, receiver, failure: error?.name ?? null, origin: null });
        if (error instanceof TruncatedError) {
          assert.notEqual(rank, 2, what);
          const [here, there] = rank === receiver ? [expected, sent] : [sent, expected];
          const { peer, bytesHere, bytesThere } = error;
          assert.deepEqual([peer, bytesHere, bytesThere], [1 - rank, here, there], what);
        } else if (error instanceof AbandonedError) {
          assert.equal(error.reason, 'ERR_NBC_TRUNCATED', what);
          outcomes.at(-1)!.origin = error.origin ?? null;
        } else {
          assert.equal(error, null, `${what}: ${String(error)}`);
          assert.notEqual(rank, receiver, `${what}: no error`);
          // Of each rank that sends to it, its block.
          const from = { igatherv: [], iscatterv: [1], ialltoallv: [1, 2, 3] }[name]!;
          const blocks = from.map((value) => bytes(rest).fill(value));
          if (recv !== null) assert.equal(Buffer.compare(recv, Buffer.concat(blocks)), 0, what);
        }
        // The calls were the same, so the communicator goes on.
        const all = Float64Array.of(1);
        await comm.iallreduce(IN_PLACE, all, SUM);
        assert.equal(all[0], 3, what);
        await comm.close();
      }
    }
  }
  await world.close();
  report(outcomes);
}

export interface Debugged {
  name: string;
  message: string;
  calledAt: string | null;
}

/** Where this is called, as errors say it, without the column. */
function here(): string {
  return /\(?([^()\s]+:\d+):\d+\)?$/.exec(new Error().stack!.split('\n')[2])![1];
}

/** With option debug, the error has the line of the call. Two ranks. */
async function debugged(): Promise<void> {
  const world = await init({ timeout: LIMIT_MS });
  const calls: Record<string, Start> = {
    ibcast: (comm) => comm.ibcast(bytes(600_000), comm.rank),
    'values.gather': (comm) => (comm.rank === 0 ? comm.values.gather(1, 0) : comm.values.gather(1, 1)),
    split: (comm) => (comm.rank === 0 ? comm.cart({ dims: [2], periods: [true] }) : comm.split(0)),
  };
  const told: Debugged[] = [];
  for (const [name, start] of Object.entries(calls)) {
    const comm = await world.dup();
    const error = await outcomeOf(() => start(comm));
    assert(error instanceof MismatchError, String(error));
    told.push({
      name: error.operation === 'cart' ? 'cart' : name,
      message: error.message,
      calledAt: error.calledAt ?? null,
    });
    await comm.close();
  }
  told.push(await debuggedInit(world));
  told.push(...(await debuggedClose(world)));
  await world.close();
  report(told);
}

async function debuggedInit(world: Communicator): Promise<Debugged> {
  const comm = await world.dup();
  const made = { at: here(), request: comm.bcastInit(bytes(600_000), comm.rank) };
  const error = await outcomeOf(() => {
    made.request.start();
    return made.request;
  });
  assert(error instanceof MismatchError, String(error));
  const { message, calledAt = null } = error;
  if (calledAt !== null) assert(calledAt.startsWith(`${made.at}:`), `${calledAt}, not ${made.at}`);
  await comm.close();
  return { name: 'bcastInit', message, calledAt };
}

/** Rank 0 leaves a message over, and has made a call that rank 1 never makes. */
async function debuggedClose(world: Communicator): Promise<Debugged[]> {
  const twice = new Schedule().send(1, Role.SEND, 0, 8).send(1, Role.SEND, 0, 8);
  const single = new Schedule().recv(0, Role.RECEIVE, 0, 8);
  const start: Start =
    world.rank === 0 ? (comm) => comm.start(twice, bytes(8), null) : (comm) => comm.start(single, null, bytes(8));
  const leftOver = await closedAfter(world, start, start);
  const uncalled = await closedAfter(world, bcast(8, 0), null);
  if (world.rank === 0) {
    await leftOver.close();
    await uncalled.close();
    return [];
  }
  const error = await outcomeOf(() => leftOver.close());
  assert(error instanceof MismatchError, String(error));
  const warned = once(process, 'warning');
  await uncalled.close();
  const [{ message }] = (await warned) as [Error];
  return [
    { name: 'close', message: error.message, calledAt: error.calledAt ?? null },
    { name: 'close', message, calledAt: / at (\S+)$/.exec(message)?.[1] ?? null },
  ];
}

await play({ differences, atTheEnd, legal, refused, leftOver, closedWithout, counts, debugged });
