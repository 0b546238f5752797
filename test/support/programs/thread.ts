/**
 * A whole program whose ranks may be threads (nbcrun --threads): the first argument names the scenario. Run as a worker
 * of a test, with the place of a rank in its environment, it does the same.
 */
import assert from 'node:assert/strict';
import { parentPort } from 'node:worker_threads';
import { type Communicator, init, NbcError, SUM } from 'node-nbc';
import { runCollectives } from '../../programs/all-collectives.js';
import { play, say } from '../../programs/scenario.js';

const args = process.argv.slice(3);
const BYTES = 1 << 20;

/** The rank that each other rank waits for, and loses. */
const LOST = 1;

async function sum(world: Communicator, length: number): Promise<void> {
  const recv = new Float64Array(length);
  await world.iallreduce(new Float64Array(length).fill(world.rank), recv, SUM);
  assert(recv.every((value) => value === (world.size * (world.size - 1)) / 2));
}

/** Tells who a rank is and how its data moved. */
function tell({ rank, size }: Communicator, stats: object): void {
  say(JSON.stringify({ rank, size, pid: process.pid, stats }));
}

/** What the error says that a request for a rank ends with. */
async function loss(world: Communicator, rank = LOST): Promise<string> {
  const request = world.irecv(new Uint8Array(BYTES), rank, 1);
  return request.then(
    () => 'nothing',
    (error: unknown) => (error as NbcError).code,
  );
}

await play({
  /** Small and large reductions; tells how data moved. */
  async sums() {
    const world = await init();
    for (const length of [1, 1000, BYTES / 8]) await sum(world, length);
    await world.ibarrier();
    tell(world, world.stats());
    await world.close();
  },

  /**
   * Large blocks, which nothing is computed of: either end of a message may copy them. Who does depends on who runs
   * when, so ranks go on until receivers have helped in both processes. Tells how the blocks moved.
   */
  async blocks() {
    const world = await init();
    const send = new Uint8Array(world.size * BYTES).fill(world.rank);
    const recv = new Uint8Array(send.length);
    const helped = new Float64Array(world.size);
    for (let both = false; !both; both = helped[0] + helped[1] > 0 && helped[2] + helped[3] > 0) {
      world.ialltoall(send, recv.fill(0xee)).wait();
      for (let from = 0; from < world.size; from++)
        assert(recv.subarray(from * BYTES, (from + 1) * BYTES).every((value) => value === from));
      await world.iallgather(Float64Array.of(world.stats().helpedPieces ?? 0), helped);
    }
    tell(world, world.stats());
    await world.close();
  },

  /** All operations; tells how data moved. */
  async collectives() {
    const world = await init();
    const { cases, stats } = await runCollectives(world, { mode: 'thread', form: 'once' });
    assert(cases > 300, 'the cases were run');
    tell(world, stats);
    await world.close();
  },

  /**
   * Four ranks, two in each process. The second process stops; those of the first lose both, and then let it go on.
   * Each tells how its requests for a rank of the other process have ended.
   */
  async stop() {
    const world = await init();
    const { rank } = world;
    const pids = new Uint32Array(world.size);
    await world.iallgather(Uint32Array.of(process.pid), pids);
    if (rank === 2) process.kill(process.pid, 'SIGSTOP');
    const others = rank < 2 ? [2, 3] : [0];
    const codes = await Promise.all(others.map((other) => loss(world, other)));
    if (rank === 1) await world.isend(new Uint8Array(1), 0, 2);
    if (rank === 0) {
      await world.irecv(new Uint8Array(1), 1, 2);
      process.kill(pids[2], 'SIGCONT');
    }
    say(`${rank}: ${codes.join(' ')}`);
    await world.close();
  },

  /**
   * Rank 1 ends in the way that the first argument names; the others tell of it, and go on without it. It ends when it
   * has heard from all: its process may end with it, and a barrier that is over for it need not be over for the others.
   */
  async lose() {
    const world = await init();
    await world.igather(new Uint8Array(1), new Uint8Array(world.size), LOST);
    const told = world.rank === LOST ? undefined : loss(world);
    parentPort?.postMessage(`ready ${world.rank}`);
    if (world.rank === LOST) {
      if (args[0] === 'exit') process.exit(7);
      if (args[0] === 'throw') throw new RangeError('thrown on purpose');
      if (args[0] === 'kill') process.kill(process.pid, 'SIGKILL');
      await new Promise(() => setInterval(() => undefined, 1000));
    }
    const code = await told!;
    const rest = await world.shrink();
    await sum(rest, BYTES / 8);
    const text = `${world.rank} lost it: ${code}; ${rest.size} are left`;
    if (parentPort === null || args[0] !== 'terminate') say(text);
    else parentPort.postMessage(text);
    await world.close();
  },

  /** A second init() of the thread is refused, and one after close(): its place is taken once. */
  async again() {
    const world = await init();
    const codes = [await codeOf(init())];
    await world.ibarrier();
    await world.close();
    codes.push(await codeOf(init()));
    say(`${world.rank} ${codes.join(' ')}`);
  },
});

async function codeOf(opening: Promise<unknown>): Promise<string> {
  return opening.then(
    () => 'open',
    (error: unknown) => (error as NbcError).code,
  );
}
