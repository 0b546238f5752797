/** What nbctop shows of a running job, and what programs see of themselves: docs/seeing.md. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance, PerformanceObserver } from 'node:perf_hooks';
import { init, NbcError, type OperationEvent, TimeoutError } from 'node-nbc';
import type { Row } from '#library/cli/nbctop/table.js';
import { program, skip } from './helpers.js';
import { run } from './support/commands.js';
import { type End, Launch, ROOT } from './support/launch.js';
import { kill } from './support/processes.js';
import { until } from './support/until.js';

const NBCTOP = join(ROOT, 'dist/cli/nbctop.js');

interface Line {
  job: number;
  size: number;
  ranks: Row[];
}

describe('nbctop', () => {
  let folder: string;
  let one: Launch | undefined;
  beforeEach(() => (folder = mkdtempSync(join(tmpdir(), 'nbc-test-'))));
  afterEach(() => {
    one?.cleanUp();
    one = undefined;
    rmSync(folder, { recursive: true, force: true });
  });

  /** Its ranks by rank: their processes. */
  async function start(scenario: string): Promise<number[]> {
    one = new Launch(['-n', '2', program('watched'), scenario], { env: { NBC_MONITOR: folder } });
    return one.ready(2);
  }
  const top = (...args: string[]): Promise<End> =>
    run(process.execPath, [NBCTOP, '--dir', folder, '--interval', '0.2', ...args]);
  async function lines(...args: string[]): Promise<Line[]> {
    const { code, stdout, stderr } = await top('--json', ...args);
    assert.equal(code, 0, stderr);
    return stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Line);
  }

  it('says what a rank waits for, and that another one computes', async () => {
    const pids = await start('stuck');
    await until('rank 0 is in wait()', async () => (await lines('--count', '1'))[0].ranks[0].caller === 'waits');
    const found = await lines('--count', '2');
    assert.equal(found.length, 2);
    for (const { job, size, ranks } of found) {
      assert.deepEqual([job, size], [one!.pid, 2]);
      assert.deepEqual(
        ranks.map(({ rank, process, caller, pending, peers }) => ({ rank, process, caller, pending, peers })),
        [
          { rank: 0, process: pids[0], caller: 'waits', pending: 1, peers: [1] },
          { rank: 1, process: pids[1], caller: 'program', pending: 0, peers: [] },
        ],
      );
      assert.equal(ranks[0].operations![0].title, 'a message');
      const [waits, computes] = ranks.map(({ rates }) => rates!);
      // It slept before anybody looked.
      assert(waits.waiting > 0.9 && waits.waiting <= 1, `${waits.waiting}`);
      assert.deepEqual([computes.waiting, computes.operations, waits.bytesReceived], [0, 0, 0]);
    }
    const { stdout } = await top('--count', '1', `${pids[1]}`);
    assert.match(stdout, new RegExp(`^job ${one!.pid}: 2 ranks\nrank  process  is in .*\n`));
    assert.match(stdout, /^ +0 +\d+ +wait\(\) .* rank 1: a message, for \d+\.\d s$/m);
  });

  it('shows operations and bytes each second, and ends with the job', async () => {
    const [, killed] = await start('traffic');
    const [, { ranks }] = await lines('--count', '2');
    for (const { rates, counters } of ranks) {
      assert(rates!.operations > 0 && counters!.started > 0);
      assert(rates!.waiting > 0 && rates!.waiting < 1, `${rates!.waiting}`);
      // Operations of 1000 and of 100,000 bytes in turn.
      for (const bytes of [rates!.bytesSent, rates!.bytesReceived]) {
        assert(bytes / rates!.operations > 25_000 && bytes / rates!.operations < 100_000, JSON.stringify(rates));
      }
    }
    const watching = spawn(process.execPath, [NBCTOP, '--dir', folder, '--interval', '0.1', '--json']);
    await once(watching.stdout, 'data');
    kill(killed);
    const [code] = (await once(watching, 'exit')) as [number];
    assert.equal(code, 0);
    await one!.end;
    assert.deepEqual(readdirSync(folder), [], 'nbcrun removes what a rank that was killed has left');
  });

  it('says that a process is stopped, and which jobs there are', async () => {
    const [, stopped] = await start('traffic');
    const other = new Launch(['-n', '2', program('watched'), 'traffic'], { env: { NBC_MONITOR: folder } });
    try {
      await other.ready(2);
      const { code, stderr } = await top();
      assert.equal(code, 1);
      assert.match(stderr, new RegExp(`several jobs run; say which:\n(.*\n)*  nbctop ${one!.pid}   2 ranks of .*node`));
    } finally {
      other.cleanUp();
      await other.end;
    }
    // Stopped between its first sample and its last.
    const watching = spawn(process.execPath, [NBCTOP, '--dir', folder, '--interval', '0.1', '--json', `${one!.pid}`]);
    let text = '';
    watching.stdout.on('data', (piece: Buffer) => (text += piece.toString()));
    await until('a sample', () => text.includes('\n'));
    process.kill(stopped, 'SIGSTOP');
    await until('rank 1 does not answer', () => text.includes('"rank":1,"size":2,"caller":"stopped"'));
    watching.kill();
  });

  it('shows ranks that are threads: those of several processes, and each job of runRanks() by itself', async () => {
    const env = { NBC_MONITOR: folder };
    one = new Launch(['-n', '4', '--threads=2', program('watched'), 'stuck'], { env });
    const pids = await one.ready(4);
    const [{ job, ranks }] = await lines('--count', '1', `${pids[3]}`);
    assert.equal(job, one.pid);
    assert.deepEqual(
      ranks.map(({ rank, process }) => [rank, process]),
      [...pids.entries()],
    );
    assert.equal(readdirSync(folder).length, 4);
    kill(pids[0]);
    await one.end;
    assert.deepEqual(readdirSync(folder), [], 'nbcrun removes what threads of a process that was killed have left');

    one = new Launch(['-n', '1', program('stuck'), 'threads'], { env });
    await until('both jobs wait', () => one!.stdout.match(/ready/g)?.length === 5);
    const { stderr } = await top();
    const jobs = [...stderr.matchAll(/^ {2}nbctop (\d+) {3}(\d) ranks of .*node/gm)];
    assert.deepEqual(jobs.map(([, , size]) => size).sort(), ['2', '3'], stderr);
    for (const [, number, size] of jobs) {
      const [found] = await lines('--count', '1', number);
      assert.deepEqual([found.size, found.ranks.length], [Number(size), Number(size)]);
      assert(found.ranks.every(({ process }) => process === found.ranks[0].process));
    }
  });

  it('is not kept from its work, nor the ranks, by what else connects', async () => {
    const [pid] = await start('traffic');
    const path = join(folder, `rank-${pid}.sock`);
    const descriptors = (): number => readdirSync(`/proc/${pid}/fd`).length;
    const before = descriptors();
    const sockets: Socket[] = [];
    for (let i = 0; i < 300; i++) {
      const socket = connect(path, () => socket.write(Buffer.alloc(50_000, i)));
      socket.on('error', () => undefined);
      socket.pause();
      sockets.push(socket);
    }
    const [{ ranks }] = await lines('--count', '1');
    assert.equal(ranks.length, 2);
    assert(descriptors() <= before + 1, 'one client at a time');
    for (const socket of sockets) socket.destroy();
    const first = ranks.find(({ rank }) => rank === 0)?.counters?.started ?? 0;
    await until('operations go on', async () => {
      const [now] = await lines('--count', '1');
      return (now.ranks[0].counters?.started ?? 0) > first;
    });
  });

  it('has sockets for nobody but the user', async function () {
    const inner = join(folder, 'made');
    one = new Launch(['-n', '2', program('watched'), 'stuck'], { env: { NBC_MONITOR: inner } });
    const [pid] = await one.ready(2);
    const path = join(inner, `rank-${pid}.sock`);
    assert.equal(statSync(inner).mode & 0o777, 0o700);
    assert.equal(statSync(path).mode & 0o777, 0o600);
    if (process.getuid!() !== 0) skip(this, 'only root can be another user');
    const asked = (): Promise<string> => {
      const code = `require('net').connect(${JSON.stringify(path)}).on('error', e => console.log(e.code))
        .on('data', () => console.log('data')).on('end', () => console.log('end'))`;
      const child = spawn(process.execPath, ['-e', code], { uid: 65534, gid: 65534, cwd: '/', stdio: 'pipe' });
      let text = '';
      child.stdout.on('data', (piece: Buffer) => (text += piece.toString()));
      return once(child, 'close').then(() => text);
    };
    assert.equal(await asked(), 'EACCES\n');
    // Though the files let it: the rank looks who connects.
    chmodSync(folder, 0o755);
    chmodSync(inner, 0o755);
    chmodSync(path, 0o666);
    assert.equal(await asked(), 'end\n');
    const { code, stderr } = await run(process.execPath, [NBCTOP, '--dir', inner]);
    assert.equal(code, 1);
    assert.match(stderr, /made is open to other users/);
  });

  it('names a folder that cannot be used, and does without one that nobody has named', async () => {
    chmodSync(folder, 0o755);
    const env = { NBC_MONITOR: folder };
    const named = await run(process.execPath, [program('watched'), 'closes'], env);
    assert.match(named.stderr, /OptionError: monitor: cannot be used: .* is open to other users/);
    const other = { NBC_MONITOR: 'on', XDG_RUNTIME_DIR: join(folder, 'none') };
    mkdirSync(join(folder, 'none/node-nbc'), { recursive: true });
    chmodSync(join(folder, 'none/node-nbc'), 0o755);
    const { code, stderr } = await run(process.execPath, [program('watched'), 'closes'], other);
    assert.deepEqual([code, stderr], [0, '']);
  });

  it('finds a rank until it closes, and removes what dead processes have left', async () => {
    const { stdout } = await run(process.execPath, [program('watched'), 'closes'], { NBC_MONITOR: folder });
    assert.match(stdout, /report {"before":true,"after":false}/);
    const code = `const { init } = await import('node-nbc'); await init(); process.kill(process.pid, 'SIGKILL')`;
    const env = { NBC_MONITOR: folder };
    await run(process.execPath, ['--input-type=module', '-e', code], env, { cwd: ROOT });
    assert.equal(readdirSync(folder).length, 1);
    const none = await top();
    assert.equal(none.code, 1);
    assert.match(none.stderr, /no job runs that can be shown/);
    assert.deepEqual(readdirSync(folder), []);
  });

  it('says what is wrong with its arguments', async () => {
    for (const [args, expected] of [
      [['--interval', '30'], /a number of seconds from 0\.1 to 10/],
      [['--count', '0'], /a whole number from 1/],
      [['nobody'], /a whole number from 1/],
      [['1'], /no job with process 1 has its sockets/],
    ] as const) {
      const { code, stderr } = await top(...args);
      assert.equal(code, 1);
      assert.match(stderr, expected);
    }
  });
});

