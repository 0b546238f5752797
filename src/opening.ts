/** What opens a world, once it is known which rank of which job this is. */
import { crypto } from './builtins.js';
import { Communicator } from './communicator.js';
import { monitorSocket } from './monitor.js';
import { native } from './native.js';
import { errorFromNative, errorFromSystem } from './native-errors.js';
import type { TraceWriter } from './trace/file.js';
import { traceFile } from './trace/names.js';
import type { Bootstrap } from './transport/bootstrap.js';
import type { Settings } from './transport/options.js';
import { openWorld, type World } from './world.js';

/**
 * Opens the rank that this thread is, in a job whose ranks are threads of this process.
 * @throws {NbcError} as init()
 */
export async function openThread(place: {
  rank: number;
  size: number;
  jobFd: number;
  settings: Settings;
  processor: number | undefined;
}): Promise<Communicator> {
  const { rank, size, jobFd, settings, processor } = place;
  try {
    if (processor !== undefined) bindThread(processor);
    const trace = await traceOf(settings.trace, { rank, size });
    const job = { rank, size, host: '', jobFd, transport: 'shm', threads: size, launched: false } as const;
    return everybody(openWorld(native, job, { ...settings, monitor: monitorSocket(settings.monitor, true) }, trace));
  } catch (thrown) {
    const context = { rank, operation: 'runRanks' };
    throw errorFromSystem(errorFromNative(thrown, context), native.descriptorLimit(), context);
  }
}

/**
 * The calling thread runs there and nowhere else. The threads of the runtime, which serve all others, begin with their
 * first work, and run where the thread may that gives it: so they get some before.
 */
export function bindThread(processor: number): void {
  crypto().randomBytes(1, () => undefined);
  native.bindThread(processor);
}

/** The communicator of all ranks. */
export function everybody(world: World): Communicator {
  const ranks = Uint32Array.from({ length: world.size }, (_, index) => index);
  return Communicator.of(world, ranks, world.rank, { high: 0, low: 0 });
}

/** Loaded only where a trace is wanted. @throws {OptionError} if the file cannot be written */
export async function traceOf(
  file: string,
  { rank, size }: Pick<Bootstrap, 'rank' | 'size'>,
): Promise<TraceWriter | undefined> {
  if (file === '') return undefined;
  const { TraceWriter } = await import('./trace/file.js');
  return new TraceWriter(native, traceFile(file, rank, size), rank, size);
}
