/** Runs the command-line program nbcrun for its tests, and keeps an eye on everything that it starts. */
import { type ChildProcess, spawn, type StdioOptions } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describeHang } from './hang.js';
import { kill, processesWith } from './processes.js';
import { until } from './until.js';

export const ROOT = dirname(createRequire(import.meta.url).resolve('node-nbc/package.json'));
/** The ranks' side of these tests. */
export const PROGRAM = fileURLToPath(new URL('./programs/rank.js', import.meta.url));

export interface End {
  code: number | null;
  signal: NodeJS.Signals | null;
  stdout: string;
  stderr: string;
}

export interface LaunchOptions {
  /** What nbcrun reads; without, nothing. */
  input?: string;
  /** Another installation of the package. */
  root?: string;
  env?: Record<string, string>;
  /** A command of the shell that goes before, such as a limit. */
  under?: string;
}

/** A running nbcrun. `mark` is in the environment of all processes of the job. */
export class Launch {
  readonly child: ChildProcess;
  readonly mark = `NBC_TEST_MARK=${randomUUID()}`;
  readonly end: Promise<End>;
  stdout = '';
  stderr = '';

  constructor(args: readonly string[], { input, root = ROOT, env, under }: LaunchOptions = {}) {
    const [name, value] = this.mark.split('=');
    const stdio: StdioOptions = [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'];
    const command = [join(root, 'dist/cli/nbcrun.js'), ...args];
    const [file, ...rest] =
      under === undefined
        ? [process.execPath, ...command]
        : ['bash', '-c', `${under} && exec "$0" "$@"`, process.execPath, ...command];
    this.child = spawn(file, rest, { stdio, env: { ...process.env, ...env, [name]: value } });
    this.child.stdin?.end(input);
    this.child.stdout!.setEncoding('utf8').on('data', (text: string) => (this.stdout += text));
    this.child.stderr!.setEncoding('utf8').on('data', (text: string) => (this.stderr += text));
    this.end = new Promise((resolve, reject) => {
      this.child.once('error', reject);
      this.child.once('close', (code, signal) => {
        resolve({ code, signal, stdout: this.stdout, stderr: this.stderr });
      });
    });
  }

  get pid(): number {
    return this.child.pid!;
  }

  /** Waits until `count` ranks have said "ready", and returns their process ids by rank. */
  async ready(count: number): Promise<number[]> {
    const look = (): number[] | undefined => {
      const said = [...this.stdout.matchAll(/ready (\d+) (\d+)$/gm)];
      if (said.length < count) return undefined;
      const pids: number[] = [];
      for (const [, rank, pid] of said) pids[Number(rank)] = Number(pid);
      return pids;
    };
    return until(`${count} ranks are ready`, look, async () => {
      const doing = await describeHang(this.processes());
      return `${doing}\n${this.stdout}${this.stderr}`;
    });
  }

  /** Every process of the job that lives, nbcrun too. */
  processes(): number[] {
    return processesWith(this.mark);
  }

  /** After a test, whatever became of it. */
  cleanUp(): void {
    this.child.kill('SIGKILL');
    for (const pid of this.processes()) kill(pid);
  }
}

/** For a group of tests: starts nbcrun. What a test has started, and what that has left, ends behind it. */
export function launcher(): (args: readonly string[], options?: LaunchOptions) => Launch {
  const launches: Launch[] = [];
  afterEach(() => {
    for (const one of launches.splice(0)) one.cleanUp();
  });
  return (args, options) => {
    const one = new Launch(args, options);
    launches.push(one);
    return one;
  };
}
