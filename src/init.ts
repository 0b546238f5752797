/**
 * From the environment of a process to its world.
 */
import { Communicator } from './communicator.js';
import { errorFromNative, OptionError } from './errors.js';
import { native } from './native.js';
import { readBootstrap } from './transport/bootstrap.js';
import { deviceOf, type InitOptions, resolveOptions } from './transport/options.js';
import { meetOverTcp } from './transport/tcp.js';
import { openWorld, type World } from './world.js';

/**
 * Opens this process's rank, and returns the communicator of all ranks. Under `nbcrun` rank and size come from the
 * launcher; a program that was started without it is a job of one rank.
 *
 * Ranks need not call it at the same time: connections are made when an operation first needs them. Over TCP they meet
 * here first, to tell each other where they are. A process has one world at a time, and its place in a job of several ranks can be taken once.
 *
 * @throws {OptionError} naming an option, or a variable of the environment, that cannot work
 * @throws {NbcError} ERR_NBC_ALREADY_OPEN, ERR_NBC_TRANSPORT, ERR_NBC_SYSTEM, …
 */
export async function init(options: InitOptions = {}): Promise<Communicator> {
  const settings = resolveOptions(options);
  const bootstrap = readBootstrap();
  const { rank, size, jobFd, host } = bootstrap;
  const needsFile = settings.transport !== 'tcp' && size > 1;
  if (needsFile && jobFd < 0) {
    throw new OptionError('NBC_JOB_FD', `is not set; without it, which nbcrun sets, ranks are reached by transport 'tcp'`);
  }
  let world: World;
  try {
    const tcp =
      settings.transport === 'tcp'
        ? await meetOverTcp(native, bootstrap, { ...settings.tcp, joinTimeout: settings.joinTimeout })
        : undefined;
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
        tcp,
      },
      settings.timeout,
    );
  } catch (thrown) {
    throw errorFromNative(thrown, { rank, operation: 'init' });
  }
  const everybody = Uint32Array.from({ length: size }, (_, index) => index);
  return new Communicator(world, everybody, rank, { high: 0, low: 0 });
}
