/** What a job says that did not end within its limit of time: docs/testing.md. */
import assert from 'node:assert/strict';
import { runJob } from './helpers.js';
import { until } from './support/until.js';

describe('a job that hangs', function () {
  this.timeout(60_000);

  for (const transport of ['shm', 'tcp']) {
    it(`is ended, and says what each rank waited for, over ${transport}`, async () => {
      const env = { NBC_TRANSPORT: transport };
      const error = await runJob('hang', { size: 3, env, timeoutMs: 4_000 }).then(
        () => assert.fail('it ended'),
        (failure: unknown) => failure as Error,
      );
      const [, first, second, third] = error.message.split(/^--- rank \d: .*\n/m);
      assert.match(error.message, /^the job did not end within 4000 ms\nprocess \d+: .*hang\.js\n {2}thread \d+ \(/);
      const message = 'request \\d+, a message, waits for 1\n {2}rank 1, 8 bytes, tag 3, recv_waiting_eager\n';
      assert.match(first, new RegExp(`^node-nbc: pending, while a thread holds the engine:\n${message}`));
      assert.match(second, /^node-nbc: pending:\nrequest \d+, collective \d+, round \d+ of \d+, waits for \d+\n/);
      assert.match(second, /^ {2}rank 2, 50000 bytes, tag 0, send_waiting_rtr$/m);
      assert.match(third, /^node-nbc: pending: nothing\n/);
    });
  }
});

describe('waiting in a test', function () {
  this.timeout(60_000);

  it('ends when what is awaited is there', async () => {
    let looks = 0;
    assert.equal(await until('three looks', () => (++looks === 3 ? 'seen' : undefined)), 'seen');
  });
});
