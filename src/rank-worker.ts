/** What a worker runs that is a rank (ranks.ts): its world, and the function of the module. */
import { workerData } from 'node:worker_threads';
import { type RankErrorCode, show } from './errors.js';
import { openThread } from './init.js';
import { FAILURES, type Loaded, type RankJob, STOP, type Told } from './rank-job.js';
import type { RankFunction } from './ranks.js';
import { toldError } from './told-errors.js';

const { module, data, port, words, ...place } = workerData as RankJob;

/** Where this rank is, for the code of its failure. */
let code: RankErrorCode = 'ERR_NBC_RANK_FAILED';

async function load(): Promise<RankFunction> {
  const { default: fn } = (await import(module)) as { default?: unknown };
  if (typeof fn === 'function') return fn as RankFunction;
  const what = fn === undefined ? 'it has none' : show(fn);
  throw new TypeError(`the default export of ${module} must be a function, async (world, data) => result: ${what}`);
}

async function tell(): Promise<void> {
  const world = await openThread(place);
  try {
    code = 'ERR_NBC_RANK_MODULE';
    const fn = await load();
    code = 'ERR_NBC_RANK_FAILED';
    if (Atomics.load(words, STOP) !== 0) {
      port.postMessage({ stopped: true } satisfies Told);
      return;
    }
    port.postMessage('loaded' satisfies Loaded);
    const result = await fn(world, data);
    code = 'ERR_NBC_RANK_RESULT';
    port.postMessage({ result } satisfies Told);
  } catch (error) {
    // Before the end of this world makes others fail: so the first failure has the lowest number.
    fail(error);
  }
  await world.close();
}

function fail(error: unknown): void {
  port.postMessage({ code, error: toldError(error), order: Atomics.add(words, FAILURES, 1) } satisfies Told);
}

/** What a stream holds goes to the thread that started this one, piece by piece. */
function flush(stream: NodeJS.WriteStream): Promise<void> | undefined {
  return stream.writableLength === 0 ? undefined : new Promise((resolve) => stream.write('', () => resolve()));
}

await tell().catch(fail);
await Promise.all([flush(process.stdout), flush(process.stderr)]);
// Whatever the module has left open.
process.exit();
