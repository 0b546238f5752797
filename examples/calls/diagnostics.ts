/**
 * What a program can see of itself: its operations on a channel, the time that it waits, and counters. nbctop and traces
 * show the same from outside (docs/seeing.md, docs/tracing.md).
 *
 *     nbcrun -n 2 out/examples/calls/diagnostics.js
 *
 *     rank 0 started 2 operations; iallreduce ended first; it measured both times: true
 *     rank 1 started 2 operations; iallreduce ended first; it measured both times: true
 */
import { subscribe } from 'node:diagnostics_channel';
import { init, type OperationEvent, SUM } from 'node-nbc';

const world = await init();
const ended: string[] = [];
subscribe('node-nbc:operation', (message) => {
  const { operation, end } = message as OperationEvent;
  if (end !== undefined) ended.push(operation);
});

const before = world.utilization(); // begins to measure
const { started } = world.stats();
const sum = new Float64Array(1);
await world.iallreduce(Float64Array.of(1), sum, SUM);
world.ibarrier().wait();
const { idle, active } = world.utilization(before); // milliseconds in wait(), and outside of it
const count = world.stats().started - started;
const measured = idle >= 0 && active > 0;
console.log(
  `rank ${world.rank} started ${count} operations; ${ended[0]} ended first; it measured both times: ${measured}`,
);
await world.close();
