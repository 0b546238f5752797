/**
 * Work is handed out in equal blocks, and results are collected: iscatter and igather.
 *
 *     nbcrun -n 4 out/examples/calls/scatter-gather.js
 *
 *     squares: 0,1,4,9,16,25,36,49
 */
import { init } from 'node-nbc';

const world = await init();
const root = 0;
const isRoot = world.rank === root;

const all = isRoot ? Int32Array.from({ length: 2 * world.size }, (_, i) => i) : null;
const mine = new Int32Array(2);
await world.iscatter(all, mine, root);

const squares = mine.map((value) => value * value);
const result = isRoot ? new Int32Array(2 * world.size) : null;
await world.igather(squares, result, root);

if (result !== null) console.log(`squares: ${result.join()}`);
await world.close();
