/**
 * From the environment of a process to its world.
 */
import { checkSignal, type SignalLike } from './aborts.js';
import { Communicator } from './communicator.js';
import { AbortError, BootstrapError, NbcError } from './errors.js';
import { monitorSocket } from './monitor.js';
import { native } from './native.js';
import { errorFromNative, errorFromSystem } from './native-errors.js';
import { missingPermissions } from './permissions.js';
import { type Bootstrap, readBootstrap } from './transport/bootstrap.js';
import type { TraceWriter } from './trace/file.js';
import { traceFile } from './trace/names.js';
import { closePmix, openPmix } from './transport/directory/pmix.js';
import { meet, type Endpoints } from './transport/meeting.js';
import { describeRoutes } from './transport/network.js';
import { type InitOptions, resolveOptions, type Settings } from './transport/options.js';
import { Stop } from './transport/stop.js';
import { openWorld, type World } from './world.js';

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
    return await openUnless(options);
  } finally {
    opening = false;
  }
}

/** Unless the signal fires: then whatever error that has led to is an AbortError. */
async function openUnless(options: InitOptions & { signal?: SignalLike | undefined }): Promise<Communicator> {
  const given: unknown = options;
  // What is no object is told by the check of the options.
  if (typeof given !== 'object' || given === null || options.signal === undefined) return open(options, new Stop());
  const { signal, ...others } = options;
  const context = { operation: 'init' };
  checkSignal(signal, context);
  const stop = new Stop(signal);
  if (stop.hasFired()) throw new AbortError(context, signal.reason);
  try {
    return await open(others, stop);
  } catch (error) {
    throw stop.hasFired() ? new AbortError(context, signal.reason) : error;
  }
}

async function open(options: InitOptions, stop: Stop): Promise<Communicator> {
  const settings = resolveOptions(options);
  const bootstrap = readBootstrap();
  let endpoints: Endpoints | undefined;
  let world: World;
  try {
    native.checkNoneOpen(bootstrap.thread);
    if (bootstrap.pmix) Object.assign(bootstrap, await openPmix(native, bootstrap.rank, settings.joinTimeout, stop));
    const missing = bootstrap.store === undefined ? undefined : missingPermissions('net');
    if (missing !== undefined)
      throw new BootstrapError(
        `ranks find each other over a socket, which the permission model of Node.js forbids: allow it with ${missing}`,
        bootstrap.rank,
      );
    settings.monitor = monitorSocket(settings.monitor, bootstrap.thread);
    const trace = await traceOf(settings.trace, bootstrap);
    endpoints = await meet(native, bootstrap, settings, undefined, stop);
    const { rank, size, host, thread } = bootstrap;
    const { jobFd, transport, tcp, network, neighbours } = endpoints;
    const job = { rank, size, host, jobFd, thread, launched: true, transport, tcp, network: network?.name, neighbours };
    world = openWorld(native, job, settings, trace);
    if (settings.debug && network !== undefined && tcp !== undefined)
      process.stderr.write(`node-nbc: ${describeRoutes(rank, tcp.hosts, network)}\n`);
  } catch (thrown) {
    const context = { rank: bootstrap.rank, operation: 'init' };
    throw errorFromSystem(errorFromNative(thrown, context), native.descriptorLimit(), context);
  } finally {
    endpoints?.closeFile();
    // All values are exchanged by now, so a launcher that has ended does no harm.
    const closing = bootstrap.pmix ? closePmix(native) : undefined;
    if (!stop.hasFired()) await closing;
  }
  return everybody(world);
}

/**
 * Opens the rank that this thread is, in a job whose ranks are threads of this process.
 * @throws {NbcError} as {@link init}
 */
export async function openThread(place: {
  rank: number;
  size: number;
  jobFd: number;
  settings: Settings;
}): Promise<Communicator> {
  const { rank, size, jobFd, settings } = place;
  try {
    const trace = await traceOf(settings.trace, { rank, size });
    const job = { rank, size, host: '', jobFd, transport: 'shm', thread: true, launched: false } as const;
    return everybody(openWorld(native, job, { ...settings, monitor: monitorSocket(settings.monitor, true) }, trace));
  } catch (thrown) {
    const context = { rank, operation: 'runRanks' };
    throw errorFromSystem(errorFromNative(thrown, context), native.descriptorLimit(), context);
  }
}

function everybody(world: World): Communicator {
  const ranks = Uint32Array.from({ length: world.size }, (_, index) => index);
  return Communicator.of(world, ranks, world.rank, { high: 0, low: 0 });
}

/** Loaded only where a trace is wanted. @throws {OptionError} if the file cannot be written */
async function traceOf(
  file: string,
  { rank, size }: Pick<Bootstrap, 'rank' | 'size'>,
): Promise<TraceWriter | undefined> {
  if (file === '') return undefined;
  const { TraceWriter } = await import('./trace/file.js');
  return new TraceWriter(native, traceFile(file, rank, size), rank, size);
}
