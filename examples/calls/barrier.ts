/**
 * A barrier that does not stop anybody: ibarrier. Its request ends when all ranks have started theirs.
 *
 *     nbcrun -n 4 out/examples/calls/barrier.js
 *
 *     all 4 ranks are there
 */
import { init } from 'node-nbc';

/** Work that does not need the others. */
const computeALittle = (): number => Math.hypot(3, 4);

const world = await init();
const request = world.ibarrier();
while (!request.test()) computeALittle();
if (world.rank === 0) console.log(`all ${world.size} ranks are there`);
await world.close();
