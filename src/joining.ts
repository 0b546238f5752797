/**
 * From the environment of a process to its world: how ranks that were started apart find each other. `init()` loads it;
 * ranks that runRanks() starts have no use for it, nor for the modules of Node.js that it needs.
 */
import { checkSignal, type SignalLike } from './aborts.js';
import type { Communicator } from './communicator.js';
import { AbortError, BootstrapError } from './errors.js';
import { monitorSocket } from './monitor.js';
import { native } from './native.js';
import { errorFromNative, errorFromSystem } from './native-errors.js';
import { bindThread, everybody, traceOf } from './opening.js';
import { missingPermissions } from './permissions.js';
import { readBootstrap } from './transport/bootstrap.js';
import { closePmix, openPmix } from './transport/directory/pmix.js';
import { meet, type Endpoints } from './transport/meeting.js';
import { describeWays } from './transport/network.js';
import { type InitOptions, resolveOptions } from './transport/options.js';
import { Stop } from './transport/stop.js';
import { openWorld, type World } from './world.js';

/** As init(). If the signal fires, whatever error that has led to is an AbortError. */
export async function join(options: InitOptions & { signal?: SignalLike | undefined }): Promise<Communicator> {
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
    native.checkNoneOpen(bootstrap.threads > 0);
    if (bootstrap.processor >= 0) bindThread(bootstrap.processor);
    if (bootstrap.pmix) Object.assign(bootstrap, await openPmix(native, bootstrap.rank, settings.joinTimeout, stop));
    const missing = bootstrap.store === undefined ? undefined : missingPermissions('net');
    if (missing !== undefined)
      throw new BootstrapError(
        `ranks find each other over a socket, which the permission model of Node.js forbids: allow it with ${missing}`,
        bootstrap.rank,
      );
    settings.monitor = monitorSocket(settings.monitor, bootstrap.threads > 0);
    const trace = await traceOf(settings.trace, bootstrap);
    endpoints = await meet(native, bootstrap, settings, undefined, stop);
    const { rank, size, host, threads } = bootstrap;
    const { jobFd, transport, tcp, networks, neighbours } = endpoints;
    const job = { rank, size, host, jobFd, threads, launched: true, transport, tcp, ...networks, neighbours };
    world = openWorld(native, job, settings, trace);
    if (settings.debug && networks !== undefined) process.stderr.write(`node-nbc: ${describeWays(rank, networks)}\n`);
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
