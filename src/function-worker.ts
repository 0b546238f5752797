/** What a worker runs whose operator has a module: pieces of reductions, one after another, until the world closes. */
import { workerData } from 'node:worker_threads';
import { show } from './errors.js';
import { apply, type Served, textOfThrown, type Thrown } from './functions.js';
import { native } from './native.js';
import type { OpFunction } from './operators.js';

const { world, operator, module } = workerData as Served;

async function load(): Promise<OpFunction> {
  const { default: fn } = (await import(module)) as { default?: unknown };
  if (typeof fn === 'function') return fn as OpFunction;
  throw new TypeError(`the default export of ${module} must be a function, not ${show(fn)}`);
}

/** Blocks this thread: what the module does besides gets no event loop. */
function serve(fn: OpFunction): void {
  for (;;) {
    const piece = native.awaitReduction(world, operator);
    if (piece === null) return;
    const { ticket, a, b } = piece;
    const thrown = apply(fn, piece);
    native.endReduction(world, operator, ticket, a, b, thrown === null ? undefined : textOfThrown(thrown.value));
  }
}

/** Without the event loop of the thread that waits: it gets no event of this worker while it is in `wait()`. */
function fail(error: unknown): void {
  native.failOperator(world, operator, textOfThrown(error));
}

let imported = false;
let uncaught: Thrown | undefined;
process.on('uncaughtExceptionMonitor', (value) => (uncaught = { value }));
process.on('exit', (code) => {
  const when = imported ? '' : ' while it imported the module';
  fail(
    uncaught === undefined
      ? new Error(`the worker of the operator has ended with exit code ${code}${when}`)
      : uncaught.value,
  );
});
native.serveOperator(world, operator);
try {
  const fn = await load();
  imported = true;
  serve(fn);
} catch (error) {
  fail(error);
}
process.exit();
