#!/usr/bin/env node
/**
 * `npm run bench:ucx`: the same operations over our own networks and over UCX, on this machine; prints a table in
 * Markdown. `npm run bench:verbs -- ucx` measures the same in a guest with a software RDMA device.
 */
import { tables } from './bench-verbs/tables.mjs';
import { measureUcxHere } from './bench-verbs/ucx.mjs';
import { build } from './build.mjs';

build();
let ucx = [];
const failures = await measureUcxHere({
  quick: process.argv.includes('--quick'),
  save: (found) => (ucx = found),
  say: (text) => console.error(text),
});
console.log(tables({ ucx }));
for (const failure of failures) console.error(`FAILED: ${failure}`);
process.exitCode = failures.length > 0 ? 1 : 0;
