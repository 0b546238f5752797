/**
 * Each rank finds where its part of a file begins: iexscan, the sum over the ranks before it. iscan includes its own.
 *
 *     nbcrun -n 4 out/examples/calls/scan.js
 *
 *     rank 0: bytes 0 to 10
 *     rank 1: bytes 10 to 30
 *     rank 2: bytes 30 to 60
 *     rank 3: bytes 60 to 100
 */
import { init, SUM } from 'node-nbc';

const world = await init();
const length = BigInt64Array.of(BigInt(10 * (world.rank + 1)));
const begin = new BigInt64Array(1); // stays 0 on rank 0
const end = new BigInt64Array(1);
await Promise.all([world.iexscan(length, begin, SUM), world.iscan(length, end, SUM)]);
console.log(`rank ${world.rank}: bytes ${begin[0]} to ${end[0]}`);
await world.close();
