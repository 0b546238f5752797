/** The native program: built, and asked for one row after the other. */
import { spawn, spawnSync, type ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import type { Row } from './row.js';

// From out/bench/patterns, where this is compiled to.
const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
const SOURCES = `${ROOT}bench/patterns/native`;
const PROGRAM = `${ROOT}build/patterns/patterns`;

/** Does nothing when all is built, so it also runs where nothing can be written. */
export function build(): void {
  const { status, error, stderr } = spawnSync('make', ['-s', '-C', SOURCES], { encoding: 'utf8' });
  if (error) throw new Error(`make: ${error.message} (Debian: apt install make g++)`);
  if (status !== 0) throw new Error(`${SOURCES} does not build:\n${stderr}`);
}

/** The device that would be used. Throws what is missing. */
export function describe(device?: string): { device: string; most_inline: number } {
  const { status, error, stdout, stderr } = spawnSync(PROGRAM, ['--describe', ...(device ? [device] : [])], {
    encoding: 'utf8',
  });
  if (error) throw new Error(`${PROGRAM}: ${error.message}`);
  if (status !== 0) throw new Error(stderr.replace(/^patterns: /, '').trim());
  return JSON.parse(stdout) as { device: string; most_inline: number };
}

/** One process for all cases; it starts those of a case itself, and they end with it. */
export class Program {
  readonly #child: ChildProcessByStdio<Writable, Readable, null>;
  readonly #lines: AsyncIterator<string>;

  constructor() {
    this.#child = spawn(PROGRAM, ['-'], { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#child.stdin.on('error', () => {}); // it has ended; so have its lines
    this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]();
  }

  /** Throws what the program says is wrong with the case. */
  async measure(settings: Readonly<Record<string, string | number | null>>): Promise<Row> {
    const words = Object.entries(settings).map(([name, value]) => `${name}=${value}`);
    this.#child.stdin.write(`${words.join(' ')}\n`);
    const line = await this.#lines.next();
    if (line.done === true) throw new Error(`${PROGRAM} has ended`);
    const answer = JSON.parse(line.value) as Row | { error: string };
    if ('error' in answer) throw new Error(answer.error);
    return answer;
  }

  async close(): Promise<void> {
    this.#child.stdin.end();
    if (this.#child.exitCode === null && this.#child.signalCode === null) await once(this.#child, 'exit');
  }
}
