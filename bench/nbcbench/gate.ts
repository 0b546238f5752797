/** The start gate of ranks of one machine, for more of them than processors. bench/peers/gate.h says how it works. */
import { spawnSync } from 'node:child_process';
import { closeSync, constants, existsSync, openSync, readSync, writeSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { fileURLToPath } from 'node:url';

/** Names of its FIFOs. */
export const GATE_FIFOS = ['gate.count', 'gate.in', 'gate.0', 'gate.1'] as const;

export interface Gate {
  /**
   * Returns the time, in ms of `performance.now()`, at which this rank went through.
   * @param clockOffset what `performance.now()` lacks to CLOCK_MONOTONIC, in ms
   */
  pass(clockOffset: number): number;
}

/** Where ranks find the gate that {@link buildGate} has built. */
const VARIABLE = 'NBCBENCH_GATE';
const source = fileURLToPath(new URL('../../../bench/peers/gate_addon.c', import.meta.url));

/**
 * The gate of a rank. The compiled one is that of the peers. In JavaScript calls of the system take longer, so that
 * sixteen ranks on two processors were through after 116 to 134 µs, and after 58 to 61 with the other.
 * @param directory where the FIFOs of {@link GATE_FIFOS} are
 */
export function openGate(directory: string, rank: number, size: number): Gate {
  const { [VARIABLE]: addon } = process.env;
  if (addon === undefined) return new StartGate(directory, rank, size);
  const { open } = createRequire(import.meta.url)(addon) as {
    open: (directory: string, rank: number, size: number) => () => number;
  };
  const pass = open(directory, rank, size);
  return { pass: (clockOffset) => pass() - clockOffset };
}

/** Where node_api.h is: beside Node.js, or in a package that has it. */
function headers(): string | undefined {
  const beside = join(dirname(process.execPath), '..', 'include', 'node');
  if (existsSync(join(beside, 'node_api.h'))) return beside;
  try {
    return (createRequire(import.meta.url)('node-api-headers') as { include_dir: string }).include_dir;
  } catch {
    return undefined;
  }
}

/** Builds the gate of the peers for ranks that this process will start. Without it they take that of JavaScript. */
export function buildGate(directory: string, warn: (text: string) => void): void {
  const include = headers();
  const addon = join(directory, 'gate.node');
  const flags = ['-O2', '-std=gnu11', '-shared', '-fPIC'];
  const built = include && spawnSync('cc', [...flags, `-I${include}`, source, '-o', addon], { encoding: 'utf8' });
  if (built && built.status === 0) {
    process.env[VARIABLE] = addon;
  } else {
    const why = built ? (built.error?.message ?? built.stderr) : 'node_api.h was not found';
    warn(`node-nbc starts by JavaScript where others do in C, and with many ranks takes longer for it: ${why}`);
  }
}

class StartGate implements Gate {
  readonly #count: number = -1;
  readonly #in: number = -1;
  readonly #gates = [-1, -1];
  readonly #byte = Buffer.alloc(1);
  #next = 0;

  constructor(
    private readonly directory: string,
    private readonly rank: number,
    private readonly size: number,
  ) {
    if (size === 1) return;
    this.#count = this.#open('gate.count', constants.O_RDWR | constants.O_NONBLOCK);
    if (rank === 0) this.#reset();
    this.#in = this.#open('gate.in', rank === 0 ? constants.O_RDONLY : constants.O_WRONLY);
    for (const gate of [0, 1]) {
      this.#gates[gate] = this.#open(`gate.${gate}`, rank === 0 ? constants.O_WRONLY : constants.O_RDONLY);
    }
  }

  pass(): number {
    const gate = this.#next;
    const next = (this.#next = 1 - gate);
    if (this.size === 1) return performance.now();
    if (this.rank === 0) {
      readSync(this.#in, this.#byte);
      if (this.#gates[next] < 0) this.#gates[next] = this.#open(`gate.${next}`, constants.O_WRONLY);
      const released = performance.now(); // waking all the others takes its time, and the clock runs
      closeSync(this.#gates[gate]);
      this.#gates[gate] = -1;
      return released;
    }
    if (this.#isLast()) {
      this.#reset();
      writeSync(this.#in, this.#byte);
    }
    readSync(this.#gates[gate], this.#byte);
    return performance.now();
  }

  #reset(): void {
    writeSync(this.#count, Buffer.alloc(this.size - 2));
  }

  #isLast(): boolean {
    try {
      readSync(this.#count, this.#byte);
      return false;
    } catch (e) {
      if ((e as NodeJS.ErrnoException).code !== 'EAGAIN') throw e;
      return true;
    }
  }

  #open(name: string, flags: number): number {
    return openSync(join(this.directory, name), flags);
  }
}
