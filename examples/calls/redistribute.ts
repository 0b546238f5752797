/**
 * A matrix that is cut into rows is cut into columns: ialltoallw, with a layout for each rank. Nothing is packed here.
 *
 *     nbcrun -n 2 out/examples/calls/redistribute.js
 *
 *     rank 0 had rows 0,1,2,3 10,11,12,13, and has columns 0,1 10,11 20,21 30,31
 *     rank 1 had rows 20,21,22,23 30,31,32,33, and has columns 2,3 12,13 22,23 32,33
 */
import { init, strided } from 'node-nbc';

const n = 4;
const world = await init();
const { rank, size } = world;
const part = n / size; // rows, and then columns, of each rank
const rows = Int32Array.from({ length: part * n }, (_, i) => 10 * (rank * part + Math.floor(i / n)) + (i % n));
const columns = new Int32Array(n * part);

const ranks = Array.from({ length: size }, (_, other) => other);
const sends = ranks.map((to) => strided(rows, { shape: [part, part], strides: [n, 1], offset: to * part }));
const recvs = ranks.map((from) => columns.subarray(from * part * part, (from + 1) * part * part));
await world.ialltoallw(sends, recvs);

const show = (matrix: Int32Array, width: number): string =>
  Array.from({ length: matrix.length / width }, (_, y) => matrix.subarray(y * width, (y + 1) * width).join()).join(' ');
console.log(`rank ${rank} had rows ${show(rows, n)}, and has columns ${show(columns, part)}`);
await world.close();
