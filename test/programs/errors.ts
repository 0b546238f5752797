/** Mistakes: wrong arguments, and ranks that disagree. Two ranks, three, or eight. */
import assert from 'node:assert/strict';
import { constants } from 'node:buffer';
import {
  AbandonedError,
  alloc,
  ArgumentError,
  type Communicator,
  init,
  MismatchError,
  NbcError,
  type Request,
  TruncatedError,
  waitAll,
} from 'node-nbc';
import { bcastBinomial, gatherBinomial } from 'node-nbc/schedules';
import { type WrongCall, wrongCalls } from '../support/wrong-calls.js';
import { play, report } from './scenario.js';

await play({ arguments: wrongArguments, sizes, sizesOfCollectives, eagerLimits, fields, lateBlock, failingTree });

/** Calls and the argument that their error must name. All fail on one rank alone: nothing may reach the other one. */
async function wrongArguments(): Promise<void> {
  const world = await init();
  const { rank } = world;
  const peer = 1 - rank;
  const eight = new Uint8Array(8);
  const sixteen = new Uint8Array(16);
  // Both are there, so that nothing connects later.
  waitAll([world.irecv(new Uint8Array(1), peer, 98), world.isend(new Uint8Array(1), peer, 98)]);
  // Its message comes at the very end, when both ranks have made all their mistakes.
  const pending = world.irecv(new Uint8Array(4), peer, 99);

  const calls = wrongCalls(world, pending);

  /** A shape that was used last takes a shorter way through the checks: all mistakes are made on both. */
  const warm = (): void => {
    world.ibcast(eight, 0).wait();
    world.igather(eight, rank === 0 ? sixteen : null, 0).wait();
    world.igather(eight, rank === 1 ? sixteen : null, 1).wait();
    world.ialltoall(eight, new Uint8Array(8)).wait();
    // Shapes whose byte counts the mistakes above have.
    world.ialltoall(new Uint8Array(24), new Uint8Array(24)).wait();
    world.igather(new Uint8Array(12), rank === 0 ? new Uint8Array(24) : null, 0).wait();
    world.igather(new Uint8Array(12), rank === 1 ? new Uint8Array(24) : null, 1).wait();
  };
  const traffic = (): unknown => {
    const { started, rounds, eagerSent, rtrSent, dataSent, connections, allocatedBytes } = world.stats();
    return { started, rounds, eagerSent, rtrSent, dataSent, connections, allocatedBytes };
  };
  for (const warmed of [false, true]) {
    if (warmed) warm();
    const before = traffic();
    calls.forEach(mustThrow);
    assert.deepEqual(traffic(), before, 'nothing was sent');
  }
  for (const value of [-1, 1.5, 2 ** 31, 'a', null, NaN]) {
    await assert.rejects(world.split(value as never), { name: 'ArgumentError', argument: 'color' });
  }
  for (const value of [1.5, 2 ** 31, -(2 ** 31) - 1, 'a', NaN]) {
    await assert.rejects(world.split(0, value as never), { name: 'ArgumentError', argument: 'key' });
  }
  for (const bytes of [constants.MAX_LENGTH + 1, 2 ** 52])
    assert.throws(() => alloc(Uint8Array, bytes), { name: 'ExhaustedError', code: 'ERR_NBC_NO_MEMORY' });

  // All is as before.
  assert.equal(pending.done, false);
  warm();
  world.isend(Uint8Array.of(1, 2, 3, 4), peer, 99).wait();
  pending.wait();
  warm();
  await (await world.dup()).ibcast(eight, 1);
  await world.close();
  report(calls.length);
}

function mustThrow([argument, call, operation]: WrongCall): void {
  const check = (error: unknown): boolean => {
    assert(error instanceof ArgumentError, `${String(call)} throws ${String(error)}`);
    assert.equal(error.argument, argument, `${String(call)} blames ${error.argument}: ${error.message}`);
    assert.equal(error.code, 'ERR_NBC_ARGUMENT');
    assert(error.message.startsWith(`${argument}: `), error.message);
    if (operation !== undefined) assert.equal(error.operation, operation, error.message);
    return true;
  };
  assert.throws(call, check, `${String(call)} must throw`);
}

/** Which sizes the ranks have, by rank. */
type Pair = [zero: number, one: number];

