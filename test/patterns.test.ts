/**
 * bench/patterns on shared memory: what it plans, that every row is there and can be true, and that nothing outlives
 * it. No test asserts a time.
 */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { best, faults, type Row } from '../bench/patterns/row.js';
import { plan, SWEEPS } from '../bench/patterns/sweeps.js';
import { skip } from './helpers.js';
import { run as runCommand } from './support/commands.js';
import { type End, ROOT } from './support/launch.js';
import { LIMIT_S } from './support/limit.js';
import { kill, processesWith } from './support/processes.js';
import { until } from './support/until.js';

const DRIVER = join(ROOT, 'out/bench/patterns/patterns.js');
const PROGRAM = join(ROOT, 'build/patterns/patterns');

const driver = (...args: string[]): Promise<End> =>
  runCommand(process.execPath, [DRIVER, ...args], {}, { limitS: LIMIT_S.long });

describe('bench/patterns', () => {
  let folder: string;
  let rows: ({ sweep: string } & Row)[];

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'nbc-patterns-'));
    const json = join(folder, 'rows.json');
    const { code: status, stderr } = await driver('--quick', '--json', json, '--svg', join(folder, 'plots'));
    assert.equal(status, 0, stderr);
    rows = JSON.parse(readFileSync(json, 'utf8')) as typeof rows;
  });
  after(() => rmSync(folder, { recursive: true, force: true }));

  describe('on shared memory', () => {
    it('gives every row that was planned, in order, and each can be true', () => {
      const planned = SWEEPS.flatMap((sweep) => plan('shm', sweep, true, 0));
      assert.equal(rows.length, planned.length);
      for (const [i, { sweep, case: wanted }] of planned.entries()) {
        const { sweep: named, ...row } = rows[i];
        assert.equal(named, sweep);
        assert.deepEqual(faults(row, wanted), []);
      }
    });

    it('never sees the end of a message before its front', () => {
      for (const row of rows) assert.equal(row.torn, 0);
    });

    it('draws each sweep', () => {
      const plots = join(folder, 'plots');
      assert.deepEqual(readdirSync(plots).sort(), ['shm-clients.svg', 'shm-empty.svg', 'shm-size.svg']);
      for (const name of readdirSync(plots)) {
        const svg = readFileSync(join(plots, name), 'utf8');
        assert.match(svg, /^<svg [^]*<\/svg>\s*$/);
        assert.match(svg, /requests\/s/);
        assert.doesNotMatch(svg, /NaN/);
      }
    });

    it('answers every client of a dispatcher with more clients than workers, and messages without a front', async () => {
      for (const words of [
        ['design=dispatcher', 'clients=5', 'workers=2', 'response_bytes=16384'],
        ['request_bytes=8', 'response_bytes=8', 'clients=3', 'empty_pct=50'],
      ]) {
        const settings = ['processors=one', 'warmup_ms=1', 'measure_ms=5', ...words];
        const { code, stdout, stderr } = await runCommand(PROGRAM, settings);
        assert.equal(code, 0, stderr);
        assert.deepEqual(faults(JSON.parse(stdout) as Row, {}), []);
      }
    });
  });

  describe('the plan', () => {
    const cases = (sweep: (typeof SWEEPS)[number]) => plan('verbs', sweep, false, 512).map((planned) => planned.case);
    const values = (sweep: (typeof SWEEPS)[number], name: keyof Row) => [
      ...new Set(cases(sweep).map((each) => each[name as keyof typeof each])),
    ];

    it('has all four combinations, both designs, and 1, 2, 4 and 7 clients', () => {
      assert.equal(cases('clients').length, 4 * 2 * 4);
      assert.deepEqual(values('clients', 'clients'), [1, 2, 4, 7]);
    });

    it('has mailboxes that are empty only where there are mailboxes', () => {
      assert.deepEqual(values('empty', 'request'), ['write']);
      assert.deepEqual(values('empty', 'empty_pct').slice(0, 5), [0, 50, 80, 90, 95]);
    });

    it('takes inline data up to what the device takes, and signals down to one of 64', () => {
      assert.deepEqual(values('inline', 'inline_bytes'), [0, 64, 128, 256, 512]);
      assert.deepEqual(values('inline', 'request_bytes'), [8, 16, 32, 64, 128, 256, 512, 1024]);
      const small = plan('verbs', 'inline', false, 100).map((planned) => planned.case.inline_bytes);
      assert.deepEqual([...new Set(small)], [0, 64, 100]);
      assert.deepEqual(values('signal', 'signal_every'), [1, 2, 4, 8, 16, 32, 64]);
    });

    it('leaves out of shared memory what it has not', () => {
      const all = SWEEPS.flatMap((sweep) => plan('shm', sweep, false, 0));
      assert(all.length > 0);
      for (const { sweep, case: each } of all) {
        assert(sweep !== 'inline' && sweep !== 'signal');
        assert.deepEqual([each.request, each.response], ['write', 'write']);
      }
    });
  });

  describe('a row', () => {
    it('is found wrong if something is missing, unknown, not what was wanted, or cannot be', () => {
      const { sweep: _, ...row } = rows[0];
      const { median_us: __, ...lacking } = row;
      assert.match(faults(lacking as Row, {}).join(), /median_us is undefined/);
      assert.match(faults({ ...row, more: 1 } as Row, {}).join(), /nobody knows more/);
      assert.match(faults(row, { clients: 9 }).join(), /clients is 1, not 9/);
      assert.match(faults({ ...row, requests_least: 0 }, {}).join(), /a client has no request/);
      assert.match(faults({ ...row, p99_us: row.median_us / 2 }, {}).join(), /not in order/);
      assert.match(faults({ ...row, mailboxes: 3 }, {}).join(), /3 mailboxes/);
    });

    it('is found wrong if work requests were inlined or signalled as was not asked for', () => {
      const { sweep: _, ...shm } = rows[0];
      const row: Row = { ...shm, requests: 100, requests_least: 100, looks: 100, inline_bytes: 64, signal_every: 4 };
      const posted = { work_requests: 240, inlined: 240, signalled: 58 };
      const limits = { request_bytes: 64, response_bytes: 64 };
      assert.deepEqual(faults({ ...row, ...limits, ...posted }, {}), []);
      assert.match(faults({ ...row, ...limits, ...posted, inlined: 120 }, {}).join(), /120 of 240 .*inlined/);
      assert.match(faults({ ...row, ...limits, ...posted, response_bytes: 128 }, {}).join(), /240 of 240 .*inlined/);
      assert.match(faults({ ...row, ...limits, ...posted, signalled: 61 }, {}).join(), /61 of 240 signalled/);
      assert.match(faults({ ...row, ...limits, ...posted, signalled: 50 }, {}).join(), /50 of 240 signalled/);
    });

    it('is the fastest of several', () => {
      const of = (requests_per_s: number): Row => ({ ...rows[0], requests_per_s });
      assert.equal(best([of(1), of(5), of(3)]).requests_per_s, 5);
    });
  });

  describe('what cannot be measured', () => {
    it('is refused with a reason', async () => {
      for (const [args, reason] of [
        [['--sweep', 'colour'], /expected some of size, clients/],
        [['--sweep', 'inline'], /shared memory has no inline/],
        [['--repeat', '0'], /not a positive whole number/],
      ] as const) {
        const { code: status, stderr } = await driver(...args);
        assert.notEqual(status, 0);
        assert.match(stderr, reason);
      }
    });

    it('is one line for each case that is wrong, and the others are measured', () => {
      const lines = ['clients=0', 'request=send', 'request_bytes=12', 'measure_ms=1 processors=one', 'colour=red'];
      const { status, stdout } = spawnSync(PROGRAM, ['-'], { encoding: 'utf8', input: lines.join('\n') });
      assert.equal(status, 0);
      const answers = stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as { error?: string });
      const expected = [/from 1 to 64/, /no send/, /a multiple of 8/, undefined, /NAME is one of/];
      assert.equal(answers.length, expected.length);
      for (const [i, reason] of expected.entries()) {
        if (reason === undefined) assert.equal(answers[i].error, undefined);
        else assert.match(answers[i].error ?? '', reason);
      }
    });

    it('says what is missing where there is no RDMA device', async function () {
      // This test is about machines without one.
      const devices = existsSync('/sys/class/infiniband') ? readdirSync('/sys/class/infiniband') : [];
      if (devices.length > 0) skip(this, `this machine has the RDMA device ${devices[0]}`);
      const { code: status, stderr } = await driver('--transport', 'verbs');
      assert.equal(status, 1);
      assert.match(stderr, /no RDMA device|libibverbs/);
    });
  });

  it('ends with a reason, and without leaving anything, when a process of a case is killed', async () => {
    const mark = `NBC_TEST_MARK=patterns-${process.pid}`;
    const [name, value] = mark.split('=');
    const child = spawn(PROGRAM, ['clients=3', 'processors=one', 'measure_ms=600000'], {
      env: { ...process.env, [name]: value },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const said = text(child.stderr);
    try {
      // itself, the responder, three clients
      await until('five processes', () => processesWith(mark).length === 5);
      const victim = processesWith(mark).find((pid) => pid !== child.pid)!;
      const exited = once(child, 'exit');
      kill(victim);
      assert.deepEqual(await exited, [1, null]);
      assert.match(await said, /a process of the case ended unexpectedly/);
      await until('none is left', () => processesWith(mark).length === 0);
    } finally {
      processesWith(mark).forEach(kill);
    }
  });
});
