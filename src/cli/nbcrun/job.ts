/**
 * A running job: its processes, how they are signalled, and what their ends mean. A process is a rank, or several,
 * which are its threads (process.ts).
 *
 * Every rank leads a process group of its own (native/launch/rank.cc). A terminal's Ctrl-C therefore reaches nbcrun
 * alone, which passes it on once, and whatever children a rank leaves behind end with its group.
 */
import { spawn, type ChildProcess, type StdioOptions } from 'node:child_process';
import type { Duplex } from 'node:stream';
import { STARTER } from '../../binaries.js';
import { Guardian } from './guardian.js';
import { labelLines } from './label.js';
import { codeOfSignal, type ProcessPlace } from './place.js';
import { labelOf } from './rank-threads.js';
import { type Answers, askAll, describe, isStuck, nameRanks, ProcessLine, type Stuck } from './report.js';
import { Terminal } from './terminal.js';
import { Watchdogs } from './watchdogs.js';

export interface JobSettings {
  size: number;
  /** Ranks of each process, which are its threads; undefined: the process is the rank. */
  threads: number | undefined;
  /** Descriptor of the job's shared file; undefined: there is none. Stays open here; the caller closes it. */
  jobFd: number | undefined;
  /** Variables that every rank finds. */
  environment: Record<string, string>;
  /** What a process runs: file and arguments. */
  commandOf: (place: ProcessPlace) => readonly string[];
  /** The processors that ranks are bound to, in turn; none: the system decides. */
  processors: readonly number[];
  /** Prefix every line of output with the rank. */
  label: boolean;
  /** How long ranks have between SIGTERM and SIGKILL when the job is ended. */
  graceMs: number;
  /** undefined: no limit */
  timeoutMs: number | undefined;
  /** When a rank fails: whether the others are ended. */
  onFailure: 'end' | 'continue';
  /** A rank has ended, in whatever manner, and will not come again. */
  rankEnded: (rank: number) => void;
  /** So has a process. */
  processEnded: (pid: number) => void;
  /** Tells the user something. */
  say: (text: string) => void;
}

export const ExitCode = {
  /** --timeout has passed; as in timeout(1). */
  TIMEOUT: 124,
  /** nbcrun could not do its part: wrong arguments, no addon, a rank that could not be started. */
  LAUNCHER: 125,
} as const;

/** Passed on to every rank as they come. SIGTSTP is treated apart, SIGKILL and SIGSTOP never arrive here. */
const FORWARDED = ['SIGTERM', 'SIGHUP', 'SIGUSR1', 'SIGWINCH'] as const;
/** These ask what the ranks wait for. SIGQUIT is Ctrl-\\ of a terminal. */
const REPORTING = ['SIGQUIT', 'SIGUSR2'] as const;
/** After one of these the job is expected to end, and need not be told why. */
const ENDING: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGHUP'];
/** How long output that a rank's stray descendants keep open is waited for after the last rank has ended. */
const STRAY_OUTPUT_MS = 500;

/** Where a process of several ranks tells of their ends. */
const ENDS_FD = 5;

const FILES = ': the limit of open files is reached (ulimit -n); raise it, or use fewer ranks';
/** What a user can do about a rank that could not be started, by the code of the system. */
const ADVICE: Partial<Record<string, string>> = {
  EAGAIN: ': the limit of processes is reached (ulimit -u); use fewer ranks',
  EMFILE: FILES,
  ENFILE: FILES,
  ENOMEM: ': not enough memory; use fewer ranks',
  E2BIG: ': the arguments and the environment are too long',
};

interface End {
  /** Several: those of a process that ended as a whole. */
  ranks: readonly number[];
  pid: number;
  code: number | null;
  signal: NodeJS.Signals | null;
}

export class Job {
  readonly #settings: JobSettings;
  readonly #guardian = new Guardian();
  /** Those that have not ended. */
  readonly #processes = new Set<ChildProcess>();
  /** Ranks that have not ended, with their processes. */
  readonly #running = new Map<number, ChildProcess>();
  /** Of the processes that have not ended. */
  readonly #lines = new Map<ChildProcess, ProcessLine>();
  /** What ranks wait for, while they are being asked. */
  #answers: Promise<Answers> | undefined;
  /** What they wait for is about to be described, at a signal. */
  #describes = false;
  readonly #watchdogs = new Watchdogs();
  readonly #outputs: Promise<void>[] = [];
  readonly #timers: NodeJS.Timeout[] = [];
  readonly #handlers: [NodeJS.Signals, () => void][] = [];
  /** Ends that make the job fail, until one of them is chosen to be reported. With `continue`, of all that failed. */
  readonly #failures: End[] = [];
  /** A rank has exited with 0. */
  #succeeded = false;
  /** Set once the outcome is decided. */
  #exitCode: number | undefined;
  /** The last signal that asked the job to end. */
  #asked: NodeJS.Signals | undefined;
  #finish: (() => void) | undefined;
  #terminal: Terminal | undefined;

