/**
 * Passes what is typed on to rank 0. Its process group is in the background of the terminal, where reading would stop it;
 * nbcrun reads instead, as long as it is in the foreground itself.
 */
import { readFileSync } from 'node:fs';
import type { Writable } from 'node:stream';

export class Terminal {
  readonly #sink: Writable;
  readonly #read = (chunk: Buffer): void => {
    if (this.#sink.write(chunk)) return;
    process.stdin.pause();
    this.#sink.once('drain', () => this.follow());
  };
  readonly #end = (): void => void this.#sink.end();

  constructor(sink: Writable) {
    this.#sink = sink;
    sink.on('error', () => this.stop()); // the rank does not read any more
    process.stdin.on('data', this.#read).on('end', this.#end);
    this.follow();
  }

  /** Reads, or stops reading, when nbcrun has come to the foreground or gone to the background. */
  follow(): void {
    if (inForeground()) process.stdin.resume();
    else process.stdin.pause();
  }

  stop(): void {
    process.stdin.off('data', this.#read).off('end', this.#end).pause();
    process.stdin.unref();
  }
}

/** Whether this process may read its terminal. */
function inForeground(): boolean {
  const stat = readFileSync('/proc/self/stat', 'latin1');
  // After the name, which may contain anything: state, parent, process group, session, terminal, its foreground group
  const [, , group, , , foreground] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return group === foreground;
}