/** The ranks begin at opposite ends, so that each is the first one for half of the pairs. */
function eachPair(rank: number, start: (pair: Pair, index: number) => void): void {
  const pairs = [...(JSON.parse(process.env['TEST_PAIRS'] ?? '') as Pair[]).entries()];
  if (rank === 1) pairs.reverse();
  for (const [index, pair] of pairs) start(pair, index);
}

/** Messages whose sender (rank 0) and receiver have different sizes. Reports what became of each on this rank. */
async function sizes(): Promise<void> {
  const world = await init({ eagerLimit: 255 });
  const { rank } = world;
  const buffers: Uint8Array[] = [];
  const requests: Request[] = [];
  eachPair(rank, (pair, tag) => {
    buffers[tag] = new Uint8Array(pair[rank]).fill(9);
    requests[tag] = rank === 0 ? world.isend(buffers[tag], 1, tag) : world.irecv(buffers[tag], 0, tag);
  });
  report(requests.map((request, tag) => `${outcomeOf(`message ${tag}`, () => request)} ${request.bytes}`));
  for (const buffer of buffers) {
    assert(
      buffer.every((byte) => byte === 9),
      'no byte is written of a message that does not fit',
    );
  }
  // Nothing is left over that the next messages could meet.
  const peer = 1 - rank;
  const [out, back] = [new Uint8Array(1000).fill(3), new Uint8Array(1000)];
  for (let tag = 0; tag < buffers.length; tag++) {
    back.fill(0);
    waitAll([world.irecv(back, peer, tag), world.isend(out, peer, tag)]);
    assert.deepEqual(back, out);
  }
  await world.close();
}

function outcomeOf(what: string, call: () => Request): string {
  const request = call();
  try {
    request.wait();
    return 'fulfilled';
  } catch (error) {
    assert(error instanceof NbcError, String(error));
    assert.equal(request.done, true);
    assert.throws(() => request.test(), { code: error.code });
    return `${error.name}: ${error.message}`;
  }
}

/** Collectives in which rank 1 has other sizes than rank 0. */
async function sizesOfCollectives(): Promise<void> {
  const world = await init({ eagerLimit: 255 });
  const { rank } = world;
  // A communicator each: ranks that disagree are out of step there.
  const communicators: Communicator[][] = [];
  for (let index = 0; index < (JSON.parse(process.env['TEST_PAIRS'] ?? '') as Pair[]).length; index++) {
    communicators.push([await world.dup(), await world.dup(), await world.dup()]);
  }
  const requests: Record<string, Request[]> = { ibcast: [], igather: [], ialltoall: [] };
  eachPair(rank, (pair, index) => {
    const bytes = pair[rank];
    const [a, b, c] = communicators[index];
    const all = new Uint8Array(2 * bytes);
    requests['ibcast'][index] = a.ibcast(new Uint8Array(bytes), 0);
    requests['igather'][index] = b.igather(new Uint8Array(bytes), rank === 0 ? all : null, 0);
    requests['ialltoall'][index] = c.ialltoall(new Uint8Array(2 * bytes), all);
  });
  const outcomes: Record<string, string[]> = {};
  for (const [name, list] of Object.entries(requests)) {
    outcomes[name] = list.map((request, index) => outcomeOf(`${name} of pair ${index}`, () => request));
  }
  await world.ibcast(new Uint8Array(1), 0);
  await world.ibcast(new Uint8Array(1), 1);
  const ended = Object.values(outcomes)
    .flat()
    .filter((outcome) => outcome.startsWith('fulfilled')).length;
  // A rank whose calls were complete before anybody could know hears of it now.
  if (ended === 0) await world.close();
  else await assert.rejects(world.close(), MismatchError);
  report(outcomes);
}

/** What an error of a request has as properties. */
async function fields(): Promise<void> {
  const world = await init({ eagerLimit: 255 });
  const { rank } = world;
  const [[zero, one]] = JSON.parse(process.env['TEST_PAIRS'] ?? '') as Pair[];
  const request = rank === 0 ? world.isend(new Uint8Array(zero), 1) : world.irecv(new Uint8Array(one), 0);
  assert.throws(
    () => request.wait(),
    (error: unknown) => {
      assert(error instanceof TruncatedError, String(error));
      const { name, rank: own, peer: other, bytesHere, bytesThere } = error;
      report({ name, rank: own, peer: other, bytesHere, bytesThere });
      return true;
    },
  );
  await world.close();
}

