/** The start gate of ranks of one machine, for more of them than processors. */
import { closeSync, constants, openSync, readSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';

/**
 * More ranks than processors: spinning would keep a rank from the processor that it waits for. So everybody reports at
 * one pipe and sleeps in read() of another; rank 0 closes that one's writing end, and the kernel wakes all of them at
 * once with an end of file. Two pipes take turns, since a closed one can be opened again only when its readers have
 * left. No library has a part in it, so it is equal for all. (A rank whose wait has returned must not be needed for the
 * progress of others; else the job hangs and nbcbench says so.)
 */
export class StartGate {
  readonly #in: number;
  readonly #gates = [-1, -1];
  readonly #bytes = Buffer.alloc(1024);
  #next = 0;

  /** @param directory where the FIFOs gate.in, gate.0 and gate.1 are */
  constructor(
    private readonly directory: string,
    private readonly rank: number,
    private readonly size: number,
  ) {
    this.#in = this.#open('gate.in', rank === 0 ? constants.O_RDONLY : constants.O_WRONLY);
    for (const gate of size > 1 ? [0, 1] : []) {
      this.#gates[gate] = this.#open(`gate.${gate}`, rank === 0 ? constants.O_WRONLY : constants.O_RDONLY);
    }
  }

  /** Returns the time, in ms of `performance.now()`, at which this rank went through. */
  pass(): number {
    const gate = this.#next;
    const next = (this.#next = 1 - gate);
    const bytes = this.#bytes;
    if (this.rank === 0) {
      for (let missing = this.size - 1; missing > 0;) {
        missing -= readSync(this.#in, bytes, 0, Math.min(missing, bytes.length), null);
      }
      if (this.#gates[next] < 0) this.#gates[next] = this.#open(`gate.${next}`, constants.O_WRONLY);
      const released = performance.now(); // waking all the others takes its time, and the clock runs
      closeSync(this.#gates[gate]);
      this.#gates[gate] = -1;
      return released;
    }
    writeSync(this.#in, bytes, 0, 1);
    readSync(this.#gates[gate], bytes, 0, 1, null);
    return performance.now();
  }

  #open(name: string, flags: number): number {
    return openSync(join(this.directory, name), flags);
  }
}
