/**
 * What the ranks that are left agree on when others have ended: `agree` and `shrink`. The algorithm is in agreement.ts.
 * Here its messages travel between two ranks, in a context of their own that `revoke` leaves open.
 */
import { Agreement, Kind, type Message, type Outcome, Purpose } from './agreement.js';
import { ClosedError, NbcError, PeerLostError, TimeoutError } from './errors.js';

/** The communicator that carries the messages. Nobody else uses it, and nobody revokes it. */
interface Carrier {
  readonly rank: number;
  readonly size: number;
  readonly world: { readonly rank: number; newContext(): Outcome['context'] };
  isend(buffer: ArrayBufferView, dest: number, tag: number): PromiseLike<void>;
  irecv(buffer: ArrayBufferView, source: number, tag: number): PromiseLike<void>;
  close(): Promise<void>;
}

const COUNTED_LOST = 'ERR_NBC_COUNTED_LOST';

/** Tags of messages end at 32767. One agreement is over, on both sides, long before its tag is used again. */
const TAGS = 32768;

/** The agreements of a communicator. They run one after another, in the order of the calls. */
export class Survivors {
  private last: Promise<unknown> = Promise.resolve();
  private count = 0;

  constructor(private readonly carrier: Carrier) {}

  /**
   * Ends when all ranks have called this, or are lost.
   * @throws {ClosedError} (rejects) if this rank closes meanwhile
   * @throws {PeerLostError} (rejects) ERR_NBC_COUNTED_LOST: the others count this rank as lost
   */
  agree(operation: string, purpose: Purpose, value: number): Promise<Outcome> {
    const tag = this.count++ % TAGS;
    const result = this.last.then(() => agreeOver(this.carrier, tag, operation, purpose, value));
    this.last = result;
    // The caller has the same promise; this one must not be reported as unhandled as well.
    result.catch(() => undefined);
    return result;
  }

  close(): Promise<void> {
    return this.carrier.close();
  }
}

async function agreeOver(
  carrier: Carrier,
  tag: number,
  operation: string,
  purpose: Purpose,
  value: number,
): Promise<Outcome> {
  const { rank, size, world } = carrier;
  const sends: Promise<void>[] = [];
  const agreement = new Agreement(size, rank, purpose, value, {
    send: (to, message) => void sends.push(deliver(carrier.isend(encode(message, size), to, tag))),
    newContext: () => world.newContext(),
  });
  const listen = async (peer: number): Promise<void> => {
    const words = new Uint32Array(wordsFor(size));
    while (!agreement.isOver(peer)) {
      if (await arrives(carrier.irecv(words, peer, tag))) agreement.receive(peer, decode(words));
      else agreement.lose(peer);
    }
  };
  agreement.begin();
  const peers = Array.from({ length: size }, (_, peer) => peer).filter((peer) => peer !== rank);
  await Promise.all(peers.map(listen));
  await Promise.all(sends);
  const decision = agreement.decision!;
  if (!decision.lost.includes(rank)) return decision;
  const message = `${operation}: other ranks have lost this one, so they go on without it`;
  throw new PeerLostError(COUNTED_LOST, 'unreachable', message, { operation, rank: world.rank });
}

/** Whether the message has come. False: its sender is lost. */
async function arrives(request: PromiseLike<void>): Promise<boolean> {
  try {
    await withoutLimit(request);
    return true;
  } catch (error) {
    // Whatever ends the messages of this peer: it has ended, does not answer, or breaks the protocol.
    // One that has given this rank up is not: this rank may be the only one that has lost the others.
    if (!(error instanceof NbcError) || error instanceof ClosedError || error.code === COUNTED_LOST) throw error;
    if (error.peer !== undefined) return false;
    throw error;
  }
}

/** Whatever ends the message: the receive that waits for its receiver ends for the same reason. */
async function deliver(request: PromiseLike<void>): Promise<void> {
  await arrives(request).catch(() => undefined);
}

/** Option `timeout` ends no agreement: the others could not know. */
async function withoutLimit(request: PromiseLike<void>): Promise<void> {
  for (;;) {
    try {
      await request;
      return;
    } catch (error) {
      if (!(error instanceof TimeoutError)) throw error;
    }
  }
}

// --- A message in words: kind, round, purpose, value, context (2), then a bit for each rank, set if it is lost -------

const HEADER = 6;
/** By their numbers. */
const PURPOSES = [Purpose.MIXED, Purpose.AGREE, Purpose.SHRINK];
const KINDS = [Kind.REPORT, Kind.PROPOSE, Kind.ACCEPT, Kind.DECIDE];
const BITS = 32;

function wordsFor(size: number): number {
  return HEADER + Math.ceil(size / BITS);
}

export function encode({ kind, round, outcome }: Message, size: number): Uint32Array {
  const words = new Uint32Array(wordsFor(size));
  const { purpose, value, context, lost } = outcome;
  words.set([kind, round, purpose, value >>> 0, context.high, context.low]);
  for (const rank of lost) words[HEADER + Math.floor(rank / BITS)] |= 1 << (rank % BITS);
  return words;
}

export function decode(words: Uint32Array): Message {
  const [kind, round, purpose, value, high, low] = words;
  const lost: number[] = [];
  for (let rank = 0; rank < (words.length - HEADER) * BITS; rank++) {
    if ((words[HEADER + Math.floor(rank / BITS)] & (1 << (rank % BITS))) !== 0) lost.push(rank);
  }
  const outcome = { purpose: PURPOSES[purpose], value: value | 0, context: { high, low }, lost };
  return { kind: KINDS[kind], round, outcome };
}
