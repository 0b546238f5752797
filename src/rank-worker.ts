/** What a worker runs that is a rank (ranks.ts): its world, and the function of the module. */
import { once } from 'node:events';
import { workerData } from 'node:worker_threads';
import { keepCompiled } from './code.cjs';
import { type RankErrorCode, show } from './errors.js';
import { openThread } from './opening.js';
import { FAILURES, type Idle, type Loaded, type RankJob, STOP, type Told, type WorkerData } from './rank-job.js';
import { loadModule } from './rank-module.js';
import type { RankFunction } from './ranks.js';
import { toldError } from './told-errors.js';

const { port } = workerData as WorkerData;

/** Where this rank is, for the code of its failure. */
let code: RankErrorCode;

async function load(module: string, path: string | undefined): Promise<RankFunction> {
  const { default: fn } = await loadModule(module, path);
  if (typeof fn === 'function') return fn as RankFunction;
  const what = fn === undefined ? 'it has none' : show(fn);
  throw new TypeError(`the default export of ${module} must be a function, async (world, data) => result: ${what}`);
}

/** From the opening of the rank's world to its end. False: it has failed, or was told to stop. */
async function rank({ module, path, data, words, ...place }: RankJob): Promise<boolean> {
  const fail = (error: unknown): void => {
    port.postMessage({ code, error: toldError(error), order: Atomics.add(words, FAILURES, 1) } satisfies Told);
  };
  let returned = false;
  code = 'ERR_NBC_RANK_FAILED';
  try {
    const world = await openThread(place);
    try {
      code = 'ERR_NBC_RANK_MODULE';
      const fn = await load(module, path);
      code = 'ERR_NBC_RANK_FAILED';
      if (Atomics.load(words, STOP) !== 0) {
        port.postMessage({ stopped: true } satisfies Told);
        return false;
      }
      port.postMessage('loaded' satisfies Loaded);
      const result = await fn(world, data);
      code = 'ERR_NBC_RANK_RESULT';
      port.postMessage({ result } satisfies Told);
      returned = true;
    } catch (error) {
      // Before the end of this world makes others fail: so the first failure has the lowest number.
      fail(error);
    }
    await world.close();
  } catch (error) {
    returned = false;
    fail(error);
  }
  return returned;
}

/** What a stream holds goes to the thread that started this one, piece by piece. */
function flush(stream: NodeJS.WriteStream): Promise<void> | undefined {
  return stream.writableLength === 0 ? undefined : new Promise((resolve) => stream.write('', () => resolve()));
}

/** While it waits for that, the port keeps the thread alive; a rank whose function waits for nothing ends. */
async function nextJob(): Promise<RankJob> {
  const [job] = (await once(port, 'message')) as [RankJob];
  return job;
}

/** The exit code that Node.js has for a module that waits for nothing that could come. */
const UNSETTLED = 13;
const leaveUnsettled = (): void => {
  process.exitCode ??= UNSETTLED;
};

async function serve(): Promise<void> {
  process.on('exit', leaveUnsettled);
  for (let stays = true; stays;) {
    const job = await nextJob();
    const returned = await rank(job);
    if (returned) keepCompiled();
    stays = returned && job.stays;
    await Promise.all([flush(process.stdout), flush(process.stderr)]);
    if (stays) port.postMessage('idle' satisfies Idle);
  }
  process.off('exit', leaveUnsettled);
  // Whatever the module has left open.
  process.exit();
}

serve().catch((error: unknown) => {
  // The thread ends, also if the program catches what is thrown here.
  setImmediate(() => process.exit(1));
  process.nextTick(() => {
    throw error;
  });
});
