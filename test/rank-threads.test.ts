/** nbcrun --threads: whole programs whose ranks are threads, of one process or of several, on one host or on two. */
import assert from 'node:assert/strict';
import { closeSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { native } from '#library/native.js';
import { openLocalStore } from '#library/transport/store/local.js';
import { init } from 'node-nbc';
import { inFull } from './helpers.js';
import { allowedHere } from './support/allowed-here.js';
import { type End, launcher, PROGRAM } from './support/launch.js';
import { until } from './support/until.js';

/** What ranks do here; other scenarios are those of the tests of nbcrun. */
const THREAD = fileURLToPath(new URL('./support/programs/thread.js', import.meta.url));

interface Told {
  rank: number;
  size: number;
  pid: number;
  stats: Record<string, number | undefined>;
}

const lines = (text: string): string[] => text.split('\n').filter((line) => line !== '');
const all = (told: readonly Told[], counter: string): number =>
  told.reduce((sum, { stats }) => sum + (stats[counter] ?? 0), 0);

const checkPlaces = (told: readonly Told[]): void =>
  assert.deepEqual(
    told.map(({ rank, size }) => [rank, size]),
    [0, 1, 2, 3].map((rank) => [rank, 4]),
  );

describe('nbcrun --threads', () => {
  const launch = launcher();

  const toldBy = ({ code, stdout, stderr }: Pick<End, 'code' | 'stdout' | 'stderr'>): Told[] => {
    assert.equal(stderr, '');
    assert.equal(code, 0);
    return lines(stdout)
      .map((line) => JSON.parse(line) as Told)
      .sort((one, other) => one.rank - other.rank);
  };

  it('makes one process of all ranks, which copy from one another', async () => {
    const told = toldBy(await launch(['-n', '4', '--threads', THREAD, 'sums']).end);
    checkPlaces(told);
    assert.equal(new Set(told.map(({ pid }) => pid)).size, 1);
    assert(all(told, 'mappedBytes') > 0);
    assert.equal(all(told, 'crossMemoryBytes') + all(told, 'stagedBytes'), 0);
  });

  it('copies large messages of a process from both ends', async () => {
    const told = toldBy(await launch(['-n', '4', '--threads', THREAD, 'blocks']).end);
    assert(all(told, 'helpedPieces') > 0);
  });

  it('makes processes of so many ranks, which are one job', async () => {
    const told = toldBy(await launch(['-n', '4', '--threads=2', THREAD, 'sums']).end);
    const pids = told.map(({ pid }) => pid);
    assert.deepEqual([pids[0] === pids[1], pids[2] === pids[3], pids[1] === pids[2]], [true, true, false]);
    assert(all(told, 'mappedBytes') > 0);
    assert(all(told, 'crossMemoryBytes') + all(told, 'stagedBytes') > 0);
  });

  it('run all operations rightly, in two processes of two threads', async () => {
    const told = toldBy(await launch(['-n', '4', '--threads=2', THREAD, 'collectives']).end);
    checkPlaces(told);
    assert.equal(new Set(told.map(({ pid }) => pid)).size, 2);
    for (const { stats } of told) assert(stats.eagerSent! > 0 && stats.rtrSent! > 0 && stats.mappedBytes! > 0);
    assert(all(told, 'crossMemoryBytes') + all(told, 'stagedBytes') > 0);
  });

  describe('--join: so are processes that something else starts, on two hosts', () => {
    /** Plays a scenario; returns what the ranks of each host have told. */
    const play = async (scenario: string): Promise<Told[][]> => {
      const store = await openLocalStore(4, 60_000);
      try {
        const hosts = [0, 1].map((rank) =>
          launch(['--join', '--threads=2', THREAD, scenario], {
            env: { ...store.environment, NBC_RANK: `${rank}`, NBC_SIZE: '2', NBC_HOST: `host ${rank}` },
          }),
        );
        return (await Promise.all(hosts.map((one) => one.end))).map(toldBy);
      } finally {
        store.close();
      }
    };
    const check = (hosts: Told[][]): void => {
      checkPlaces(hosts.flat());
      for (const host of hosts) {
        assert.equal(new Set(host.map(({ pid }) => pid)).size, 1);
        assert(all(host, 'mappedBytes') > 0);
        assert.equal(all(host, 'crossMemoryBytes') + all(host, 'stagedBytes'), 0);
        assert(all(host, 'framesReceived') > 0);
      }
    };

    for (const scenario of ['sums', 'collectives']) it(`and run ${scenario}`, async () => check(await play(scenario)));

    it('and copy large messages of a process from both ends', async () => {
      // Over TCP no receiver helps. So it ends only if pieces between the two threads of a process are copied by both.
      check(await play('blocks'));
    });
  });

  it('loses a process that is stopped, which learns of it when it goes on', async () => {
    const { end } = launch(['-n', '4', '--threads=2', THREAD, 'stop'], { env: { NBC_PEER_TIMEOUT: '1000' } });
    const { stdout, stderr } = await end;
    const lost = 'ERR_NBC_UNREACHABLE ERR_NBC_UNREACHABLE';
    const told = [`0: ${lost}`, `1: ${lost}`, '2: ERR_NBC_COUNTED_LOST', '3: ERR_NBC_COUNTED_LOST'];
    assert.deepEqual(lines(stdout).sort(), told, stderr);
  });

  it('gives each rank its environment, and the arguments as they were given', async () => {
    const node = '--node-arg=--expose-gc';
    const { stdout } = await launch(['-n', '2', node, '--threads', PROGRAM, 'tell', '--threads', '-n', '7']).end;
    const told = lines(stdout).map((line) => JSON.parse(line) as Record<string, unknown>);
    assert.deepEqual(told.map(({ NBC_RANK }) => NBC_RANK).sort(), ['0', '1']);
    for (const { NBC_SIZE, NBC_JOB_FD, args, node: options } of told)
      assert.deepEqual([NBC_SIZE, NBC_JOB_FD, args, options], ['2', '3', ['--threads', '-n', '7'], ['--expose-gc']]);
  });

  it('gives rank 0 standard input', async () => {
    const { stdout } = await launch(['-n', '3', '--threads', PROGRAM, 'read'], { input: 'typed\nlines' }).end;
    assert.deepEqual(lines(stdout).sort(), ['0 read "typed\\nlines"', '1 read ""', '2 read ""']);
  });

  it('labels whole lines with their rank', async () => {
    const { code, stdout, stderr } = await launch(['-n', '4', '--threads=2', '-l', PROGRAM, 'lines', '50']).end;
    assert.equal(code, 0);
    const expected = [0, 1, 2, 3].flatMap((rank) => [
      ...Array.from({ length: 50 }, (_, line) => `[${rank}] this is line ${line} of rank ${rank}`),
      `[${rank}] end of rank ${rank}`,
    ]);
    assert.deepEqual(lines(stdout).sort(), expected.sort());
    assert.deepEqual(
      lines(stderr).sort(),
      [0, 1, 2, 3].map((rank) => `[${rank}] error of rank ${rank}`),
    );
  });

  it('ends quietly when nobody reads any more', async () => {
    const one = launch(['-n', '2', '--threads', '-l', PROGRAM, 'forever']);
    await until('there is output', () => one.stdout !== '');
    one.child.stdout!.destroy();
    const { code, stderr } = await one.end;
    assert.equal(stderr, '');
    assert.equal(code, 141);
  });

  it('refuses a second init() of a thread', async () => {
    const { code, stdout, stderr } = await launch(['-n', '2', '--threads', THREAD, 'again']).end;
    assert.deepEqual([code, stderr], [0, '']);
    assert.deepEqual(
      lines(stdout).sort(),
      [0, 1].map((rank) => `${rank} ERR_NBC_ALREADY_OPEN ERR_NBC_OPEN`),
    );
  });

  describe('a rank that fails ends the job', () => {
    const cases: [title: string, args: string[], code: number, told: RegExp[]][] = [
      [
        'by an exit code',
        ['exit', '1', '7'],
        7,
        [/^nbcrun: rank 1 \(in process \d+\) exited with code 7; ending the 3/m],
      ],
      [
        'by what it throws',
        ['throw', '2'],
        1,
        [/^Uncaught Error: thrown on purpose$/m, /rank 2 .* exited with code 1;/],
      ],
      ['by a rejection', ['reject', '3'], 1, [/^Uncaught Error: rejected on purpose$/m, /rank 3 .* with code 1;/]],
      [
        'by a signal, with those of its process',
        ['die', '2', 'SIGKILL'],
        137,
        [/ranks 2 and 3 .* were ended by SIGKILL;/],
      ],
    ];
    for (const [title, args, expected, told] of cases) {
      it(title, async () => {
        const one = launch(['-n', '4', '--threads=2', PROGRAM, ...args]);
        const { code, stderr } = await one.end;
        for (const line of told) assert.match(stderr, line);
        assert.equal(code, expected);
        assert.deepEqual(one.processes(), []);
      });
    }
  });

  describe('with --on-failure=continue a rank that fails is lost, and its process lives', () => {
    const play = async (how: string, expected: number, left: readonly number[]): Promise<string> => {
      const { code, stdout, stderr } = await launch([
        ...['-n', '4', '--threads=2', '--on-failure=continue'],
        ...[THREAD, 'lose', how],
      ]).end;
      assert.deepEqual(
        lines(stdout).sort(),
        left.map((rank) => `${rank} lost it: ERR_NBC_PEER_CLOSED; ${left.length} are left`),
      );
      assert.equal(code, expected);
      return stderr;
    };

    it('which exits', async () => {
      const stderr = await play('exit', 7, [0, 2, 3]);
      assert.match(stderr, /^nbcrun: rank 1 \(in process \d+\) exited with code 7; going on with 3 ranks$/m);
    });
    inFull('which throws', async () => {
      assert.match(await play('throw', 1, [0, 2, 3]), /^Uncaught RangeError.*: thrown on purpose$/m);
    });
    it('unless it is the process that ends', async () => {
      assert.match(await play('kill', 0, [2, 3]), /^nbcrun: ranks 0 and 1 .* were ended by SIGKILL; going on with 2 /m);
    });
  });

  it('a rank that ends with 0 before init() is named to those that need it', async () => {
    const { code, stdout, stderr } = await launch(['-n', '3', '--threads', PROGRAM, 'needed', '1']).end;
    assert.deepEqual([code, stderr], [0, '']);
    assert.equal(lines(stdout).length, 2, stdout);
    for (const line of lines(stdout)) assert.match(line, /^\d is told ERR_NBC_PEER_CLOSED: irecv: rank 1 of the world/);
  });

  it('SIGTERM ends all', async () => {
    const one = launch(['-n', '4', '--threads=2', PROGRAM, 'block']);
    await one.ready(4);
    one.child.kill('SIGTERM');
    const { code, stderr } = await one.end;
    assert.deepEqual([code, stderr], [143, '']);
    assert.deepEqual(one.processes(), []);
  });

  it('have one processor each with --bind core, in turn', async () => {
    for (const threads of ['--threads', '--threads=2']) {
      const { code, stdout, stderr } = await launch(['-n', '4', '--bind', 'core', threads, PROGRAM, 'processors']).end;
      assert.deepEqual([code, stderr], [0, '']);
      const available = allowedHere();
      const expected = [0, 1, 2, 3].map((rank) => `${rank} ${available[rank % available.length]}`);
      assert.deepEqual(lines(stdout).sort(), expected);
    }
  });

  describe('refuses', () => {
    const cases: [title: string, args: string[], message: RegExp][] = [
      ['a number that is none', ['--threads=many'], /argument 'many' is invalid\. Give the number of threads/],
      ['no threads', ['--threads=0'], /argument '0' is invalid/],
      ['half a thread', ['--threads=1.5'], /argument '1\.5' is invalid/],
      ['less than no thread', ['--threads=-2'], /argument '-2' is invalid/],
      [
        'processes that are not full',
        ['-n', '4', '--threads=3'],
        /4 ranks \(-n\) cannot be processes of 3 threads each/,
      ],
      ['more threads than ranks', ['-n', '2', '--threads=4'], /2 ranks \(-n\) cannot be processes of 4 threads each/],
      ['--join without a number', ['--join', '--threads'], /--join needs the number of ranks .*--threads=<count>/],
      ['--join without a store', ['--join', '--threads=2'], /find each other by NBC_STORE/],
    ];
    for (const [title, args, message] of cases) {
      it(title, async () => {
        const { code, stdout, stderr } = await launch([...args, PROGRAM, 'tell']).end;
        assert.match(stderr, message);
        assert.deepEqual([code, stdout], [125, '']);
      });
    }
  });
});

describe('workers that are ranks by their environment', () => {
  const refused: [processor: string, error: RegExp][] = [
    ['all', /NBC_PROCESSOR: must be a whole number from 0, not 'all'/],
    ['8000', /cannot bind this rank to processor 8000: Invalid argument/],
    ['2147483647', /cannot bind this rank to processor 2147483647: Invalid argument/],
  ];
  for (const [processor, error] of refused) {
    it(`cannot be bound to processor ${processor}`, async () => {
      const place = { NBC_RANK: '0', NBC_SIZE: '1', NBC_THREADS: '1', NBC_PROCESSOR: processor };
      const env = { ...(process.env as Record<string, string>), ...place };
      const worker = new Worker(PROGRAM, { argv: ['processors'], env, stdout: true });
      const failure = await new Promise<unknown>((resolve) => worker.once('error', resolve).once('exit', resolve));
      assert.match(String(failure), error);
    });
  }

  it('lose one that is terminated, beside a world of the process', async () => {
    const own = await init();
    const jobFd = native.createJob(3, 0);
    const heard: unknown[] = [];
    const workers = [0, 1, 2].map((rank) => {
      const place = { NBC_RANK: `${rank}`, NBC_SIZE: '3', NBC_JOB_FD: `${jobFd}`, NBC_THREADS: '3' };
      const env = { ...(process.env as Record<string, string>), ...place };
      const worker = new Worker(THREAD, { argv: ['lose', 'terminate'], env });
      worker.on('message', (text) => heard.push(text));
      return worker;
    });
    const ended = [0, 2].map((rank) => new Promise((resolve) => workers[rank].once('exit', resolve)));
    await until('all are open', () => heard.length === 3);
    await workers[1].terminate();
    assert.deepEqual(await Promise.all(ended), [0, 0]);
    assert.deepEqual(
      heard.slice(3).sort(),
      [0, 2].map((rank) => `${rank} lost it: ERR_NBC_PEER_CLOSED; 2 are left`),
    );
    await own.close();
    closeSync(jobFd);
  });
});
