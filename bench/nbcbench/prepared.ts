/** An operation with its buffers, ready to be started again and again: the calls that nbcbench measures. */
import { alloc, type Communicator, type PersistentRequest, type Request } from 'node-nbc';
import {
  argumentsOf,
  blocksOf,
  hasNeighbors,
  type Memory,
  type Op,
  type Place,
  reduces,
  REDUCED_BYTES,
  type Source,
} from './operations.js';
import type { BufferKind, Form } from './wire.js';

type Method<Result> = (this: Communicator, ...args: unknown[]) => Result;

/** What element `index` of block `block` of rank `rank` is when data is checked. Added up, still exact. */
const pattern = (rank: number, block: number, index: number): number => (rank * 31 + block * 17 + index * 7 + 3) & 255;

/** What a rank writes into all it sends before repetition `repetition`. */
const written = (rank: number, repetition: number): number => 1 + ((repetition + rank) % 100);

const MOST_ARGUMENTS = 6;

export class Prepared {
  readonly #op: Op;
  readonly #place: Place;
  readonly #count: number;
  readonly #memory: Memory<Uint8Array | Float64Array>;
  readonly #communicator: Communicator;
  readonly #method: Method<Request>;
  /** Those that a method does not have are undefined, as options that are left out. */
  readonly #arguments: readonly unknown[];
  readonly #persistent: PersistentRequest | null;

  /** Collective where the form is persistent. */
  constructor(communicator: Communicator, op: Op, bytes: number, kind: BufferKind, form: Form) {
    const { rank, size } = communicator;
    const place = { rank, size };
    const count = reduces(op) ? bytes / REDUCED_BYTES : bytes;
    const View = reduces(op) ? Float64Array : Uint8Array;
    const memory = (blocks: number): Uint8Array | Float64Array | null => {
      if (blocks === 0) return null;
      const length = blocks * count;
      // Every page exists before the first repetition.
      return (kind === 'alloc' ? alloc<Uint8Array | Float64Array>(View, length) : new View(length)).fill(1);
    };
    const { send, receive } = blocksOf(op);
    this.#op = op;
    this.#place = place;
    this.#count = count;
    this.#memory = { send: memory(send(place)), receive: memory(receive(place)) };
    this.#communicator = communicator;
    this.#method = (communicator as unknown as Record<string, Method<Request>>)[op];
    const args = argumentsOf(op, place, this.#memory, count);
    this.#arguments = [...args, ...Array.from({ length: MOST_ARGUMENTS - args.length }, () => undefined)];
    const inits = communicator as unknown as Record<string, Method<PersistentRequest>>;
    this.#persistent = form === 'persistent' ? inits[`${op.slice(1)}Init`].apply(communicator, args) : null;
  }

  free(): void {
    this.#persistent?.free();
  }

  begin(): Request {
    if (this.#persistent !== null) {
      this.#persistent.start();
      return this.#persistent;
    }
    const args = this.#arguments; // without spreading them, which would take its time
    return this.#method.call(this.#communicator, args[0], args[1], args[2], args[3], args[4], args[5]);
  }

  /** Writes all buffers: new values into what is sent, 0 into what is received. */
  write(repetition: number): void {
    this.#memory.send?.fill(written(this.#place.rank, repetition));
    this.#memory.receive?.fill(0);
  }

  /** Whether the ends of each block are what the ranks wrote before that repetition. @throws {Error} */
  checkWritten(repetition: number): void {
    this.#check((rank) => written(rank, repetition), Math.max(1, this.#count - 1));
  }

  /**
   * Runs it once on a pattern, and compares each element. Neighbours all get the same: where two are the same rank, MPI
   * libraries disagree about the order of their blocks.
   *
   * @throws {Error}
   */
  check(): void {
    const { send, receive } = this.#memory;
    for (let i = 0; send !== null && i < send.length; i++) {
      const block = hasNeighbors(this.#op) ? 0 : Math.floor(i / this.#count);
      send[i] = pattern(this.#place.rank, block, i % this.#count);
    }
    receive?.fill(0);
    this.begin().wait();
    this.#check(pattern, 1);
  }

  /** @param step which elements of a block to look at */
  #check(expected: (rank: number, block: number, index: number) => number, step: number): void {
    const { receive } = this.#memory;
    const { receive: blocks, source } = blocksOf(this.#op);
    for (let block = 0; receive !== null && block < blocks(this.#place); block++) {
      const from = source(this.#place, block);
      for (let i = 0; i < this.#count; i += step) {
        const [found, right] = [receive[block * this.#count + i], added(from, expected, i)];
        if (found === right) continue;
        throw new Error(
          `wrong data: ${this.#op}, block ${block}, element ${i} of ${this.#count}: ${found}, not ${right}`,
        );
      }
    }
  }
}

function added(
  { first, last, block }: Source,
  expected: (rank: number, block: number, index: number) => number,
  index: number,
): number {
  let result = 0;
  for (let rank = first; rank <= last; rank++) result += expected(rank, block, index);
  return result;
}
