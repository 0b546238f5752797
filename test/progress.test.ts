/**
 * Independent progress: a started collective finishes while the main thread is blocked in a computation; in 'manual'
 * mode it does not, unless its sends were driven inside start.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { BRIEF } from './helpers.js';
import { firstTests } from './support/first-tests.js';

/** Longer than ranks can be apart when they start; the sends go on as soon as the receiver is there. Microseconds. */
const PATIENT = '20000000';

/**
 * Over TCP the kernel's buffers hold what nobody reads, so in 'manual' mode the first test finds much, little or all.
 */
const SHOWS_IN_MANUAL = process.env['NBC_TRANSPORT'] !== 'tcp';

describe('progress during a computation', () => {
  for (const size of [2, 4]) {
    for (const memory of ['plain', 'alloc']) {
      it(`goes on by itself: ${size} ranks, ${memory} buffers`, async () => {
        assert.deepEqual(await firstTests(size, {}, memory), Array(size).fill(true));
      });
    }
    if (BRIEF && size > 2) continue;
    it(`goes on by itself: ${size} ranks, without cross-memory attach`, async () => {
      assert.deepEqual(await firstTests(size, { NBC_CROSS_MEMORY: 'off' }), Array(size).fill(true));
    });
    for (const memory of BRIEF ? ['plain'] : ['plain', 'alloc']) {
      it(`goes on by itself in a reduction: ${size} ranks, ${memory} buffers`, async () => {
        assert.deepEqual(await firstTests(size, {}, memory, 50, 'iallreduce'), Array(size).fill(true));
      });
    }
    it(`goes on by itself: ${size} ranks, without test-on-init`, async () => {
      assert.deepEqual(await firstTests(size, { NBC_TEST_ON_INIT: '0' }), Array(size).fill(true));
    });
    if (SHOWS_IN_MANUAL) {
      it(`does not in 'manual' mode: ${size} ranks`, async () => {
        assert.deepEqual(await firstTests(size, { NBC_PROGRESS: 'manual' }), Array(size).fill(false));
      });
      it(`does not in 'manual' mode, in a reduction: ${size} ranks`, async () => {
        const first = await firstTests(size, { NBC_PROGRESS: 'manual' }, 'plain', 50, 'iallreduce');
        assert.deepEqual(first, Array(size).fill(false));
      });
    }
  }
  if (SHOWS_IN_MANUAL) {
    // With alloc() buffers, where the sender can always do all of the copying.
    it("is covered by wait-on-send in 'manual' mode", async () => {
      const env = { NBC_PROGRESS: 'manual', NBC_WAIT_ON_SEND: PATIENT };
      assert.deepEqual(await firstTests(2, env, 'alloc'), [true, true]);
    });
    it("is covered by startall in 'manual' mode", async () => {
      const env = { NBC_PROGRESS: 'manual', NBC_STARTALL: PATIENT };
      assert.deepEqual(await firstTests(2, env, 'alloc'), [true, true]);
      assert.deepEqual(await firstTests(4, env, 'alloc'), [true, true, true, true]);
    });
  }

  it('is made under the priority that the user chose', () => {
    const program = `
      import { readdirSync, readFileSync } from 'node:fs';
      import { init } from 'node-nbc';
      const world = await init();
      const threads = () => readdirSync('/proc/self/task').map((id) => readFileSync('/proc/self/task/' + id + '/stat', 'latin1'));
      let progress; // it takes its name when it runs for the first time
      while (!progress) progress = threads().find((stat) => stat.includes('nbc-progress'));
      console.log(progress.slice(progress.lastIndexOf(')') + 2).split(' ')[16]);
      await world.close();`;
    const command = ['-n', '7', process.execPath, '--input-type=module', '-e', program];
    const { stdout, stderr } = spawnSync('nice', command, { encoding: 'utf8' });
    const own = readFileSync('/proc/self/stat', 'latin1');
    const nice = Math.min(19, Number(own.slice(own.lastIndexOf(')') + 2).split(' ')[16]) + 7);
    assert.equal(stdout, `${nice}\n`, stderr);
  });
});
