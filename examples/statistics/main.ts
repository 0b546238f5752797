/**
 * Runs the collective of schedule.ts: `nbcrun -n 4 out/examples/statistics/main.js`. Each rank has some measurements,
 * and computes on while their minimum, maximum and sum are found.
 */
import assert from 'node:assert/strict';
import { init } from 'node-nbc';
import { checkSchedules } from 'node-nbc/schedules';
import { PARTS, statistics } from './schedule.js';

const COUNT = 1000;
const world = await init();
const { rank, size } = world;

// Every rank can compute the schedules of all. A program does this in its tests, or once.
const schedules = Array.from({ length: size }, (_, other) => statistics(other, size, COUNT));
assert.deepEqual(checkSchedules(schedules), []);

/** What rank `from` measured at place i. */
const measured = (from: number, i: number): number => ((from * 7919 + i * 104_729) % 1000) - 500;

const values = Float64Array.from({ length: COUNT }, (_, i) => measured(rank, i));
const result = new Float64Array(PARTS.length * COUNT);
const request = world.start(schedules[rank], values, result);

// Meanwhile: what all of it must be.
const expected = new Float64Array(result.length);
for (let i = 0; i < COUNT; i++) {
  const all = Array.from({ length: size }, (_, from) => measured(from, i));
  [Math.min(...all), Math.max(...all), all.reduce((a, b) => a + b)].forEach((value, part) => {
    expected[part * COUNT + i] = value;
  });
}
await request;
assert.deepEqual(result, expected);
if (rank === 0) {
  const first = PARTS.map((name, part) => `${name} ${result[part * COUNT]}`).join(', ');
  console.log(`${COUNT} values of ${size} ranks, verified; the first: ${first}`);
}
await world.close();
