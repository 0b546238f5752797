/** What a job says that did not end within its limit of time: docs/testing.md. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inFull, runJob } from './helpers.js';
import { run } from './support/commands.js';
import { ROOT } from './support/launch.js';
import { Limit } from './support/limit.js';
import { until } from './support/until.js';

describe('a job that hangs', () => {
  for (const transport of ['shm', 'tcp']) {
    inFull(`is ended, and says what each rank waited for, over ${transport}`, async () => {
      const env = { NBC_TRANSPORT: transport };
      const error = await runJob('hang', { size: 3, env, limitS: 4 }).then(
        () => assert.fail('it ended'),
        (failure: unknown) => failure as Error,
      );
      const [, first, second, third] = error.message.split(/^--- rank \d: .*\n/m);
      assert.match(error.message, /^the job did not end within 4 s\nprocess \d+: .*hang\.js\n {2}thread \d+ \(/);
      assert.match(
        first,
        /^node-nbc: in wait\(\); pending:\n {2}a message, for [\d.]+ s, waits for 1\n {4}rank 1, 8 bytes, tag 3, recv_/,
      );
      assert.match(
        second,
        /^node-nbc: in the .*; pending:\n {2}ialltoall \(\w+\), collective \d+, round \d+ of \d+, for [\d.]+ s, waits/,
      );
      assert.match(second, /^ {4}rank 2, 50000 bytes, tag 0, send_waiting_rtr$/m);
      assert.match(third, /^node-nbc: in the \w+.*, nothing is pending\n/);
    });
  }
});

describe('waiting in a test', () => {
  it('ends when what is awaited is there', async () => {
    let looks = 0;
    assert.equal(await until('three looks', () => (++looks === 3 ? 'seen' : undefined)), 'seen');
  });
});

describe('a limit of time', () => {
  it('is hit when its time has passed, once, unless it was stopped before', async () => {
    let [hits, late] = [0, 0];
    const stopped = new Limit(0.1, () => late++);
    stopped.stop();
    await new Promise<void>((resolve) => {
      new Limit(0.1, () => hits++);
      new Limit(1, resolve);
    });
    assert.deepEqual({ hits, late }, { hits: 1, late: 0 });
  });

  it('ends a test that hangs, and the tests after it run', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'nbc-limit-'));
    try {
      const file = join(folder, 'hangs.cjs');
      const hook = 'afterEach(function () { this.timeout(5000); });';
      const sleeps = "require('node:child_process').spawn('sleep', ['8'], { stdio: 'ignore' });";
      const hangs = `it('hangs', function () { this.timeout(300); ${sleeps} return new Promise(() => {}); });`;
      writeFileSync(file, `${hook} ${hangs} it('passes', () => {});`);
      const mocha = ['node_modules/mocha/bin/mocha.js', '--no-config', '--require', 'scripts/test/mocha-limits.mjs'];
      const args = [...mocha, '--exit', '--reporter', 'dot', file].map((arg) =>
        /^(node_modules|scripts)/.test(arg) ? join(ROOT, arg) : arg,
      );
      const { code, stdout, stderr } = await run(process.execPath, args);
      assert.equal(code, 1, stdout + stderr);
      assert.match(stdout, /1 passing[^]*1 failing[^]*hangs:[^]*it did not end within 0.3 s, counted as on an idle/);
      assert.match(stdout, /process \d+: sleep 8\n +thread \d+ \(sleep\), state S, in the kernel at /);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
