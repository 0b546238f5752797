/**
 * Passes what is typed on to rank 0. Ranks have given the terminal up, so that it cannot stop them; nbcrun reads
 * instead, as long as it is in the foreground itself.
 */
import { readFileSync } from 'node:fs';
import type { Writable } from 'node:stream';

/**
 * How often nbcrun in the background looks, in milliseconds: not every shell tells a running job that `fg` was typed.
 */
const LOOK_MS = 250;

export class Terminal {
  readonly #sink: Writable;
  #look: NodeJS.Timeout | undefined;
  readonly #read = (chunk: Buffer): void => {
    if (!this.#sink.write(chunk)) this.follow();
  };
  readonly #end = (): void => void this.#sink.end();

  constructor(sink: Writable) {
    this.#sink = sink;
    sink.on('error', () => this.stop()).on('close', () => this.stop()); // the rank does not read any more
    sink.on('drain', () => this.follow());
    process.stdin.on('data', this.#read).on('end', this.#end);
    this.follow();
  }

  /** Reads if nbcrun is in the foreground and the rank has taken what was typed before. */
  follow(): void {
    clearTimeout(this.#look);
    if (!this.#sink.writable) {
      this.stop();
    } else if (inForeground() && !this.#sink.writableNeedDrain) {
      process.stdin.resume();
    } else {
      process.stdin.pause();
      this.#look = setTimeout(() => this.follow(), LOOK_MS).unref();
    }
  }

  stop(): void {
    clearTimeout(this.#look);
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
