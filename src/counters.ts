/**
 * The counters of {@link Communicator.stats}: one row for each. scripts/headers.mjs makes native/counters.h from these
 * rows, and `npm run docs:tables` docs/counters.md; tests compare all three.
 */

/** What carries messages to peers. */
export type Fabric = 'shm' | 'tcp' | 'verbs' | 'ucx';

interface Row<Where extends Fabric> {
  /** What is counted. */
  unit: string;
  /** Fabrics that have it. */
  fabrics: readonly Where[];
  description: string;
}

const ALL = ['shm', 'tcp', 'verbs', 'ucx'] as const;
const SHM = ['shm'] as const;
const TCP = ['tcp'] as const;
const VERBS = ['verbs'] as const;
const UCX = ['ucx'] as const;

export const COUNTERS = {
  started: row('operations', ALL, 'Operations that this rank started.'),
  rounds: row('rounds', ALL, 'Rounds of schedules that this rank started.'),
  eagerSent: row('messages', ALL, 'Small messages sent: they travel through a mailbox of the receiver.'),
  eagerStalled: row('messages', ALL, 'Small messages that found the mailbox full and had to wait.'),
  eagerUnexpected: row('messages', ALL, 'Small messages that arrived before their receive was started.'),
  acksPiggybacked: row('reports', ALL, 'Reports of consumed messages that travelled with another message.'),
  acksExplicit: row('reports', ALL, 'Reports of consumed messages that travelled alone.'),
  rtrSent: row('messages', ALL, 'RTRs sent: the receiver of a large message tells the sender where to write.'),
  rtrStalled: row('messages', ALL, "RTRs that found the sender's RTR slots in use and had to wait."),
  rtrEarly: row('messages', ALL, 'RTRs that arrived before their send was started.'),
  rtsSent: row('messages', ALL, 'RTSs sent: the sender of a large message asks a receiver that has sent no RTR yet.'),
  dataSent: row('messages', ALL, 'Large messages sent.'),
  connections: row('connections', ALL, 'Peers that this rank is connected to.'),
  progressWakeups: row('wake-ups', ALL, 'Times that the progress thread woke up.'),
  progressPasses: row('passes', ALL, 'Passes of progress that the progress thread drove.'),
  loopWakeups: row('wake-ups', ALL, 'Times that a peer woke the event loop of this rank; 0 where it cannot.'),
  moves: row('moves', ALL, 'Times that this rank moved to an idle processor, away from the peer that it waited for.'),
  allocatedBytes: row('bytes', ALL, 'Exposed memory in use: alloc() and temporary buffers of operations.'),
  mailboxSlots: row('slots', ALL, 'Slots in mailboxes of peers with messages of this rank, as far as it knows.'),
  heldMessages: row(
    'messages',
    ALL,
    'Messages that are pending in this rank, or have come before they were asked for.',
  ),
  parks: row('sleeps', ALL, 'Times that a thread of this rank went to sleep to wait for a peer.'),
  events: row(
    'wake-ups',
    ['tcp', 'verbs', 'ucx'],
    'Times that a socket or the network card woke a thread of this rank.',
  ),

  mappedBytes: row('bytes', SHM, 'Data of large messages, copied through shared mappings.'),
  crossMemoryBytes: row('bytes', SHM, 'Data of messages above 64 KiB, copied straight from process to process.'),
  stagedBytes: row('bytes', SHM, 'Data of messages to plain buffers, copied through a staging area in shared memory.'),
  helpedPieces: row('pieces', SHM, 'Pieces of large messages that the receiver copied, not the sender.'),
  combinedBytes: row('bytes', SHM, 'Of large messages of reductions, combined by this rank where others are copied.'),
  peersByMemory: row('peers', SHM, 'Peers that this rank reaches by shared memory.'),
  doorbells: row('wake-ups', SHM, 'Sleeping peers that this rank woke.'),

  framesSent: row('frames', TCP, 'Frames sent: small messages, reports, and pieces of large messages.'),
  framesReceived: row('frames', TCP, 'Frames received.'),
  socketWrites: row('system calls', TCP, 'Calls that wrote to sockets. Frames that start together leave together.'),
  socketReads: row('system calls', TCP, 'Calls that read from sockets.'),
  bytesSent: row('bytes', TCP, 'Bytes written to sockets after the handshake, with the heads of frames.'),
  bytesReceived: row('bytes', TCP, 'Bytes read from sockets after the handshake, with the heads of frames.'),
  bytesCopied: row('bytes', TCP, 'Data of large messages that was not read straight into the receiving buffer.'),
  connectionsAccepted: row('connections', TCP, 'Connections that peers opened to this rank.'),
  peersByTcp: row('peers', TCP, 'Peers that this rank reaches by TCP.'),
  connectionsRefused: row('connections', TCP, 'Connections closed because they did not prove the secret of the job.'),

  workRequests: row('requests', VERBS, 'RDMA writes and sends that this rank posted.'),
  chains: row('calls', VERBS, 'Calls that posted them. Requests that start together are posted together.'),
  inlinedWrites: row('requests', VERBS, 'Requests whose data was small enough to go with the request.'),
  signalledWrites: row('requests', VERBS, 'Requests that asked the network card for a completion.'),
  sends: row('requests', VERBS, "SEND requests, with verbs.eager 'send'."),
  creditMessages: row('messages', VERBS, 'Messages that carried nothing but credits.'),
  creditsReturned: row('credits', VERBS, 'Credits that this rank gave back to senders.'),
  creditWaits: row('messages', VERBS, 'Messages that had to wait for a credit of the receiver.'),
  receivesRefilled: row('receives', VERBS, 'Empty receives given to the network card. Each message takes one.'),
  peersByVerbs: row('peers', VERBS, 'Peers that this rank reaches by verbs.'),
  probes: row('requests', VERBS, 'Empty writes to a silent peer, to find out whether it is alive.'),
  cacheHits: row('buffers', VERBS, 'Plain buffers of large messages that were registered already.'),
  cacheMisses: row('buffers', VERBS, 'Plain buffers of large messages that had to be registered.'),
  cacheEvictions: row('registrations', VERBS, 'Registrations removed to make room for others (verbs.cacheEntries).'),
  cacheExpired: row('registrations', VERBS, 'Registrations removed because their buffer was freed.'),
  cacheStale: row(
    'buffers',
    VERBS,
    'Buffers found at the address of another, freed one, whose registration was not used.',
  ),
  cacheBeside: row(
    'buffers',
    VERBS,
    'Buffers that a thread of its own registered, from 1 MiB on; part of cacheMisses.',
  ),

  ucxMessages: row('messages', UCX, 'Small messages and reports that this rank gave to UCX.'),
  ucxPuts: row('messages', UCX, 'Large messages that this rank gave to UCX.'),
  peersByUcx: row('peers', UCX, 'Peers that this rank reaches by UCX.'),
};

function row<const Where extends Fabric>(unit: string, fabrics: readonly Where[], description: string): Row<Where> {
  return { unit, fabrics, description };
}

type Table = typeof COUNTERS;
type CounterName = keyof Table;
/** Names of the counters that every fabric has. */
type Common = { [Name in CounterName]: Fabric extends Table[Name]['fabrics'][number] ? Name : never }[CounterName];

/**
 * Counters of one rank since `init()`. A counter that only some transports have is missing on the others; where ranks
 * are reached over shared memory and a network, the counters of both are there. docs/counters.md describes each.
 */
export type Stats = Readonly<Record<Common, number>> & Readonly<Partial<Record<Exclude<CounterName, Common>, number>>>;