/** Ranks whose eager limits differ: told by the environment. */
async function eagerLimits(): Promise<void> {
  const world = await init();
  const peer = 1 - world.rank;
  const outcomes = [
    outcomeOf('irecv', () => world.irecv(new Uint8Array(8), peer, 1)),
    outcomeOf('isend', () => world.isend(new Uint8Array(8), peer, 1)),
    outcomeOf('ialltoall', () => world.ialltoall(new Uint8Array(100_000), new Uint8Array(100_000))),
    await world.dup().then(
      () => 'fulfilled',
      (error: unknown) => `${(error as Error).name}: ${(error as Error).message}`,
    ),
  ];
  // Ends when both have seen it: the end of one would be another error.
  process.once('SIGUSR2', () => void world.close().then(() => process.exit(0)));
  setInterval(() => {}, 1000);
  report(outcomes);
}

/**
 * Three ranks. Rank 2 sends a block of a wrong size at once, rank 1 its block only after rank 0 has its error and uses
 * the buffer again: nothing of that block may arrive there.
 */
async function lateBlock(): Promise<void> {
  const world = await init({ eagerLimit: 255 });
  const { rank } = world;
  const signal = new Uint8Array(1);
  for (const bytes of [8, 5000, 1 << 20]) {
    const counts = [bytes, bytes, bytes];
    const send = new Uint8Array(rank === 2 ? bytes / 2 : bytes).fill(rank + 1);
    const recv = new Uint8Array(3 * bytes);
    const gather = (): Promise<string> =>
      Promise.resolve(world.igatherv(send, rank === 0 ? recv : null, counts, null, 0)).then(
        () => 'fulfilled',
        (error: unknown) => (error as NbcError).code,
      );
    if (rank === 0) {
      const gathered = world.igatherv(send, recv, counts, null, 0);
      assert.throws(() => gathered.wait(), { code: 'ERR_NBC_TRUNCATED' });
      recv.fill(99);
      await world.isend(signal, 1, 7);
      await world.irecv(signal, 1, 8);
    } else if (rank === 1) {
      await world.irecv(signal, 0, 7);
      // A block that has left before its sender hears that nobody wants it is dropped.
      assert.match(await gather(), /^(ERR_NBC_ABANDONED|fulfilled)$/);
      await world.isend(signal, 0, 8);
    } else {
      await gather();
    }
    await world.ibcast(new Uint8Array(bytes), 0);
    if (rank === 0) assert(recv.every((byte) => byte === 99));
  }
  await world.close();
  report('done');
}

/**
 * Eight ranks. Rank 4 gives another size than the others to operations on a binomial tree. Nobody closes: all have met
 * again before a rank says what it got, and the world is good for the next operation.
 */
async function failingTree(): Promise<void> {
  const world = await init({ eagerLimit: 255 });
  const { rank } = world;
  const outcome = (request: Request): string => {
    try {
      request.wait();
      return 'fulfilled';
    } catch (error) {
      assert(error instanceof NbcError, `rank ${rank}: ${String(error)}`);
      if (!(error instanceof AbandonedError)) return error.name;
      assert.match(error.message, new RegExp(`rank ${error.origin} of the world \\(${error.reason}\\)`));
      return `${error.name} ${error.origin} ${error.reason}`;
    }
  };
  const outcomes: string[] = [];
  for (const bytes of [8, 5000, 1 << 20]) {
    const wrong = rank === 4 ? bytes / 2 : bytes;
    // Schedules of our own, since sizes of a collective are compared before they meet.
    const shape = { rank, size: world.size, root: 0, bytes: wrong, inPlace: false };
    outcomes.push(outcome(world.start(bcastBinomial(shape), null, new Uint8Array(wrong))));
    world.ibarrier().wait();
    const all = rank === 0 ? new Uint8Array(8 * bytes) : null;
    outcomes.push(outcome(world.start(gatherBinomial(shape), new Uint8Array(wrong), all)));
    world.ibarrier().wait();
  }
  report(outcomes);
  await world.close();
}
