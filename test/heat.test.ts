/** The heat example: its parts by themselves, and the whole program on several ranks. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { decode } from 'fast-png';
import { relax, relaxEdges, relaxInner } from '../examples/heat/jacobi.js';
import { blockAt, HOT, partOf, Plate } from '../examples/heat/plate.js';
import { solveSerially } from '../examples/heat/serial.js';
import { BRIEF } from './helpers.js';
import { run } from './support/commands.js';
import { ROOT } from './support/launch.js';

const MAIN = join(ROOT, 'out/examples/heat/main.js');
const NBCRUN = join(ROOT, 'dist/cli/nbcrun.js');

describe('examples/heat', () => {
  let folder: string;
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'nbc-heat-'));
  });
  after(() => rmSync(folder, { recursive: true, force: true }));

  it('cuts a plate into blocks that cover each cell once', () => {
    for (const [size, dims] of [
      [
        [7, 5],
        [3, 2],
      ],
      [
        [4, 4],
        [4, 1],
      ],
      [
        [100, 3],
        [7, 3],
      ],
    ]) {
      const owners = new Uint8Array(size[0] * size[1]);
      for (let y = 0; y < dims[0]; y++) {
        for (let x = 0; x < dims[1]; x++) {
          const { row, column, height, width } = blockAt(size, dims, [y, x]);
          for (let i = 0; i < height * width; i++)
            owners[(row + Math.floor(i / width)) * size[1] + column + (i % width)]++;
        }
      }
      assert(owners.every((count) => count === 1));
    }
    assert.deepEqual(
      [partOf(10, 3, 0), partOf(10, 3, 1), partOf(10, 3, 2)],
      [
        [0, 3],
        [3, 3],
        [6, 4],
      ],
    );
  });

  it('computes each cell once, whatever the shape of a block', () => {
    for (const [height, width] of [
      [1, 1],
      [1, 5],
      [2, 2],
      [5, 1],
      [3, 3],
      [6, 4],
    ]) {
      const from = new Plate(height, width, true);
      from.cells.forEach((_, at) => (from.cells[at] = Math.sin(at)));
      const [whole, parts] = [new Plate(height, width, true), new Plate(height, width, true)];
      const residual = relax(from, whole, [1, height], [1, width]);
      assert.equal(Math.max(relaxInner(from, parts), relaxEdges(from, parts)), residual);
      assert.deepEqual(parts.cells, whole.cells);
    }
  });

  it('converges to temperatures that are the means of their neighbours', () => {
    const { plate, residual } = solveSerially(9, 9, 2000);
    assert(residual < 1e-12);
    assert(plate.cells[plate.stride + 5] > plate.cells[8 * plate.stride + 5]);
    assert(plate.cells.every((value) => value >= 0 && value <= HOT));
    // The mean over the four ways of turning the plate is a quarter of the hot edge's temperature.
    assert(Math.abs(plate.cells[5 * plate.stride + 5] - HOT / 4) < 1e-9);
  });

  const heat = (ranks: number, ...args: string[]) =>
    run(process.execPath, [NBCRUN, '-n', String(ranks), MAIN, '--output', join(folder, 'heat.png'), ...args]);

  for (const ranks of BRIEF ? [1, 4] : [1, 2, 3, 4, 6]) {
    it(`is equal to a serial run on ${ranks} ranks`, async () => {
      const { code, stdout, stderr } = await heat(ranks, '--size', '41x37', '--steps', '120', '--tolerance', '0');
      assert.equal(code, 0, stdout + stderr);
      assert.equal(stdout.match(/^verified: equal to a serial run/gm)?.length, 2, stdout);
      assert.match(stdout, /^blocking: 120 steps/m);
      const { width, height, channels, data } = decode(readFileSync(join(folder, 'heat.png')));
      assert.deepEqual([width, height, channels], [37, 41, 3]);
      assert(data[3 * 18] > data[3 * (40 * 37 + 18)], 'the upper edge is hotter');
    });
  }

  it('stops when nothing changes any more, on all ranks after the same step', async () => {
    const { code, stdout, stderr } = await heat(4, '--size', '12', '--steps', '100000', '--tolerance', '0.01');
    assert.equal(code, 0, stdout + stderr);
    const [, steps] = /nonblocking: (\d+) steps/.exec(stdout)!;
    assert(Number(steps) > 20 && Number(steps) < 1000, stdout);
    assert.match(stdout, /verified/);
  });

  it('says what is wrong with its arguments', async () => {
    const { code, stderr } = await heat(4, '--size', '1x1');
    assert.notEqual(code, 0);
    assert.match(stderr, /larger than the plate/);
    assert.match((await heat(2, '--size', 'large')).stderr, /Expected two numbers/);
  });
});
