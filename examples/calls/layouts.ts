/**
 * Columns of a matrix are sent and received without copying them: strided describes where the elements are.
 *
 *     nbcrun -n 2 out/examples/calls/layouts.js
 *
 *     rank 1 has 1,0,0,0,5,0,0,0,9,0,0,0
 */
import { init, strided } from 'node-nbc';

const [rows, columns] = [3, 4];
const world = await init();
const matrix = new Float64Array(rows * columns);
if (world.rank === 0) matrix.forEach((_, i) => (matrix[i] = 1 + i));

const firstColumn = strided(matrix, { shape: [rows], strides: [columns] });
await world.ibcast(firstColumn, 0);
if (world.rank === 1) console.log(`rank 1 has ${matrix.join()}`);
await world.close();
