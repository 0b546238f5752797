/**
 * A job of ranks that does nothing but what nbcbench tells it: between commands every rank sleeps in read() on a FIFO
 * of its own, so that several jobs can take turns on the same processors. The ranks' side is rank.ts (and
 * nbcbench_mpi.c).
 */
import { spawn, spawnSync, type ChildProcess, type StdioOptions } from 'node:child_process';
import { closeSync, constants, mkdtempSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { once } from 'node:events';
import { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { GATE_FIFOS } from './gate.js';

/** How an implementation starts its ranks: one command for all (a launcher such as mpirun), or one for each. */
export interface Launch {
  commands: { file: string; arguments: string[]; env: NodeJS.ProcessEnv }[];
  /** A descriptor that the processes inherit as descriptor 3; closed here once they have it. */
  inherit?: number;
}

/** Ranks that wait for commands. */
export interface Job {
  readonly ranks: number;
  /**
   * Gives the ranks their turn: all obey one command. Resolves when the last is asleep again; rejects if any failed.
   */
  command(...words: (string | number)[]): Promise<void>;
  /** What the last command that measures left for each rank. */
  results(): Float64Array[];
  /** Lets the ranks end by themselves. */
  close(): Promise<void>;
  /** No command follows: nothing is waited for. */
  kill(): void;
}

/**
 * A command that takes longer hangs. The longest one is a handful of repetitions of a job whose ranks crowd each other
 * out.
 */
const PATIENCE_S = 120;

/** Ends every job that is still there when nbcbench itself ends, whatever the reason. */
const open = new Set<BenchJob>();
process.on('exit', () => {
  for (const job of open) job.kill();
});

export class BenchJob implements Job {
  readonly name: string;
  readonly ranks: number;
  readonly directory: string;
  readonly #control: number[] = [];
  readonly #keep: number[] = [];
  readonly #answers: Socket;
  readonly #children: ChildProcess[] = [];
  #pending: { missing: Set<number>; resolve: () => void; reject: (error: Error) => void } | undefined;
  #failure: Error | undefined;
  #closing = false;

  private constructor(name: string, ranks: number) {
    this.name = name;
    this.ranks = ranks;
    this.directory = mkdtempSync(join(tmpdir(), 'nbcbench-'));
    const names = ['done', ...GATE_FIFOS, ...Array.from({ length: ranks }, (_, rank) => `ctl.${rank}`)];
    const made = spawnSync('mkfifo', ['-m', '600', ...names], { cwd: this.directory, encoding: 'utf8' });
    if (made.status !== 0) throw new Error(`cannot make FIFOs in ${this.directory}: ${made.stderr || made.error}`);
    // Opened for reading and writing, which never blocks; and the rank that opens the other end finds it open.
    const both = (fifo: string, more = 0) => openSync(join(this.directory, fifo), constants.O_RDWR | more);
    this.#answers = new Socket({ fd: both('done', constants.O_NONBLOCK), readable: true, writable: false });
    this.#keep.push(both('gate.in')); // the other gates open when they lose their last writer: none may be here
    for (let rank = 0; rank < ranks; rank++) this.#control.push(both(`ctl.${rank}`));
    this.#listen();
  }

  /** Starts the ranks and waits until each has said that it is ready. */
  static async launch(name: string, ranks: number, describe: (directory: string) => Launch): Promise<BenchJob> {
    const job = new BenchJob(name, ranks);
    open.add(job);
    try {
      const { commands, inherit } = describe(job.directory);
      const ready = job.#answered('after the start');
      ready.catch(() => undefined); // until somebody waits for it
      const stdio: StdioOptions = ['ignore', 'pipe', 'pipe', ...(inherit === undefined ? [] : [inherit])];
      for (const command of commands) job.#start(command.file, command.arguments, command.env, stdio);
      if (inherit !== undefined) closeSync(inherit);
      await ready;
      return job;
    } catch (error) {
      job.kill();
      throw error;
    }
  }

  #start(file: string, args: string[], env: NodeJS.ProcessEnv, stdio: StdioOptions): void {
    const child = spawn(file, args, { env, stdio });
    let output = '';
    const collect = (data: Buffer) => {
      output = (output + data.toString()).slice(-4000);
    };
    child.stdout?.on('data', collect);
    child.stderr?.on('data', collect);
    child.on('error', (error) => this.#fail(`cannot start ${file}: ${error.message}`));
    child.on('close', (code, signal) => {
      if (!this.#closing) this.#fail(`ended early (${signal ?? `exit code ${code}`})\n${output}`);
    });
    this.#children.push(child);
  }

  #listen(): void {
    let rest = '';
    this.#answers.on('data', (data: Buffer) => {
      const lines = (rest + data.toString()).split('\n');
      rest = lines.pop()!;
      for (const line of lines) {
        const [rank, word, ...text] = line.split(' ');
        if (word !== 'ok') {
          this.#fail(`rank ${rank}: ${text.join(' ')}`);
        } else if (this.#pending) {
          this.#pending.missing.delete(Number(rank));
          if (this.#pending.missing.size === 0) {
            this.#pending.resolve();
            this.#pending = undefined;
          }
        }
      }
    });
  }

  #fail(reason: string): void {
    if (this.#failure) return;
    this.#failure = new Error(`${this.name} with ${this.ranks} ranks: ${reason.trim()}`);
    this.#pending?.reject(this.#failure);
    this.#pending = undefined;
  }

  async #answered(to: string): Promise<void> {
    if (this.#failure) throw this.#failure;
    const missing = new Set(Array.from({ length: this.ranks }, (_, rank) => rank));
    const timer = setTimeout(() => {
      this.#fail(`no answer ${to} within ${PATIENCE_S} s from rank ${[...missing].join(', ')}`);
    }, PATIENCE_S * 1000);
    try {
      await new Promise<void>((resolve, reject) => {
        this.#pending = { missing, resolve, reject };
      });
    } finally {
      clearTimeout(timer);
    }
  }

  async command(...words: (string | number)[]): Promise<void> {
    const line = words.join(' ');
    const answered = this.#answered(`to "${line}"`);
    for (const control of this.#control) writeSync(control, `${line}\n`);
    await answered;
  }

  results(): Float64Array[] {
    return Array.from({ length: this.ranks }, (_, rank) => {
      const bytes = readFileSync(join(this.directory, `result.${rank}`));
      return new Float64Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
    });
  }

  /** Processes started here, in the order of their commands. */
  get pids(): number[] {
    return this.#children.map((child) => child.pid!);
  }

  /** After five seconds they are ended. */
  async close(): Promise<void> {
    if (!open.has(this)) return;
    this.#closing = true;
    for (const control of this.#control) writeSync(control, 'quit\n');
    const ended = this.#children
      .filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null)
      .map((child) => once(child, 'exit'));
    const timer = setTimeout(() => this.#children.forEach((child) => child.kill('SIGKILL')), 5000);
    await Promise.all(ended);
    clearTimeout(timer);
    this.#release();
  }

  /** Ends the processes at once and removes every trace. */
  kill(): void {
    this.#closing = true;
    // SIGTERM for launchers: they end their ranks; the ranks of others end when their FIFOs do.
    for (const child of this.#children) child.kill('SIGTERM');
    this.#release();
  }

  #release(): void {
    if (!open.delete(this)) return;
    this.#answers.destroy();
    for (const descriptor of [...this.#control, ...this.#keep]) closeSync(descriptor);
    rmSync(this.directory, { recursive: true, force: true });
  }
}
