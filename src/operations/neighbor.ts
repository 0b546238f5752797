/** The table of operations on communicators with a topology: blocks to and from neighbours only. */
import { type Box, bytesOfBox, contiguous } from '../schedules/box.js';
import { Role } from '../schedules/encoding.js';
import { type Edge, exchangeParts } from '../schedules/parts.js';
import type { Schedule } from '../schedules/schedule.js';
import type { Block, Shape } from '../schedules/shape.js';
import type { Neighbors } from '../topologies.js';
import { blocksOf, textOf } from './counts.js';
import { type Algorithm, type Call, type Checked, NO_SIZES, operation } from './operation.js';
import { checkDisjoint, type Placement } from './parts.js';

/** Where the block for each destination is, and where the block of each source goes. */
export interface NeighborShape extends Shape {
  readonly neighbors: Neighbors;
  readonly from: Role;
  readonly sends: readonly Box[];
  readonly recvs: readonly Box[];
}

/** All messages at once. Those between two ranks match in the order of their lists. */
function neighborLinear({ rank, neighbors, from, sends, recvs }: NeighborShape): Schedule {
  const { sources, destinations, order } = neighbors;
  const all = destinations.map((_, index) => index);
  const edges = (indices: readonly number[], peers: readonly (number | null)[], boxes: readonly Box[]): Edge[] =>
    indices.flatMap((index) => {
      const peer = peers[index];
      return peer === null ? [] : [{ peer, box: boxes[index] }];
    });
  return exchangeParts(rank, edges(all, destinations, sends), edges(order, sources, recvs), from);
}

const LINEAR: [Algorithm<'linear', NeighborShape>] = [
  {
    name: 'linear',
    steps: '1',
    bytes: 'all blocks but those for itself',
    when: 'always',
    source: 'LibNBC',
    build: neighborLinear,
  },
];

const choose = (): 'linear' => 'linear';

/** The two buffers; null: there are no neighbours to need it. */
function buffersOf(call: Call): [send: Checked | null, recv: Checked | null] {
  const { sources, destinations } = call.neighbors;
  const send = destinations.length === 0 ? null : call.view('send');
  const recv = sources.length === 0 ? null : call.view('recv');
  if (send !== null && recv !== null) call.checkPair(send, recv);
  return [send, recv];
}

/** @param sized the argument that says how large the blocks are that are received */
function shapeOf(call: Call, sends: readonly Block[], recvs: readonly Block[], sized: string): NeighborShape {
  const boxes = (blocks: readonly Block[]): Box[] => blocks.map(({ offset, bytes }) => contiguous(offset, bytes));
  const detail = `${textOf(sends)} / ${textOf(recvs)}`;
  return checkOwn(call, { from: Role.SEND, sends: boxes(sends), recvs: boxes(recvs), detail }, sized);
}

type Exchange = Pick<NeighborShape, 'from' | 'sends' | 'recvs' | 'detail'>;

/** What a rank sends to itself, it receives. */
function checkOwn(call: Call, exchange: Exchange, sized: string): NeighborShape {
  const { neighbors, rank } = call;
  const own = exchange.sends.filter((_, index) => neighbors.destinations[index] === rank).map(bytesOfBox);
  for (const index of neighbors.order) {
    if (neighbors.sources[index] !== rank) continue;
    const [sent, received] = [own.shift(), bytesOfBox(exchange.recvs[index])];
    if (sent === received) continue;
    call.refuse(sized, `block ${index} comes from the rank itself, which sends ${sent} bytes, and has ${received}`);
  }
  return { ...call.shape(0), neighbors, ...exchange };
}

const repeated = (times: number, bytes: number, distance = bytes): Block[] =>
  Array.from({ length: times }, (_, index) => ({ offset: index * distance, bytes }));

const ineighborAllgather = operation({
  name: 'ineighborAllgather',
  mpi: 'MPI_Ineighbor_allgather',
  summary: 'Sends one block to all neighbours, and collects a block of each.',
  parameters: ['send', 'recv'],
  algorithms: LINEAR,
  shape(call) {
    const { sources, destinations } = call.neighbors;
    const [send, recv] = buffersOf(call);
    const block = recv === null ? 0 : call.block('recv', recv, sources.length);
    if (send !== null && recv !== null && send.bytes !== block) {
      call.refuse('recv', `must have ${sources.length} blocks of ${send.bytes} bytes, as send has, not of ${block}`);
    }
    return shapeOf(call, repeated(destinations.length, send?.bytes ?? 0, 0), repeated(sources.length, block), 'recv');
  },
  sizes: NO_SIZES,
  choose,
});

