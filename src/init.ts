/** How a process, or a thread of nbcrun, becomes a rank. */
import type { SignalLike } from './aborts.js';
import type { Communicator } from './communicator.js';
import { NbcError } from './errors.js';
import { join } from './joining.js';
import type { InitOptions } from './transport/options.js';

/** An `init()` of this thread has begun and not ended: ranks that meet wait for each other. */
let opening = false;

/**
 * Opens this process's rank, and returns the communicator of all ranks. Under `nbcrun` rank and size come from the
 * launcher, and with `--threads` each thread that runs the program has its own rank; a program that was started without
 * it is a job of one rank.
 *
 * Ranks need not call it at the same time: connections are made when an operation first needs them. Over TCP they meet
 * here first, to tell each other where they are. A process has one world at a time, and its place in a job of several
 * ranks can be taken once.
 *
 * @param options those of the table in docs/options.md, and `signal`: an AbortSignal that ends the wait for the other
 *   ranks. They learn of it, as of a rank that has ended. Once the world is open it has no effect
 * @throws {AbortError} if `signal` has fired; nothing is left open
 * @throws {OptionError} naming an option, or a variable of the environment, that cannot work
 * @throws {NbcError} ERR_NBC_ALREADY_OPEN, ERR_NBC_TRANSPORT, ERR_NBC_SYSTEM, …
 */
export async function init(options: InitOptions & { signal?: SignalLike | undefined } = {}): Promise<Communicator> {
  if (opening) throw new NbcError('ERR_NBC_ALREADY_OPEN', 'init: another init() of this process is under way');
  opening = true;
  try {
    return await join(options);
  } finally {
    opening = false;
  }
}
