/** dup and split; see communicator.test.ts. */
import assert from 'node:assert/strict';
import { type Communicator, init, type Request } from 'node-nbc';
import { play } from './scenario.js';

const world = await init();
const { rank, size } = world;

/** Every member's world rank, in order of rank: what the communicator really is. */
function membersOf(communicator: Communicator): number[] {
  const all = new Int32Array(communicator.size);
  const send = new Int32Array(communicator.size).fill(rank);
  communicator.ialltoall(send, all).wait();
  return [...all];
}

await play({
  async split() {
    const parity = await world.split(rank % 2, 0);
    assert(parity !== null);
    const expected = Array.from({ length: size }, (_, r) => r).filter((r) => r % 2 === rank % 2);
    assert.deepEqual(membersOf(parity), expected, 'equal keys keep the order of the parent');
    assert.equal(parity.rank, expected.indexOf(rank));

    const reversed = await world.split(5, -rank);
    assert(reversed !== null);
    assert.deepEqual(
      membersOf(reversed),
      Array.from({ length: size }, (_, r) => size - 1 - r),
      'keys order the ranks',
    );

    const some = await world.split(rank === 1 ? undefined : 0);
    if (rank === 1) assert.equal(some, null);
    else assert.equal(some!.size, size - 1);

    const nested = await reversed.split(reversed.rank < 2 ? 0 : 1, 0);
    assert.deepEqual(
      membersOf(nested!),
      reversed.rank < 2 ? [size - 1, size - 2] : Array.from({ length: size - 2 }, (_, r) => size - 3 - r),
    );
    await nested!.close();
  },

  /**
   * The same operations on several communicators, started in different orders on different ranks: contexts keep them
   * apart.
   */
  async isolation() {
    const communicators = [world, await world.dup(), await world.dup()];
    communicators.push(await communicators[1].dup());
    const buffers = communicators.map((_, i) => Int32Array.of(rank === 0 ? 100 + i : -1));
    const order = communicators.map((_, i) => (i + rank) % communicators.length);
    const requests: Request[] = [];
    for (const i of order) requests[i] = communicators[i].ibcast(buffers[i], 0);
    for (const i of order.toReversed()) requests[i].wait();
    buffers.forEach((buffer, i) => assert.equal(buffer[0], 100 + i));
  },

  /** dups that overlap each other. */
  async concurrent() {
    const made = await Promise.all([world.dup(), world.dup(), world.split(0, rank), world.dup()]);
    const requests = made.map((communicator, i) => {
      const data = Int32Array.of(communicator!.rank === 0 ? i : -1);
      return { data, i, request: communicator!.ibcast(data, 0) };
    });
    for (const { data, i, request } of requests.toReversed()) {
      await request;
      assert.equal(data[0], i);
    }
  },
});
await world.close();