const ineighborAllgatherv = operation({
  name: 'ineighborAllgatherv',
  mpi: 'MPI_Ineighbor_allgatherv',
  summary: 'Sends one block to all neighbours, and collects a block of each, of its own size and to its own place.',
  parameters: ['send', 'recv', 'counts', 'displs'],
  algorithms: LINEAR,
  shape(call) {
    const { sources, destinations } = call.neighbors;
    const [counts, displs] = call.lists;
    const [send, recv] = buffersOf(call);
    const blocks =
      recv === null ? [] : blocksOf(call, ['counts', 'displs'], counts, displs, 'recv', recv, sources.length);
    return shapeOf(call, repeated(destinations.length, send?.bytes ?? 0, 0), blocks, 'counts');
  },
  sizes: NO_SIZES,
  choose,
});

const ineighborAlltoall = operation({
  name: 'ineighborAlltoall',
  mpi: 'MPI_Ineighbor_alltoall',
  summary: 'Sends a block to each neighbour, and collects a block of each.',
  parameters: ['send', 'recv'],
  algorithms: LINEAR,
  shape(call) {
    const { sources, destinations } = call.neighbors;
    const [send, recv] = buffersOf(call);
    const out = send === null ? 0 : call.block('send', send, destinations.length);
    const into = recv === null ? 0 : call.block('recv', recv, sources.length);
    if (send !== null && recv !== null && out !== into) {
      call.refuse('recv', `must have blocks of ${out} bytes, as send has, not of ${into}`);
    }
    return shapeOf(call, repeated(destinations.length, out), repeated(sources.length, into), 'recv');
  },
  sizes: NO_SIZES,
  choose,
});

const ineighborAlltoallv = operation({
  name: 'ineighborAlltoallv',
  mpi: 'MPI_Ineighbor_alltoallv',
  summary: 'Sends a block to each neighbour, and collects a block of each, all of their own sizes and places.',
  parameters: ['send', 'sendCounts', 'sendDispls', 'recv', 'recvCounts', 'recvDispls'],
  algorithms: LINEAR,
  shape(call) {
    const { sources, destinations } = call.neighbors;
    const [sendCounts, sendDispls, recvCounts, recvDispls] = call.lists;
    const [send, recv] = buffersOf(call);
    const [sendNames, recvNames] = [['sendCounts', 'sendDispls'] as const, ['recvCounts', 'recvDispls'] as const];
    const out =
      send === null ? [] : blocksOf(call, sendNames, sendCounts, sendDispls, 'send', send, destinations.length);
    const into = recv === null ? [] : blocksOf(call, recvNames, recvCounts, recvDispls, 'recv', recv, sources.length);
    return shapeOf(call, out, into, 'recvCounts');
  },
  sizes: NO_SIZES,
  choose,
});

const ineighborAlltoallw = operation({
  name: 'ineighborAlltoallw',
  mpi: 'MPI_Ineighbor_alltoallw',
  summary: 'Sends a part to each neighbour, and collects a part of each, all with buffers or layouts of their own.',
  parameters: ['sends', 'recvs'],
  algorithms: LINEAR,
  shape(call) {
    const { from, sends, recvs, detail } = call.send as Placement;
    return checkOwn(call, { from, sends, recvs, detail }, 'recvs');
  },
  check(call) {
    checkDisjoint(call.send as Placement, call.context);
  },
  sizes: NO_SIZES,
  choose,
});

export const NEIGHBOR_OPERATIONS = [
  ineighborAllgather,
  ineighborAllgatherv,
  ineighborAlltoall,
  ineighborAlltoallv,
  ineighborAlltoallw,
] as const;

type Entry = (typeof NEIGHBOR_OPERATIONS)[number];
/** The names of all collectives with neighbours. */
export type NeighborOperationName = Entry['name'];
