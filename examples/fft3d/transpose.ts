import { strided, type Communicator, type Request } from 'node-nbc';
import type { Floats } from './precision.js';
import type { TransposeLayout } from './slab.js';

/** What the communication cost the computing thread, in milliseconds. */
export interface CommunicationTimes {
  start: number;
  test: number;
  wait: number;
}

export interface PipelineOptions {
  /** Most transposes in flight while others are computed. 0: each is waited for at once, the blocking variant. */
  maxDepth: number;
  /** Makes the buffers that are sent and received. */
  allocate: (length: number) => Floats;
  /** Test the transposes in flight after every computed index? Only of use where progress is manual. */
  test: boolean;
  /** Called after each chunk, outside the measured time. */
  onChunk: () => void;
}

/**
 * Transposes slabs chunk by chunk: while up to `depth` chunks travel, the next is computed, and then whatever else
 * there is to compute, until somebody needs what has arrived. Slabs are received in the order in which they were sent.
 *
 * The blocking and the non-blocking variant of a kernel are the same program: with depth 0 it waits for a chunk right
 * after starting it.
 */
export class TransposePipeline {
  readonly #communicator: Pick<Communicator, 'ialltoallw'>;
  readonly #options: PipelineOptions;
  /**
   * One send buffer to compute into, and one for each transpose in flight: those belong to the library until it is
   * done. Used in turns.
   */
  readonly #send: Floats[];
  /** One for each slab that was sent and has not been read. Used in turns. */
  readonly #received: Floats[];
  readonly #inFlight: { request: Request; slab: number }[] = [];
  #chunksSent = 0;
  #slabsSent = 0;
  #slabsReceived = 0;

  /**
   * @param slabs most that may be sent before the first of them has been read
   * @param times what communication costs is added to these
   */
  constructor(
    communicator: Pick<Communicator, 'ialltoallw'>,
    readonly layout: TransposeLayout,
    slabs: number,
    readonly times: CommunicationTimes,
    options: PipelineOptions,
  ) {
    this.#communicator = communicator;
    this.#options = options;
    const buffers = (count: number, length: number) => Array.from({ length: count }, () => options.allocate(length));
    this.#send = buffers(Math.min(options.maxDepth + 1, slabs * layout.chunks), layout.sendLength);
    this.#received = buffers(slabs, layout.receiveLength);
  }

  /**
   * Sends one slab.
   *
   * @param depth transposes that may still be in flight when this returns, 0 to `maxDepth`
   * @param compute computes the `index`-th index of our slab of `from` and writes its rows into `target` at the offsets
   *   `rows`, one for each index of `to`
   */
  send(depth: number, compute: (index: number, target: Floats, rows: number[]) => void): void {
    const { layout } = this;
    const received = this.#received[this.#slabsSent % this.#received.length];
    for (let chunk = 0; chunk < layout.chunks; chunk++) {
      const target = this.#send[this.#chunksSent++ % this.#send.length];
      for (let nth = 0; nth < layout.sizeOf(chunk); nth++) {
        compute(chunk * layout.chunk + nth, target, layout.sendRows(nth));
      }
      this.#start(chunk, target, received);
      while (this.#inFlight.length > depth) this.#waitForOldest();
      this.#options.onChunk();
    }
    this.#slabsSent++;
  }

  /** Waits for the next slab, and returns it as the layout says. It can be read until `slabs` more have been sent. */
  receive(): Floats {
    const slab = this.#slabsReceived++;
    while (this.#inFlight[0]?.slab === slab) this.#waitForOldest();
    return this.#received[slab % this.#received.length];
  }

  /** Most bytes that a rank sends another in one transpose. */
  get blockBytes(): number {
    const { from, to, rowLength, chunk } = this.layout;
    return this.#received[0].BYTES_PER_ELEMENT * Math.min(chunk, from.width) * to.width * rowLength;
  }

  /** Tests what is in flight. */
  test(): void {
    const before = performance.now();
    for (const { request } of this.#inFlight) request.test();
    this.times.test += performance.now() - before;
  }

  #start(chunk: number, target: Floats, received: Floats): void {
    const before = performance.now();
    const { layout } = this;
    const ranks = Array.from({ length: layout.from.ranks }, (_, rank) => rank);
    const sends = ranks.map((rank) => strided(target, layout.sendBox(chunk, rank)));
    const receives = ranks.map((rank) => received.subarray(...layout.receiveRange(chunk, rank)));
    this.#inFlight.push({ request: this.#communicator.ialltoallw(sends, receives), slab: this.#slabsSent });
    this.times.start += performance.now() - before;
  }

  #waitForOldest(): void {
    const before = performance.now();
    this.#inFlight.shift()!.request.wait();
    this.times.wait += performance.now() - before;
  }
}
