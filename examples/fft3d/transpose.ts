import type { Communicator, Request } from 'node-nbc';
import type { TransposeLayout } from './slab.js';

/** What the communication cost the computing thread, in milliseconds. */
export interface CommunicationTimes {
  start: number;
  test: number;
  wait: number;
}

export interface PipelineOptions {
  /** Most transposes in flight while the next chunk is computed. 0: each is waited for at once, the blocking variant. */
  maxDepth: number;
  /** Makes the send buffers. */
  allocate: (length: number) => Float64Array;
  /** Test the transposes in flight after every computed index? Only of use where progress is manual. */
  test: boolean;
  /** Called after each chunk, outside the measured time. */
  onChunk: () => void;
}

/**
 * Transposes slabs chunk by chunk: while up to `depth` chunks travel, the next is computed.
 *
 * The blocking and the non-blocking variant of a kernel are this one loop: with depth 0 it waits for a chunk right after starting it.
 */
export class TransposePipeline {
  readonly times: CommunicationTimes = { start: 0, test: 0, wait: 0 };
  readonly #communicator: Pick<Communicator, 'ialltoall'>;
  readonly #options: PipelineOptions;
  /** One send buffer to compute into, and one for each transpose in flight: those belong to the library until it is done. */
  readonly #send: Float64Array[];
  readonly #inFlight: Request[] = [];

  constructor(communicator: Pick<Communicator, 'ialltoall'>, layouts: TransposeLayout[], options: PipelineOptions) {
    this.#communicator = communicator;
    this.#options = options;
    const length = Math.max(...layouts.map((layout) => layout.lengthOf(0)));
    this.#send = Array.from({ length: options.maxDepth + 1 }, () => options.allocate(length));
  }

  /**
   * Runs one transposition.
   *
   * @param receive gets the transposed slab, `layout.receiveLength` doubles
   * @param depth transposes in flight, 0 to `maxDepth`
   * @param compute computes the `index`-th index of our slab of `from` and writes its rows into `send` at the offsets `rows`, one for
   *   each index of `to`
   */
  run(
    layout: TransposeLayout,
    receive: Float64Array,
    depth: number,
    compute: (index: number, send: Float64Array, rows: number[]) => void,
  ): void {
    for (let chunk = 0; chunk < layout.chunks; chunk++) {
      const send = this.#send[chunk % (depth + 1)].subarray(0, layout.lengthOf(chunk));
      for (let nth = 0; nth < layout.sizeOf(chunk); nth++) {
        compute(chunk * layout.chunk + nth, send, layout.sendRows(chunk, nth));
        if (this.#options.test) this.#test();
      }
      const begin = layout.receiveOffset(chunk);
      this.#start(send, receive.subarray(begin, begin + layout.lengthOf(chunk)));
      while (this.#inFlight.length > depth) this.#waitForOldest();
      this.#options.onChunk();
    }
    while (this.#inFlight.length > 0) this.#waitForOldest();
  }

  /** Sets the times to zero. */
  reset(): void {
    Object.assign(this.times, { start: 0, test: 0, wait: 0 });
  }

  #start(send: Float64Array, receive: Float64Array): void {
    const before = performance.now();
    this.#inFlight.push(this.#communicator.ialltoall(send, receive));
    this.times.start += performance.now() - before;
  }

  #test(): void {
    const before = performance.now();
    for (const request of this.#inFlight) request.test();
    this.times.test += performance.now() - before;
  }

  #waitForOldest(): void {
    const before = performance.now();
    this.#inFlight.shift()!.wait();
    this.times.wait += performance.now() - before;
  }
}
