/**
 * From the environment of a process to its world.
 */
import { Communicator } from './communicator.js';
import { errorFromNative } from './errors.js';
import { native } from './native.js';
import { readBootstrap } from './transport/bootstrap.js';
import { deviceOf, type InitOptions, resolveOptions } from './transport/options.js';
import { openWorld, type World } from './world.js';

/**
 * Opens this process's rank, and returns the communicator of all ranks. Under `nbcrun` rank and size come from the
 * launcher; a program that was started without it is a job of one rank.
 *
 * Ranks need not call it at the same time: connections are made when an operation first needs them. A process has
 * one world at a time, and its place in a job of several ranks can be taken once.
 *
 * @throws {OptionError} naming an option, or a variable of the environment, that cannot work
 * @throws {NbcError} ERR_NBC_ALREADY_OPEN, ERR_NBC_TRANSPORT, ERR_NBC_SYSTEM, …
 */
// eslint-disable-next-line @typescript-eslint/require-await -- async, so that its errors reject
export async function init(options: InitOptions = {}): Promise<Communicator> {
  const settings = resolveOptions(options);
  const { rank, size, jobFd, host } = readBootstrap();
  let world: World;
  try {
    world = openWorld(
      native,
      {
        rank,
        size,
        jobFd,
        transport: settings.transport,
        host,
        verbsDevice: deviceOf(settings.verbs, rank),
        verbsPort: settings.verbs.port,
        verbsGidIndex: settings.verbs.gidIndex,
        verbsEager: settings.verbs.eager,
        verbsCacheEntries: settings.verbs.cacheEntries,
        verbsCacheBytes: settings.verbs.cacheBytes,
        progressThread: settings.progress === 'thread',
        eagerLimit: settings.eagerLimit,
        testOnInit: settings.testOnInit,
        waitOnSend: settings.waitOnSend,
        startall: settings.startall,
        crossMemory: settings.crossMemory,
      },
      settings.timeout,
    );
  } catch (thrown) {
    throw errorFromNative(thrown, { rank, operation: 'init' });
  }
  const everybody = Uint32Array.from({ length: size }, (_, index) => index);
  return new Communicator(world, everybody, rank, { high: 0, low: 0 });
}
