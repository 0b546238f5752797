/**
 * Everything a program does, again and again: collectives of all sizes, messages, persistent requests and
 * collectives, communicators that come and go, requests that fail, are revoked or dropped. Arguments: seconds. Reports
 * what the rank holds, at intervals: bytes, descriptors, requests.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { alloc, type Communicator, IN_PLACE, init, SUM } from 'node-nbc';
import { randomFrom } from '../lists.js';
import { report } from './scenario.js';

const SECONDS = Number(process.argv[2]);
const SAMPLES = 24;
/** On a machine that is too busy for as many in that time, it goes on for longer. */
const LEAST_SAMPLES = 8;
const SIZES = [8, 1000, 4096, 70_000, 1 << 20];

const collect = (globalThis as unknown as { gc: () => void }).gc;
const world = await init();
const { rank, size } = world;
const next = (rank + 1) % size;
const before = (rank + size - 1) % size;

/** Each is the same on all ranks: they draw the same numbers. */
const random = randomFrom(1);

const checked = (view: Uint8Array, value: number): void => {
  for (const at of [0, view.length >> 1, view.length - 1]) assert.equal(view[at], value);
};

/** By turns memory of alloc(), and plain memory that is new. */
const buffer = (bytes: number): Uint8Array => (random(2) === 0 ? alloc(Uint8Array, bytes) : new Uint8Array(bytes));

const ACTIONS: ((comm: Communicator, bytes: number) => Promise<void> | void)[] = [
  async (comm, bytes) => {
    const data = buffer(bytes).fill(comm.rank === 0 ? 7 : 0);
    await comm.ibcast(data, 0);
    checked(data, 7);
  },
  (comm, bytes) => {
    const sum = new Float64Array(Math.ceil(bytes / 8)).fill(1);
    comm.iallreduce(IN_PLACE, sum, SUM).wait();
    assert.equal(sum.at(-1), size);
  },
  (comm, bytes) => {
    const recv = buffer(bytes * size);
    comm.ialltoall(buffer(bytes * size).fill(rank), recv).wait();
    checked(recv.subarray(before * bytes, (before + 1) * bytes), before);
  },
  async (comm, bytes) => {
    const recv = buffer(bytes);
    const send = comm.isend(buffer(bytes).fill(rank), next, 3);
    await comm.irecv(recv, before, 3);
    checked(recv, before);
    await send;
  },
  async (comm, bytes) => {
    const [send, recv] = [buffer(bytes), buffer(bytes)];
    const request = comm.sendInit(send, next, 4);
    for (let i = 0; i < 3; i++) {
      send.fill(i);
      request.start();
      comm.irecv(recv, before, 4).wait();
      checked(recv, i);
      await request;
    }
    request.free();
  },
  /** Of two persistent collectives one is freed, and the other is left to the garbage collector. */
  async (comm, bytes) => {
    const data = buffer(bytes);
    const bcast = comm.bcastInit(data, 0);
    const sum = new Float64Array(Math.ceil(bytes / 8));
    const allreduce = comm.allreduceInit(IN_PLACE, sum, SUM);
    for (let i = 1; i <= 3; i++) {
      data.fill(comm.rank === 0 ? i : 0);
      sum.fill(i);
      bcast.start();
      allreduce.start();
      await bcast;
      checked(data, i);
      allreduce.wait();
      assert.equal(sum.at(-1), i * size);
    }
    bcast.free();
  },
  async (comm) => {
    const other = await comm.dup();
    other.ibarrier().wait();
    await other.close();
  },
  /** A message that is too long, and a communicator that is revoked with something pending. */
  async (comm) => {
    const other = await comm.dup();
    const long = other.isend(new Uint8Array(16), next, 1);
    await assert.rejects(async () => await other.irecv(new Uint8Array(8), before, 1), { code: 'ERR_NBC_TRUNCATED' });
    await long;
    const pending = other.irecv(new Uint8Array(8), before, 2);
    comm.ibarrier().wait();
    if (rank === 0) other.revoke();
    await assert.rejects(async () => await pending, { code: 'ERR_NBC_REVOKED' });
    await other.close();
  },
  /** Nobody asks for it. */
  (comm, bytes) => void comm.iallgather(buffer(bytes), buffer(bytes * size)),
];

/** Of the world: which requests have a slot. Types do not show it. */
const inside = (
  world as unknown as { world: { slots: { pendingCount: number; reservedCount: number }; sweep: () => void } }
).world;
/** Turns of the event loop until a request is over that nobody asks for: peers may still have their part to do. */
const PATIENCE = 10_000;

/** What the collector finds is given back in later turns of the event loop. */
async function holds() {
  for (let i = 0; i < 4; i++) {
    collect();
    await new Promise(setImmediate);
  }
  for (let i = 0; i < PATIENCE && inside.slots.pendingCount > 0; i++) {
    inside.sweep();
    await new Promise(setImmediate);
  }
  const { rss, heapUsed, external, arrayBuffers } = process.memoryUsage();
  // Of what is resident: without pages of files, and those that it shares with other ranks.
  const [, kibibytes] = /^RssAnon:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8'))!;
  const { allocatedBytes: exposed, mailboxSlots, heldMessages: messages } = world.stats();
  return {
    rss,
    anonymous: Number(kibibytes) * 1024,
    heapUsed,
    external,
    arrayBuffers,
    descriptors: readdirSync('/proc/self/fd').length,
    requests: inside.slots.pendingCount + inside.slots.reservedCount,
    mailboxSlots,
    messages,
    exposed,
  };
}

const begin = performance.now();
const samples = [];
const share = new Float64Array(1);
let actions = 0;
do {
  for (let i = 0; i < 50; i++) {
    await ACTIONS[random(ACTIONS.length)](world, SIZES[random(SIZES.length)]);
    actions++;
  }
  share[0] = (performance.now() - begin) / 1000 / SECONDS;
  await world.ibcast(share, 0);
  if (share[0] * SAMPLES >= samples.length) samples.push(await holds());
} while (share[0] < 1 || samples.length < LEAST_SAMPLES);
await world.close();
report({ actions, samples });
