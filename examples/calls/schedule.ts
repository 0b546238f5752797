/**
 * A collective of the program's own: a schedule says what this rank does in which round. Here each rank adds what its
 * left neighbour has. See docs/schedules.md.
 *
 *     nbcrun -n 4 out/examples/calls/schedule.js
 *
 *     rank 0: 0 and 30 make 30
 *     rank 1: 10 and 0 make 10
 *     rank 2: 20 and 10 make 30
 *     rank 3: 30 and 20 make 50
 */
import { init } from 'node-nbc';
import { ElementType, Operator, Role, Schedule } from 'node-nbc/schedules';

const world = await init();
const { rank, size } = world;
const [left, right] = [(rank + size - 1) % size, (rank + 1) % size];
const bytes = Float64Array.BYTES_PER_ELEMENT;
const schedule = new Schedule()
  .send(right, Role.SEND, 0, bytes)
  .recv(left, Role.TEMP, 0, bytes)
  .copy(Role.SEND, 0, Role.RECEIVE, 0, bytes)
  .round()
  .reduce(Operator.SUM, ElementType.FLOAT64, Role.TEMP, 0, Role.RECEIVE, 0, bytes)
  .round();

const own = Float64Array.of(10 * rank);
const sum = new Float64Array(1);
await world.start(schedule, own, sum);
console.log(`rank ${rank}: ${own[0]} and ${10 * left} make ${sum[0]}`);
await world.close();