describe('a program that looks at itself', () => {
  it('hears of operations on a channel, and can make entries of perf_hooks of them', async () => {
    const events: OperationEvent[] = [];
    const hear = (event: unknown): void => {
      const { operation, start, end, ...detail } = event as OperationEvent;
      events.push(event as OperationEvent);
      if (end !== undefined) performance.measure(operation, { start, end, detail });
    };
    const entries: string[] = [];
    const observer = new PerformanceObserver((list) => entries.push(...list.getEntries().map(({ name }) => name)));
    observer.observe({ entryTypes: ['measure'] });
    const world = await init();
    try {
      world.ibarrier().wait();
      subscribe('node-nbc:operation', hear);
      const receive = world.irecv(new Uint8Array(8), 0, 1);
      const long = world.irecv(new Uint8Array(8), 0, 2);
      const send = world.isend(new Uint8Array(8), 0, 1);
      await Promise.all([receive, send]);
      world.isend(new Uint8Array(16), 0, 2).wait();
      assert.throws(() => long.wait(), { code: 'ERR_NBC_TRUNCATED' });
      await until('entries', () => entries.length === 4);
      const of = (name: string): string[] =>
        events.filter(({ operation }) => operation === name).map(({ end }) => (end === undefined ? 'start' : 'end'));
      assert.deepEqual(of('isend').sort(), ['end', 'end', 'start', 'start']);
      assert.deepEqual(of('irecv').sort(), ['end', 'end', 'start', 'start']);
      assert(events.every(({ rank, start, end = Infinity }) => rank === 0 && start <= end));
      assert.deepEqual(
        events.filter(({ error }) => error !== undefined).map(({ error }) => error instanceof NbcError && error.code),
        ['ERR_NBC_TRUNCATED'],
      );
      assert.deepEqual(entries.sort(), ['irecv', 'irecv', 'isend', 'isend']);
    } finally {
      unsubscribe('node-nbc:operation', hear);
      observer.disconnect();
      await world.close();
    }
    const heard = events.length;
    const again = await init();
    again.isend(new Uint8Array(8), 0, 1);
    await again.close();
    assert.equal(events.length, heard);
  });

  it('knows how much of its time it waits', async () => {
    const world = await init();
    try {
      assert.deepEqual(world.utilization(), { idle: 0, active: 0, utilization: 0 });
      const never = world.irecv(new Uint8Array(8), 0, 1);
      assert.throws(() => never.wait(100), TimeoutError);
      const waited = world.utilization();
      assert(waited.idle >= 99 && waited.utilization < 1, JSON.stringify(waited));
      const began = performance.now();
      while (performance.now() - began < 50);
      const since = world.utilization(waited);
      assert(since.idle < since.active && since.active >= 49, JSON.stringify(since));
      const now = world.utilization();
      const { idle, active, utilization } = world.utilization(now, waited);
      assert.equal(idle, now.idle - waited.idle);
      assert.equal(utilization, active / (idle + active));
    } finally {
      await world.close();
    }
  });
});