  constructor(settings: JobSettings) {
    this.#settings = settings;
  }

  /** Starts all ranks, waits until all have ended, and returns the exit code of the job. */
  async run(): Promise<number> {
    const { size, threads = 1, timeoutMs } = this.#settings;
    const finished = new Promise<void>((resolve) => (this.#finish = resolve));
    this.#listen();
    for (let rank = 0; rank < size && this.#exitCode === undefined; rank += threads) this.#start(rank);
    if (this.#processes.size === 0) this.#finish?.();
    if (timeoutMs !== undefined) this.#after(timeoutMs, () => this.#timeout(timeoutMs));
    await finished;
    await this.#drain();
    await this.#guardian.dismiss();
    this.#terminal?.stop();
    for (const timer of this.#timers) clearTimeout(timer);
    for (const [signal, handler] of this.#handlers) process.off(signal, handler);
    return this.#exitCode ?? this.#outcome();
  }

  /** Starts the process whose first rank this is. */
  #start(first: number): void {
    const { size, threads, commandOf, label, processors } = this.#settings;
    const asThreads = threads !== undefined;
    // A rank that is a thread binds itself.
    const processor = processors.length > 0 && !asThreads ? `${processors[first % processors.length]}` : '-';
    const command = commandOf({ first, count: threads ?? 1, size, processors, label, endsFd: ENDS_FD });
    const labelled = label && !asThreads;
    const input = first > 0 ? 'ignore' : process.stdin.isTTY ? 'pipe' : 'inherit';
    const output = labelled ? 'pipe' : 'inherit';
    const stdio: StdioOptions = [
      input,
      output,
      output,
      this.#settings.jobFd ?? 'ignore',
      'pipe',
      asThreads ? 'pipe' : 'ignore',
    ];
    let child: ChildProcess;
    try {
      child = spawn(STARTER, [`${process.pid}`, processor, ...command], { stdio, env: this.#environmentOf(first) });
    } catch (error) {
      // What Node.js throws instead of emitting it: E2BIG and ENOMEM, for example.
      this.#notStarted(first, error as NodeJS.ErrnoException);
      return;
    }
    const { pid } = child;
    if (pid === undefined) {
      child.once('error', (error) => this.#notStarted(first, error));
      this.#exitCode = ExitCode.LAUNCHER;
      return;
    }
    this.#guardian.watch(pid);
    this.#processes.add(child);
    const ranks = Array.from({ length: threads ?? 1 }, (_, index) => first + index);
    for (const rank of ranks) this.#running.set(rank, child);
    const stuck = (said: Stuck): void => void this.#reportStuck(said);
    this.#lines.set(child, new ProcessLine(child.stdio[4] as Duplex, ranks, stuck));
    child.once('exit', () => {
      this.#lines.get(child)?.close();
      this.#lines.delete(child);
    });
    if (asThreads) this.#followThreads(child, pid, ranks);
    else this.#followRank(child, pid, first);
    if (input === 'pipe') this.#terminal = new Terminal(child.stdin!);
    if (!labelled) return;
    const prefix = labelOf(first, size);
    this.#outputs.push(labelLines(child.stdout!, process.stdout, prefix));
    this.#outputs.push(labelLines(child.stderr!, process.stderr, prefix));
  }

  #environmentOf(rank: number): NodeJS.ProcessEnv {
    const { size, environment, jobFd } = this.#settings;
    const file = jobFd === undefined ? undefined : '3';
    const own = { NBC_RANK: `${rank}`, NBC_SIZE: `${size}`, NBC_JOB_FD: file, NBC_REPORT_FD: '4' };
    return { ...process.env, ...environment, ...own };
  }

  #followRank(child: ChildProcess, pid: number, rank: number): void {
    child.once('exit', (code, signal) => {
      this.#processEnded(child, { ranks: [rank], pid, code, signal });
    });
  }

  /** The process tells of each rank that ends. What it has not told of when it ends itself has ended with it. */
  #followThreads(child: ChildProcess, pid: number, ranks: readonly number[]): void {
    const ends = (child.stdio as readonly unknown[])[ENDS_FD] as Duplex;
    let rest = '';
    ends.setEncoding('utf8').on('error', () => undefined);
    ends.on('data', (text: string) => {
      const lines = (rest + text).split('\n');
      rest = lines.pop()!;
      for (const [rank, code] of lines.map((line) => line.split(' ').map(Number)))
        this.#ended({ ranks: [rank], pid, code, signal: null });
    });
    const all = new Promise((resolve) => ends.once('close', resolve));
    child.once('exit', (code, signal) => {
      // What a rank has started may hold it open.
      const late = new Promise((resolve) => this.#after(STRAY_OUTPUT_MS, () => resolve(undefined)));
      void Promise.race([all, late]).then(() => {
        ends.destroy();
        const left = ranks.filter((rank) => this.#running.has(rank));
        this.#processEnded(child, { ranks: left, pid, code, signal });
      });
    });
  }

  #notStarted(rank: number, error: NodeJS.ErrnoException): void {
    const advice = ADVICE[error.code ?? ''] ?? '';
    this.#settings.say(`could not start rank ${rank} (${error.message})${advice}`);
    this.#end(ExitCode.LAUNCHER);
    if (this.#processes.size === 0) this.#finish?.();
  }

  /** @param end of the ranks that have ended with it */
  #processEnded(child: ChildProcess, end: End): void {
    this.#processes.delete(child);
    // Its process group may live on without it. At this very moment nobody else can have its number.
    signalGroup(end.pid, 'SIGKILL');
    this.#guardian.forget(end.pid);
    this.#settings.processEnded(end.pid);
    if (end.ranks.length > 0) this.#ended(end);
    if (this.#processes.size === 0) setImmediate(() => this.#finish?.());
  }

  #ended(end: End): void {
    for (const rank of end.ranks) {
      this.#running.delete(rank);
      this.#settings.rankEnded(rank);
    }
    if (end.code === 0) {
      this.#succeeded = true;
    } else if (this.#exitCode === undefined && this.#settings.onFailure === 'continue') {
      this.#failures.push(end);
      this.#goOn(end);
    } else if (this.#exitCode === undefined) {
      // Several ranks often fail together: look at all that have ended by now before one is named.
      if (this.#failures.push(end) === 1) setImmediate(() => this.#fail());
    }
  }

  /**
   * Names the rank that failed first; one that died of a signal is a likelier cause than one that noticed it and gave
   * up.
   */
  #fail(): void {
    if (this.#exitCode !== undefined) return;
    const end = this.#failures.find(({ signal }) => signal !== null) ?? this.#failures[0];
    this.#sayEnd(end, `ending the ${count(this.#running.size, 'other rank')}`);
    this.#end(codeOf(end));
  }

  #goOn(end: End): void {
    this.#sayEnd(end, `going on with ${count(this.#running.size, 'rank')}`);
  }

  /** @param then what becomes of the others, if there are any. Says nothing of an end that the user has asked for. */
  #sayEnd(end: End, then: string): void {
    if (this.#asked !== undefined && codeOf(end) === codeOfSignal(this.#asked)) return;
    // Nobody reads what they print: process.ts.
    if (this.#settings.threads !== undefined && codeOf(end) === codeOfSignal('SIGPIPE')) return;
    const was = end.ranks.length === 1 ? 'was' : 'were';
    const how = end.signal === null ? `exited with code ${end.code}` : `${was} ended by ${end.signal}`;
    const others = this.#running.size === 0 ? '' : `; ${then}`;
    const where = this.#settings.threads === undefined ? 'process' : 'in process';
    this.#settings.say(`${nameRanks(end.ranks)} (${where} ${end.pid}) ${how}${others}`);
  }

  /** If no failure has ended the job. A rank that a signal ended is lost; the others may do well without it. */
  #outcome(): number {
    const exited = this.#failures.find(({ signal }) => signal === null);
    const failure = exited ?? (this.#succeeded ? undefined : this.#failures[0]);
    return failure === undefined ? 0 : codeOf(failure);
  }

  #timeout(timeoutMs: number): void {
    if (this.#exitCode !== undefined) return;
    this.#settings.say(
      `the job did not end within ${timeoutMs / 1000} s (--timeout); ending ${count(this.#running.size, 'rank')}: ` +
        list([...this.#running.keys()]),
    );
    void this.#reportIfStuck('out of time').then(() => {
      if (this.#exitCode === undefined) this.#end(ExitCode.TIMEOUT);
    });
  }

  /** Decides the outcome and ends what still runs: kindly first. */
  #end(code: number): void {
    const { graceMs, say } = this.#settings;
    this.#exitCode = code;
    if (this.#processes.size === 0) return;
    for (const child of this.#processes) {
      signalGroup(child.pid!, 'SIGCONT'); // a stopped process would only see SIGTERM when it goes on
      child.kill('SIGTERM');
    }
    this.#after(graceMs, () => {
      const ranks = [...this.#running.keys()];
      const [noun, verb] = ranks.length === 1 ? ['rank', 'was'] : ['ranks', 'were'];
      say(`${noun} ${list(ranks)} did not end within ${graceMs / 1000} s of SIGTERM and ${verb} killed`);
      this.#kill();
    });
  }

  #kill(): void {
    for (const child of this.#processes) {
      signalGroup(child.pid!, 'SIGKILL');
      child.kill('SIGKILL'); // a rank that has only just been started leads no group yet
    }
  }

  #listen(): void {
    for (const signal of FORWARDED) this.#on(signal, () => this.#forward(signal));
    for (const signal of REPORTING) this.#on(signal, () => void this.#reportAsked(signal));
    this.#on('SIGINT', () => void this.#interrupt());
    this.#on('SIGTSTP', () => {
      // SIGSTOP: a rank that handles SIGTSTP would go on, and the others would wait for it.
      for (const child of this.#processes) signalGroup(child.pid!, 'SIGSTOP');
      process.kill(process.pid, 'SIGSTOP');
    });
    this.#on('SIGCONT', () => {
      for (const child of this.#processes) signalGroup(child.pid!, 'SIGCONT');
      this.#terminal?.follow();
    });
    if (!this.#settings.label) return;
    // A reader that has gone away (nbcrun … | head) ends the job like any program in a pipe. Each write that was under
    // way fails.
    for (const stream of [process.stdout, process.stderr]) {
      stream.on('error', () => {
        if (this.#exitCode === undefined) this.#end(codeOfSignal('SIGPIPE'));
      });
    }
  }

  /** The first Ctrl-C of a stuck job first says what it waits for. A second one kills. */
  async #interrupt(): Promise<void> {
    if (this.#asked === 'SIGINT') {
      this.#exitCode ??= codeOfSignal('SIGINT');
      this.#kill();
      return;
    }
    this.#asked = 'SIGINT';
    await this.#reportIfStuck('interrupted');
    this.#forward('SIGINT');
  }

  async #reportAsked(signal: NodeJS.Signals): Promise<void> {
    if (this.#describes) return;
    this.#describes = true;
    const answers = await this.#askRanks();
    this.#describes = false;
    this.#report(`asked by ${signal}`, answers);
  }

  /** Before the job ends: only if some operation has waited for long. */
  async #reportIfStuck(why: string): Promise<void> {
    const answers = await this.#askRanks();
    if (isStuck(answers)) this.#report(why, answers);
  }

  /** The watchdog of a rank has found an operation that makes no step. */
  async #reportStuck(stuck: Stuck): Promise<void> {
    if (this.#watchdogs.hasTold(stuck)) return;
    const answers = await this.#askRanks();
    // Others may have said the same meanwhile.
    if (this.#watchdogs.hasTold(stuck) || this.#watchdogs.hasToldWhy(stuck, answers)) return;
    this.#watchdogs.tell(answers);
    this.#report('an operation makes no step', answers);
  }

  #askRanks(): Promise<Answers> {
    this.#answers ??= askAll(this.#lines.values(), (rank) => this.#running.has(rank)).finally(
      () => (this.#answers = undefined),
    );
    return this.#answers;
  }

  /** Says what every rank waits for. */
  #report(why: string, answers: Answers): void {
    this.#settings.say([`${why}; the job at this moment:`, ...describe(answers, this.#settings.size)].join('\n  '));
  }

  #forward(signal: NodeJS.Signals): void {
    if (ENDING.includes(signal)) this.#asked = signal;
    for (const child of this.#processes) child.kill(signal);
  }

  #on(signal: NodeJS.Signals, handler: () => void): void {
    process.on(signal, handler);
    this.#handlers.push([signal, handler]);
  }

  #after(milliseconds: number, action: () => void): void {
    this.#timers.push(setTimeout(action, milliseconds));
  }

  /**
   * Waits for the rest of the labelled output; not for ever, because a daemon that a rank started may keep the pipe.
   */
  async #drain(): Promise<void> {
    if (this.#outputs.length === 0) return;
    const late = new Promise<void>((resolve) => this.#after(STRAY_OUTPUT_MS, resolve));
    await Promise.race([Promise.allSettled(this.#outputs), late]);
  }
}

const codeOf = ({ code, signal }: End): number => (signal === null ? code! : codeOfSignal(signal));

function signalGroup(group: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-group, signal);
  } catch {
    // ESRCH: nobody is left in it. (EPERM: a rank that changed its user; nothing can be done from here.)
  }
}

const count = (number: number, noun: string): string => `${number} ${noun}${number === 1 ? '' : 's'}`;

/** "0, 1, 2 and 5 more" */
function list(ranks: readonly number[]): string {
  const shown = ranks.slice(0, 8).join(', ');
  return ranks.length > 8 ? `${shown} and ${ranks.length - 8} more` : shown;
}
