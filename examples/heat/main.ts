#!/usr/bin/env node
/**
 * Heat in a plate: a 2D Jacobi stencil on a grid of ranks.
 *
 *     nbcrun -n 4 out/examples/heat/main.js
 *
 * What is parallel is in solve.ts.
 */
import { dimsCreate, init, MAX, type CartCommunicator } from 'node-nbc';
import { collect } from './collect.js';
import { parseOptions, type Options } from './options.js';
import { writePicture } from './picture.js';
import { blockAt } from './plate.js';
import { solveSerially } from './serial.js';
import { solve, type Solution, type Variant } from './solve.js';

const options = parseOptions(process.argv, (process.env.NBC_RANK ?? '0') === '0');
const world = await init();
const say = (line: string): void => {
  if (world.rank === 0) process.stdout.write(`${line}\n`);
};
const dims = dimsCreate(world.size, 2);
if (dims.some((ranks, dimension) => ranks > options.size[dimension])) {
  // One rank fails, so that the launcher does not end it, because of another, before it has said why.
  if (world.rank === 0) {
    process.stderr.write(`heat: a grid of ${dims.join(' x ')} ranks is larger than the plate\n`);
    process.exitCode = 1;
  }
} else {
  run((await world.cart({ dims, periods: [false, false] }))!, options);
}
await world.close();

function run(cart: CartCommunicator, { size, steps, tolerance, variant, check, output }: Options): void {
  say(`${size.join(' x ')} cells on ${dims.join(' x ')} ranks`);
  const variants: Variant[] = variant === 'both' ? ['blocking', 'nonblocking'] : [variant];
  for (const name of variants) {
    const solution = solve(cart, blockAt(size, cart.dims, cart.coords()), { steps, tolerance, variant: name });
    const [total, waited] = slowest(cart, solution);
    say(`${name}: ${solution.steps} steps in ${total.toFixed(1)} ms, of which ${waited.toFixed(1)} ms were waited`);
    const plate = collect(cart, size, solution.plate.inside);
    if (plate === null) continue;
    writePicture(output, plate, size);
    say(`largest change in the last step: ${solution.residual.toExponential(3)} K; picture: ${output}`);
    if (check) verify(plate, solution, size);
  }
}

/** The longest times of any rank. */
function slowest(cart: CartCommunicator, { total, waited }: Solution): Float64Array {
  const longest = new Float64Array(2);
  cart.iallreduce(Float64Array.of(total, waited), longest, MAX).wait();
  return longest;
}

/** Each cell is computed from the same numbers in the same order as serially: all must be equal to the last bit. */
function verify(plate: Float64Array, { steps, residual }: Solution, [height, width]: readonly [number, number]): void {
  const serial = solveSerially(height, width, steps);
  const { cells, stride } = serial.plate;
  const equal = plate.every((value, at) => value === cells[(Math.floor(at / width) + 1) * stride + 1 + (at % width)]);
  if (equal && residual === serial.residual) {
    say('verified: equal to a serial run, bit by bit');
  } else {
    process.exitCode = 1;
    process.stderr.write('heat: the result differs from that of a serial run\n');
  }
}
