/**
 * Runs a plan (the first argument, as JSON) with as much overlap as its buffers allow. Steps are started in their
 * order; each waits first for earlier ones that use its buffers; beyond that, ranks wait in an order and in ways of
 * their own.
 *
 * Reports a hash of what every step wrote, taken when it had completed.
 */
import { createHash } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import {
  alloc,
  type Communicator,
  init,
  type PersistentRequest,
  type Request,
  testAll,
  TimeoutError,
  waitAll,
  waitAny,
} from 'node-nbc';
import { OPERATIONS } from 'node-nbc/schedules';
import { gridLists, type Lists } from '../lists.js';
import { arrange } from '../oracle.js';
import { generator } from '../support/random.js';
import {
  BUFFER_BYTES,
  BUFFERS,
  buffersOf,
  bytesOf,
  caseOf,
  chosen,
  type CommunicatorStep,
  type DataStep,
  endsOf,
  graphOf,
  gridOf,
  hasNeighbors,
  initialContent,
  oracleOf,
  peersOf,
  type Plan,
  type Region,
  regionOf,
} from './plan.js';
import { report } from './scenario.js';

/** What an operation uses. */
interface Use {
  reads: number[];
  writes: number[];
  /** What it writes. */
  result: Region | null;
}

/** What a persistent request is, and uses in each start. */
interface Prepared extends Use {
  request: PersistentRequest;
}

interface Flight extends Use {
  step: number;
  request: Request;
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

/** A communicator (null: this rank is not in it), and the neighbours of all its ranks, if it has a topology. */
interface Made {
  communicator: Communicator | null;
  lists?: readonly Lists[] | undefined;
}

const communicators: (Made & { neighbors: boolean })[] = [{ communicator: world, neighbors: false }];
/** Persistent requests, one for each step that makes one; null: not on this rank. */
const persistent: (Prepared | null)[] = [];
const hashes: Record<number, string> = {};
let flights: Flight[] = [];

for (const [index, step] of plan.steps.entries()) {
  if ('parent' in step) {
    const parent = communicators[step.parent % communicators.length];
    const made = await make(step, parent);
    communicators.push({ ...made, neighbors: hasNeighbors(step, parent) });
    continue;
  }
  if (step.kind === 'again') {
    const known = persistent[step.of % persistent.length] ?? null;
    if (known !== null) await startAgain(index, known);
  } else {
    const on = chosen(step, communicators);
    const made = on === null ? null : await start(index, step, on);
    if ('persistent' in step && step.persistent) persistent.push(made as Prepared | null);
  }
  if (random() < 0.2) await complete(flights.filter(() => random() < 0.5));
}
await complete(flights);
for (const made of persistent) made?.request.free();
const final = buffers.map(hashOf);
await world.close();
report({ hashes, final });

async function make(step: CommunicatorStep, { communicator: parent, lists }: Made): Promise<Made> {
  if (parent === null) return { communicator: null };
  switch (step.kind) {
    case 'dup':
      return { communicator: await parent.dup(), lists };
    case 'split': {
      const color = step.colors[me];
      return { communicator: await parent.split(color < 0 ? undefined : color, step.keys[me]) };
    }
    case 'cart': {
      const { dims, periods } = gridOf(step, parent.size);
      return { communicator: await parent.cart({ dims, periods }), lists: gridLists(dims, periods) };
    }
    case 'graph': {
      const all = graphOf(step, parent.size);
      return { communicator: await parent.distGraph(all[parent.rank]), lists: all };
    }
  }
}

type Method<R extends Request> = (...args: unknown[]) => R;

/** Starts what this rank has to do in the step; null: nothing. */
async function start(index: number, step: DataStep, { communicator, lists }: Made): Promise<Flight | null> {
  if (communicator === null) return null;
  const { rank, size } = communicator;
  const { send, receive } = buffersOf(step, me);
  const methods = communicator as unknown as Record<string, Method<Request>>;
  const inits = communicator as unknown as Record<string, Method<PersistentRequest>>;
  const regions: { send?: Region; recv?: Region } = {};
  const use = (role: 'send' | 'recv', bytes: number): Region =>
    (regions[role] = regionOf(buffers[role === 'send' ? send : receive], step, me, role, bytes));
  const launch = async (name: string, args: unknown[]): Promise<Flight> => {
    const reads = regions.send === undefined ? [] : [send];
    const writes = regions.recv === undefined ? [] : [receive];
    const init = 'persistent' in step && step.persistent;
    // An Init method does not touch the buffers.
    const prepared = init ? inits[`${name.slice(1)}Init`](...args) : null;
    await complete(flights.filter((other) => inTheWay(other, reads, writes)));
    prepared?.start();
    const flight = {
      step: index,
      request: prepared ?? methods[name](...args),
      reads,
      writes,
      result: regions.recv ?? null,
    };
    flights.push(flight);
    return flight;
  };

  if (step.kind === 'message') {
    const ends = endsOf(step, size);
    if (ends?.from === rank) return launch('isend', [use('send', bytesOf(step)).data, ends.to, step.tag]);
    if (ends?.to === rank) return launch('irecv', [use('recv', bytesOf(step)).data, ends.from, step.tag]);
    return null;
  }
  if (step.kind === 'exchange') {
    const { dest, source } = peersOf(step, rank, size);
    if (dest === null && source === null) return null;
    const out = dest === null ? null : use('send', bytesOf(step)).data;
    const into = source === null ? null : use('recv', bytesOf(step)).data;
    return launch('isendrecv', [out, dest, into, source, step.tag, step.tag]);
  }
  const layouts = new Map<unknown, unknown>();
  const c = caseOf(step, size, lists);
  const part = arrange(oracleOf(step), c, rank, (bytes, role) => {
    const { data } = use(role, bytes);
    if (data instanceof Uint8Array) return data;
    const inItsPlace = new Uint8Array(bytes);
    layouts.set(inItsPlace, data);
    return inItsPlace;
  });
  // Operations between neighbours have no options.
  const algorithms = OPERATIONS.find(({ name }) => name === step.kind)?.algorithms;
  const names = algorithms?.filter(({ reorders }) => c.op.commutes || reorders !== true).map(({ name }) => name) ?? [];
  const options =
    algorithms === undefined ? [] : [{ algorithm: [...names, undefined][step.algorithm % (names.length + 1)] }];
  return launch(step.kind, [...part.args.map((arg) => layouts.get(arg) ?? arg), ...options]);
}

/** Starts a persistent request once more. */
async function startAgain(index: number, { request, reads, writes, result }: Prepared): Promise<void> {
  await complete(flights.filter((other) => other.request === request || inTheWay(other, reads, writes)));
  request.start();
  flights.push({ step: index, request, reads, writes, result });
}

/** Whether an operation must end before one that uses these buffers starts. */
function inTheWay(other: Flight, reads: number[], writes: number[]): boolean {
  return (
    other.writes.some((buffer) => reads.includes(buffer) || writes.includes(buffer)) ||
    other.reads.some((buffer) => writes.includes(buffer))
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
    if (result !== null) hashes[step] = hashOf(result.read());
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
