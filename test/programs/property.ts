/**
 * Runs a plan (the first argument, as JSON) with as much overlap as its buffers allow. Steps are started in their
 * order; each waits first for earlier ones that use its buffers; beyond that, ranks wait in an order and in ways of
 * their own.
 *
 * Reports a hash of what every step wrote, taken when it had completed.
 */
import { createHash } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { alloc, type Communicator, init, type Request, testAll, TimeoutError, waitAll, waitAny } from 'node-nbc';
import { OPERATIONS } from 'node-nbc/schedules';
import { arrange, ORACLES } from '../oracle.js';
import {
  BUFFER_BYTES,
  BUFFERS,
  buffersOf,
  bytesOf,
  caseOf,
  type DataStep,
  endsOf,
  initialContent,
  type Plan,
} from './plan.js';
import { report } from './scenario.js';

interface Flight {
  step: number;
  request: Request;
  reads: number[];
  writes: number[];
  /** What it writes. */
  result: Uint8Array | null;
}

const plan = JSON.parse(process.argv[2]) as Plan;
const world = await init(plan.settings);
const me = world.rank;
const random = generator(plan.order + me);

const buffers = Array.from({ length: BUFFERS }, (_, index) => {
  // Each rank has both kinds, and not the same ones.
  const memory = (index + me) % 2 === 0 ? alloc(Uint8Array, BUFFER_BYTES) : new Uint8Array(BUFFER_BYTES);
  memory.set(initialContent(me, index));
  return memory;
});

const communicators: (Communicator | null)[] = [world];
const hashes: Record<number, string> = {};
let flights: Flight[] = [];

for (const [index, step] of plan.steps.entries()) {
  if (step.kind === 'dup' || step.kind === 'split') {
    const parent = communicators[step.parent % communicators.length];
    if (parent === null) communicators.push(null);
    else if (step.kind === 'dup') communicators.push(await parent.dup());
    else {
      const color = step.colors[me];
      communicators.push(await parent.split(color < 0 ? undefined : color, step.keys[me]));
    }
    continue;
  }
  const communicator = communicators[step.communicator % communicators.length];
  if (communicator !== null) await start(index, step, communicator);
  if (random() < 0.2) await complete(flights.filter(() => random() < 0.5));
}
await complete(flights);
const final = buffers.map(hashOf);
await world.close();
report({ hashes, final });

async function start(index: number, step: DataStep, communicator: Communicator): Promise<void> {
  const { rank, size } = communicator;
  const { send, receive } = buffersOf(step, me);
  const view = (buffer: number, bytes: number): Uint8Array => buffers[buffer].subarray(step.shift, step.shift + bytes);
  const launch = async (
    reads: number[],
    writes: number[],
    result: Uint8Array | null,
    call: () => Request,
  ): Promise<void> => {
    await complete(
      flights.filter(
        (other) =>
          other.writes.some((buffer) => reads.includes(buffer) || writes.includes(buffer)) ||
          other.reads.some((buffer) => writes.includes(buffer)),
      ),
    );
    flights.push({ step: index, request: call(), reads, writes, result });
  };
  if (step.kind === 'message') {
    const ends = endsOf(step, size);
    const bytes = bytesOf(step);
    if (ends?.from === rank) {
      await launch([send], [], null, () => communicator.isend(view(send, bytes), ends.to, step.tag));
    } else if (ends?.to === rank) {
      const target = view(receive, bytes);
      await launch([], [receive], target, () => communicator.irecv(target, ends.from, step.tag));
    }
    return;
  }
  const part = arrange(ORACLES[step.kind], caseOf(step, size), rank, (bytes, role) =>
    view(role === 'send' ? send : receive, bytes),
  );
  const names = OPERATIONS.find(({ name }) => name === step.kind)!.algorithms.map(({ name }) => name);
  const algorithm = [...names, undefined][step.algorithm % (names.length + 1)];
  const method = communicator[step.kind].bind(communicator) as (...args: unknown[]) => Request;
  await launch(part.send === null ? [] : [send], part.recv === null ? [] : [receive], part.recv, () =>
    method(...part.args, { algorithm }),
  );
}

/** Waits for some operations, in a random order and manner. */
async function complete(some: Flight[]): Promise<void> {
  if (some.length === 0) return;
  const requests = shuffle(some.map(({ request }) => request));
  switch (Math.floor(random() * 8)) {
    case 0:
      for (const request of requests) request.wait();
      break;
    case 1:
      for (const request of requests) await request;
      break;
    case 2:
      waitAll(requests);
      break;
    case 3:
      for (const left = [...requests]; left.length > 0;) left.splice(waitAny(left), 1);
      break;
    case 4:
      for (const request of requests) {
        // Not forever: ranks may outnumber processors, and then polling only keeps the others from running.
        for (let tries = 0; tries < 100 && !request.test(); tries++);
        request.wait();
      }
      break;
    case 5:
      for (let tries = 0; tries < 100 && !testAll(requests); tries++) await setImmediate();
      waitAll(requests);
      break;
    case 6:
      await Promise.all(requests);
      break;
    default:
      for (const request of requests) {
        try {
          request.wait(random() < 0.5 ? 0 : 0.05);
        } catch (error) {
          if (!(error instanceof TimeoutError)) throw error;
          await request;
        }
      }
  }
  for (const { step, request, result } of some) {
    if (!request.done) throw new Error(`step ${step} is not done after waiting for it`);
    if (result !== null) hashes[step] = hashOf(result);
  }
  flights = flights.filter((flight) => !some.includes(flight));
}

function hashOf(bytes: Uint8Array): string {
  return createHash('sha1').update(bytes).digest('base64');
}

function shuffle<T>(list: T[]): T[] {
  for (let i = list.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    [list[i], list[j]] = [list[j], list[i]];
  }
  return list;
}

/** Numbers from 0 to 1 (splitmix32 by Tommy Ettinger, public domain). */
function generator(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x9e3779b9) | 0;
    let z = state ^ (state >>> 16);
    z = Math.imul(z, 0x21f0aaad);
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
    return ((z ^ (z >>> 15)) >>> 0) / 2 ** 32;
  };
}
