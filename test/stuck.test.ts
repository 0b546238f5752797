/** What nbcrun and the watchdog say of a job that is stuck: docs/jobs.md. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { inFull, runJob } from './helpers.js';
import { type Launch, launcher, type LaunchOptions, ROOT } from './support/launch.js';
import { inTerminal, nbcrun, type Typed } from './support/terminal.js';
import { until } from './support/until.js';

const STUCK = fileURLToPath(new URL('./programs/stuck.js', import.meta.url));

describe('a job that is stuck', () => {
  const start = launcher();
  const launch = (size: number, scenario: string, options: LaunchOptions = {}, ...more: string[]): Launch =>
    start(['-n', `${size}`, ...more, STUCK, scenario], options);

  /** Asks by a signal until the report has what is expected: a rank may not have come to the call that hangs. */
  async function report(one: Launch, signal: NodeJS.Signals, expected: RegExp): Promise<string> {
    for (;;) {
      const before = one.stderr.length;
      one.child.kill(signal);
      const text = await until('a report', () => one.stderr.length > before && one.stderr.slice(before));
      if (expected.test(text)) return text;
    }
  }

  const elsewhere = {
    'over auto': { env: { NBC_TRANSPORT: 'auto' }, args: [] },
    'over tcp': { env: { NBC_TRANSPORT: 'tcp' }, args: [] },
    'where ranks are threads of several processes': { env: {}, args: ['--threads=2'] },
  };
  for (const [where, { env, args }] of Object.entries(elsewhere)) {
    it(`says which rank is elsewhere, ${where}`, async () => {
      const one = launch(4, 'elsewhere', { env }, ...args);
      await one.ready(4);
      const arrived =
        /rank 0 is in wait(.*\n)+ +rank 2 is in the event(.*\n)+ +rank 3 is in the event(.*\n)+.*rank 1, which/;
      const text = await report(one, 'SIGUSR2', arrived);
      assert.match(text, /^nbcrun: asked by SIGUSR2; the job at this moment:$/m);
      assert.match(text, /rank 0 is in wait\(\); pending:\n.* iallreduce \(recursive-doubling\), collective 0, round/);
      assert.match(text, /rank 1 is in the program, nothing is pending$/m);
      assert.match(text, /rank [23] is in the event loop, where the program awaits; pending:$/m);
      assert.match(text, /waits? for rank 1, which has nothing pending: it is elsewhere in its program$/m);
    });
  }

  it('names the circle, at Ctrl-\\, and goes on', async () => {
    const one = launch(3, 'circle');
    await one.ready(3);
    const text = await report(one, 'SIGQUIT', /in a circle: 0 -> 1 -> 2 -> 0$/m);
    assert.match(text, /a message, for \d+\.\d s, waits for 1\n.*rank 1, 8 bytes, tag 5, recv_waiting_eager$/m);
    assert.equal(one.child.exitCode, null);
    assert.equal(one.processes().length, 4);
  });

  it('says which rank has not called init(), and which is stopped', async () => {
    const one = launch(3, 'outside');
    const [, , stopped] = await one.ready(3);
    process.kill(stopped, 'SIGSTOP');
    const text = await report(one, 'SIGUSR2', /rank 2 does not answer(.*\n)+.*which has not called init\(\)$/m);
    assert.match(text, /^ {2}rank 1 has not called init\(\)$/m);
    assert.match(text, /^ {2}rank 2 does not answer: it is stopped, or ends$/m);
  });

  it('is described at the first Ctrl-C, which also ends it', async () => {
    const one = launch(2, 'circle');
    await one.ready(2);
    // Longer than a person waits: 2 s.
    await report(one, 'SIGUSR2', /for [2-9]\.\d s, waits/);
    const before = one.stderr.length;
    one.child.kill('SIGINT');
    const { code, stderr } = await one.end;
    assert.equal(code, 130);
    assert.match(
      stderr.slice(before),
      /^nbcrun: interrupted; the job at this moment:\n(.*\n)+.*circle: 0 -> 1 -> 0\n$/,
    );
  });

  describe('at a terminal', () => {
    // Each is typed once the watchdog has found the job stuck, for longer than a person waits: 2 s.
    const stuck = 'makes no step; the job at this moment';
    const env = { NBC_WATCHDOG: '2500ms' };
    const circle = String.raw`; the job at this moment:\n(.*\n)+?.*in a circle: 0 -> 1 -> 0\n`;
    const times = (text: string, output: string): number => output.split(text).length - 1;

    it('is described once at Ctrl-\\, goes on, and is described once more at the Ctrl-C that ends it', async () => {
      const typed: Typed[] = [
        [stuck, '\x1c'],
        ['asked by SIGQUIT', '\x03'],
      ];
      const { code, output } = await inTerminal(typed, nbcrun('-n', '2', STUCK, 'circle'), env);
      assert.equal(code, 130, output);
      assert.match(output, new RegExp(`nbcrun: asked by SIGQUIT${circle}(.*\\n)*.*nbcrun: interrupted${circle}`));
      for (const why of ['asked by', 'interrupted']) assert.equal(times(why, output), 1, output);
    });

    it('ends at the second Ctrl-C where its ranks do not end at the first, which describes it', async () => {
      const typed: Typed[] = [
        [stuck, '\x03'],
        ['rank 0 goes on', ''],
        ['rank 1 goes on', '\x03'],
      ];
      const { code, output } = await inTerminal(typed, nbcrun('-n', '2', STUCK, 'refuses'), env);
      assert.equal(code, 130, output);
      assert.match(output, new RegExp(`nbcrun: interrupted${circle}`));
      assert.equal(times('interrupted', output), 1, output);
    });
  });

  it('is described when --timeout ends it', async () => {
    const one = launch(2, 'circle', {}, '--timeout', '6');
    const { code, stderr } = await one.end;
    assert.equal(code, 124);
    assert.match(stderr, /did not end within 6 s \(--timeout\); ending 2 ranks: 0, 1\nnbcrun: out of time; the job at/);
  });

  it('is described once by itself where there is a watchdog, and a job that makes steps is not', async () => {
    const stuck = launch(3, 'elsewhere', { env: { NBC_WATCHDOG: '500ms' } });
    await until('its report', () => stuck.stderr.includes('elsewhere in its program'));
    assert.match(stuck.stderr, /^nbcrun: an operation makes no step; the job at this moment:$/m);
    const steps = await launch(2, 'steps', { env: { NBC_WATCHDOG: '20s' } }).end;
    assert.deepEqual([steps.code, steps.stderr], [0, '']);
    assert.equal(stuck.stderr.match(/at this moment/g)!.length, 1);
  });

  it('is described once, though the watchdogs of many ranks see it, and again when it is stuck later', async () => {
    const one = launch(12, 'again', { env: { NBC_WATCHDOG: '700ms' } });
    const reports = (): string[] => one.stderr.split('nbcrun: an operation makes no step; the job at').slice(1);
    for (const [index, rank] of [1, 2].entries()) {
      await until('its report', () => reports().length > index);
      // All watchdogs have looked, also those of the ranks that came last.
      await sleep(3000);
      assert.equal(reports().length, index + 1, one.stderr);
      const awaited = new RegExp(`^ {2}.* waits? for rank ${rank}, which has nothing pending: it is elsewhere`, 'm');
      assert.match(reports()[index], awaited);
      one.child.kill('SIGUSR1');
    }
  });

  it('is described rank by rank, each job once, where ranks are threads that runRanks() started', async () => {
    const one = launch(1, 'threads', { env: { NBC_WATCHDOG: '500ms' } });
    const told = /^node-nbc: no step for as long as the watchdog waits:\n(?: {2,}.*\n)+/gm;
    const reports = await until('two reports', () => {
      const found = one.stderr.match(told) ?? [];
      return found.length === 2 && found.every((text) => text.endsWith('recv_waiting_eager\n')) && found;
    });
    // One of them may still be on its way to its event loop.
    const ranks = reports.map((text) => text.match(/^ {2}rank \d is /gm)!.length);
    assert.deepEqual(ranks.sort(), [2, 3]);
  });

  it('is looked for where all threads have ended that had the addon, and the process goes on', async () => {
    const worker = `import('node-nbc').then(async ({ init }) => { await (await init()).close(); })`;
    const code = `const { Worker } = require('node:worker_threads');
      const worker = new Worker(${JSON.stringify(worker)}, { eval: true });
      worker.on('exit', () => process.kill(process.pid, 40));
      process.stdin.resume();`;
    const env = { ...process.env, NBC_REPORT_SIGNAL: '40', NBC_WATCHDOG: '500ms' };
    const child = spawn(process.execPath, ['-e', code], { cwd: ROOT, env, stdio: ['pipe', 'ignore', 'pipe'] });
    const ended = once(child, 'exit');
    let stderr = '';
    child.stderr.on('data', (text: Buffer) => (stderr += text.toString()));
    await until('a report, or its end', () => stderr.includes('\n') || child.exitCode !== null || child.signalCode);
    child.stdin.end();
    assert.deepEqual(await ended, [0, null], stderr);
    assert.equal(stderr, 'node-nbc: no world is open\n');
  });

  inFull('has a report of each rank where nbcrun did not start it', async () => {
    const env = { NBC_WATCHDOG: '500ms' };
    const error = await runJob('stuck', { size: 2, args: ['circle'], env, limitS: 5 }).then(
      () => assert.fail('it ended'),
      (failure: unknown) => failure as Error,
    );
    const own = /node-nbc: no step for as long as the watchdog waits: in wait\(\); pending:\n {2}a message, for/g;
    assert.equal(error.message.match(own)?.length, 2, error.message);
  });
});
