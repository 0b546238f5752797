/**
 * Calls all collectives of a communicator of 1024 ranks, none of which is there: a call does all that it does
 * otherwise, but nothing starts. Argument: repetitions. Prints what the look-ups took, as JSON.
 */
import { init } from 'node-nbc';
import { Communicator } from '#library/communicator.js';
import { native } from '#library/native.js';
import { OPERATIONS } from '#library/operations/index.js';
import { argumentsOf, blocksOf, reduces } from '#library/bench/nbcbench/operations.js';
import { median } from '#library/bench/nbcbench/statistics.js';
import { PlanCache } from '#library/plans.js';
import type { LookUp } from './schedules.js';

const RANKS = 1024;
const repetitions = Number(process.argv[2]);
/** Calls between two looks at the clock; of operations with counts or parts, which take much longer. */
const BATCH = 1000;
const LISTED_BATCH = 5;
/** Looks at the clock before those that count. */
const WARM_UP = 20;
const place = { rank: 0, size: RANKS };

const world = await init();
// All members are this process: so native code checks and compiles as it would for 1024.
const handle = native.createCommunicator(new Uint32Array(RANKS), 0, 2 ** 31, 0);
const ghost = Object.create(Communicator.prototype) as Record<string, (...args: unknown[]) => unknown>;
const plans: Record<string, PlanCache> = {};
const stub = {
  rank: 0,
  native: {
    compile: (to: number, words: Uint32Array) => native.compile(to, words),
    releasePlan: (plan: number) => native.releasePlan(plan),
    bindPlan: (plan: number, send: ArrayBufferView | null, receive: ArrayBufferView | null) =>
      native.bindPlan(plan, send, receive),
    start: () => true,
  },
  nextSlot: 0,
  startedComplete: () => undefined,
};
Object.assign(ghost, {
  ...place,
  handle,
  members: new Uint32Array(RANKS),
  hosts: undefined,
  crowded: false,
  world: stub,
  plans,
});
for (const operation of OPERATIONS) plans[operation.name] = new PlanCache(ghost as never, operation);

/** Arguments for blocks of so many bytes. */
function call(op: (typeof OPERATIONS)[number]['name'], bytes: number): unknown[] {
  const { send, receive } = blocksOf(op);
  const View = reduces(op) ? Float64Array : Uint8Array;
  const count = bytes / View.BYTES_PER_ELEMENT;
  const view = (blocks: number) => (blocks === 0 ? null : new View(blocks * count));
  return argumentsOf(op, place, { send: view(send(place)), receive: view(receive(place)) }, count);
}

function microseconds(work: () => void, times: number): number {
  const begin = performance.now();
  for (let i = 0; i < times; i++) work();
  return ((performance.now() - begin) / times) * 1000;
}

const found: LookUp[] = [];
for (const { name, parameters } of OPERATIONS) {
  const listed = parameters.some((parameter) => /counts$|s$/i.test(parameter));
  const all = Array.from({ length: repetitions }, (_, index) => call(name, 8 * (index + 1)));
  const run = (args: readonly unknown[]) => ghost[name](...args);
  const built = median(
    all.map((args) => {
      plans[name].release();
      return microseconds(() => run(args), 1);
    }),
  );
  const [first, second] = [all[0], all[1] ?? all[0]];
  run(first);
  run(second);
  const batch = listed ? LISTED_BATCH : BATCH;
  const times = (work: () => void) =>
    median(Array.from({ length: repetitions + WARM_UP }, () => microseconds(work, batch)).slice(WARM_UP));
  const same = times(() => run(second));
  let turn = false;
  const kept = times(() => {
    turn = !turn;
    run(turn ? first : second);
  });
  found.push({ op: name, listed, built, same, kept });
}
native.freeCommunicator(handle);
await world.close();
console.log(JSON.stringify(found));
