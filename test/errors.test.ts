/**
 * Mistakes end in errors that say what is wrong, in bounded time: arguments, options, ranks that disagree.
 */
import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { init, type InitOptions, NbcError, OptionError } from 'node-nbc';
import { CROSS_MEMORY, describeJob, modes, type RankResult, reports, runJob, runRanks, skip } from './helpers.js';
import { run } from './support/commands.js';
import { withEnvironment } from './support/environment.js';

describe('wrong arguments', () => {
  for (const mode of modes()) {
    it(`throw an error that names the argument, before anything is sent ('${mode}')`, async () => {
      const results = await runRanks('errors', { size: 2, args: ['arguments'], env: { NBC_PROGRESS: mode } });
      for (const calls of reports<number>(results)) assert(calls > 200);
    });
  }
});

describe('ranks that disagree', () => {
  // Around the eager limit of 255: both eager, one of them, none; nearly equal and far apart.
  const PAIRS = [
    [100, 200],
    [200, 100],
    [8, 9],
    [0, 8],
    [8, 0],
    [100, 1000],
    [1000, 100],
    [255, 256],
    [256, 255],
    [1000, 2000],
    [2000, 1000],
    [300, 500_000],
    [500_000, 300],
    [500_000, 500_001],
    [8, 500_000],
    [500_000, 8],
    [0, 8],
    [8, 0],
    [0, 1000],
    [1000, 0],
  ] as const;
  const EAGER = 255;

  for (const mode of modes()) {
    for (const crossMemory of CROSS_MEMORY) {
      const disagree = (scenario: string, pairs: readonly (readonly [number, number])[]): Promise<RankResult[]> => {
        const env = { NBC_PROGRESS: mode, NBC_CROSS_MEMORY: crossMemory, TEST_PAIRS: JSON.stringify(pairs) };
        return runRanks('errors', { size: 2, args: [scenario], env });
      };

      it(`about the size of a message both hear of it ('${mode}', crossMemory '${crossMemory}')`, async () => {
        const results = await disagree('sizes', PAIRS);
        const [sender, receiver] = reports<string[]>(results) as [string[], string[]];
        for (const [index, [sent, received]] of PAIRS.entries()) {
          const what = `${sent} bytes sent, ${received} received`;
          if (sent <= received) {
            assert.deepEqual([sender[index], receiver[index]], [`fulfilled ${sent}`, `fulfilled ${sent}`], what);
            continue;
          }
          assert.match(receiver[index], /^TruncatedError: /, `${what}: the receiver`);
          // A small message has left when its receiver finds out.
          if (sent <= EAGER && sender[index] === `fulfilled ${sent}`) continue;
          assert.match(sender[index], /^TruncatedError: /, `${what}: the sender`);
          assert.match(sender[index], new RegExp(`\\b${sent} bytes here, ${received} there`), what);
          assert.match(receiver[index], new RegExp(`\\b${received} bytes here, ${sent} there`), what);
        }
      });

      it(`about the sizes of a collective hear of it ('${mode}', crossMemory '${crossMemory}')`, async () => {
        const pairs = PAIRS;
        const results = await disagree('sizesOfCollectives', pairs);
        const [zero, one] = reports<Record<string, string[]>>(results) as [
          Record<string, string[]>,
          Record<string, string[]>,
        ];
        for (const [index, [atZero, atOne]] of pairs.entries()) {
          const what = `${atZero} bytes at rank 0, ${atOne} at rank 1`;
          // Both hear of it, unless a call was complete before anybody could know: then it is told at the end.
          const outcomes = [zero['igather'], one['ibcast'], zero['ialltoall'], one['ialltoall']];
          for (const told of outcomes) assert.match(told[index], /^MismatchError: .* with another size/, what);
          assert.match(zero['ibcast'][index], atZero > EAGER ? /^MismatchError/ : /^(Mismatch|fulfilled)/, what);
          assert.match(one['igather'][index], atOne > EAGER ? /^MismatchError/ : /^(Mismatch|fulfilled)/, what);
        }
      });
    }

    for (const transport of ['shm', 'tcp']) {
      it(`get their buffer back with the error, for good ('${mode}', '${transport}')`, async () => {
        const env = { NBC_PROGRESS: mode, NBC_TRANSPORT: transport };
        const results = await runRanks('errors', { size: 3, args: ['lateBlock'], env });
        assert.equal(reports<string>(results).length, 3);
      });
    }

    for (const transport of ['shm', 'tcp']) {
      it(`fail all who need their data, while nobody closes ('${mode}', '${transport}')`, async () => {
        const env = { NBC_PROGRESS: mode, NBC_TRANSPORT: transport };
        const results = await runRanks('errors', { size: 8, args: ['failingTree'], env });
        const outcomes = reports<string[]>(results);
        const told = /^AbandonedError 4 ERR_NBC_TRUNCATED$/;
        for (const [index, bytes] of [8, 5000, 1 << 20].entries()) {
          const bcast = outcomes.map((of) => of[2 * index]);
          const gather = outcomes.map((of) => of[2 * index + 1]);
          assert.equal(bcast[4], 'TruncatedError', `ibcast, ${bytes} bytes`);
          for (const rank of [5, 6, 7]) assert.match(bcast[rank], told, `ibcast, rank ${rank}, ${bytes} bytes`);
          // Rank 4 has its own block and those of its subtree: it fails where these arrive.
          assert.equal(gather[4], 'TruncatedError', `igather, ${bytes} bytes`);
          assert.match(gather[0], told, `igather, rank 0, ${bytes} bytes`);
        }
      });
    }

    it(`about the eager limit are told so ('${mode}')`, async () => {
      const ready = new Map<number, ChildProcess>();
      const results = await runJob('errors', {
        size: 2,
        args: ['eagerLimits'],
        env: (rank) => ({ NBC_PROGRESS: mode, NBC_EAGER_LIMIT: rank === 0 ? '255' : '1024' }),
        onLine(line, rank, child) {
          if (!line.startsWith('report')) return;
          ready.set(rank, child);
          if (ready.size === 2) for (const each of ready.values()) each.kill('SIGUSR2');
        },
      });
      for (const outcomes of reports<string[]>(results)) {
        for (const outcome of outcomes) {
          assert.match(outcome, /^MismatchError: .*eagerLimit/);
          assert.match(outcome, /255/);
          assert.match(outcome, /1024/);
        }
      }
      assert(
        results.every(({ code }) => code === 0),
        describeJob(results),
      );
    });
  }
});

describe('wrong options', () => {
  // The name of an option, as errors have it, its variable, and what neither may be.
  const bad: [string, string, unknown[], string[]][] = [
    ['transport', 'NBC_TRANSPORT', ['ib', '', 5, null], ['ib', 'shm,tcp']],
    ['progress', 'NBC_PROGRESS', ['threads', true, 1, null], ['threads', '1']],
    ['eagerLimit', 'NBC_EAGER_LIMIT', [-1, 1.5, NaN, 1e9, '255', null], ['-1', '1.5', 'many', '1000000000', '255B']],
    ['testOnInit', 'NBC_TEST_ON_INIT', [1, 0, 'true', null], ['2', 'maybe']],
    ['waitOnSend', 'NBC_WAIT_ON_SEND', [-1, 0.5, Infinity, '10', 1e12], ['-1', '0.5', 'long']],
    ['startall', 'NBC_STARTALL', [-1, 0.5, Infinity, '10', true], ['-1', '0.5', 'on']],
    ['timeout', 'NBC_TIMEOUT', [-1, 0.5, Infinity, '10', 2 ** 31], ['-1', '0.5', '10s']],
    ['peerTimeout', 'NBC_PEER_TIMEOUT', [999, 0, 1000.5, 24 * 3600e3 + 1, '30s'], ['999', '0', '25h', '1441m']],
    ['crossMemory', 'NBC_CROSS_MEMORY', ['on', true, null], ['on', '0']],
    ['verbs.device', 'NBC_VERBS_DEVICE', [5, null, 'a,', ',a', 'a,,b'], ['a,', ' , ']],
    ['verbs.cacheEntries', 'NBC_VERBS_CACHE_ENTRIES', [-1, 0.5, '8', 2 ** 21], ['-1', 'all']],
    ['verbs.cacheBytes', 'NBC_VERBS_CACHE_BYTES', [-1, 0.5, Infinity, '1'], ['-1', '1GiB']],
    ['verbs.port', 'NBC_VERBS_PORT', [-1, 256, 0.5, '1', null], ['-1', '256', 'first']],
    ['verbs.gidIndex', 'NBC_VERBS_GID_INDEX', [-2, 65536, '0', null], ['-2', 'v2']],
    ['verbs.timeout', 'NBC_VERBS_TIMEOUT', [-1, 0.5, 24 * 3600e3 + 1, '1s'], ['-1', '25h']],
    ['verbs.retries', 'NBC_VERBS_RETRIES', [-1, 8, 0.5, '6'], ['-1', '8']],
    ['verbs.eager', 'NBC_VERBS_EAGER', ['put', 'SEND', true, null], ['put', '1']],
  ];
  for (const [option, variable, values, texts] of bad) {
    it(`${option} and ${variable} are refused by name`, async () => {
      for (const value of values) {
        const [group, ...inner] = option.split('.');
        const given = inner.length === 0 ? value : { [inner[0]]: value };
        await assert.rejects(init({ [group]: given }), (error: unknown) => {
          assert(error instanceof OptionError, `${option}: ${String(value)} gives ${String(error)}`);
          assert.equal(error.argument, option);
          assert.equal(error.code, 'ERR_NBC_OPTION');
          return true;
        });
      }
      for (const text of texts) {
        const expected = { name: 'OptionError', argument: variable, code: 'ERR_NBC_OPTION' };
        await withEnvironment({ [variable]: text }, () => assert.rejects(init(), expected, text));
      }
    });
  }

  it('an option wins over its variable', async () => {
    await withEnvironment({ NBC_PROGRESS: 'nonsense' }, async () => {
      const world = await init({ progress: 'manual' });
      await world.close();
    });
  });

  it('there is no other option', async () => {
    const options = { eagerlimit: 255 } as InitOptions;
    await assert.rejects(init(options), { name: 'OptionError', argument: 'eagerlimit', message: /eagerLimit/ });
    for (const value of [null, 5, 'shm']) {
      await assert.rejects(init(value as unknown as InitOptions), { name: 'OptionError', argument: 'options' });
      const verbs = { verbs: value } as unknown as InitOptions;
      await assert.rejects(init(verbs), { name: 'OptionError', argument: 'verbs', message: /object/ });
    }
    const verbs = { verbs: { gid: 1 } } as InitOptions;
    await assert.rejects(init(verbs), { name: 'OptionError', argument: 'verbs.gid', message: /gidIndex/ });
  });

  for (const [transport, library] of [
    ['verbs', 'libibverbs'],
    ['ucx', 'libucp'],
  ]) {
    it(`transport '${transport}' without ${library} names what is missing; everything else works`, async function () {
      if (process.getuid?.() !== 0) skip(this, 'only root can hide a library from one process');
      const program = `
        import { init } from 'node-nbc';
        await init({ transport: '${transport}' }).catch(({ code, message }) => console.log(code, message));
        await (await init()).close();
        console.log('shm works');`;
      // In a mount namespace of its own an empty file lies over the library.
      const hide = `
        for path in $(ldconfig -p | sed -n 's/.*${library}.so.[01] .* => //p'); do
          mount --bind /dev/null "$path" || exit
        done
        exec "$0" --input-type=module -e "$1"`;
      const args = ['--mount', 'bash', '-c', hide, process.execPath, program];
      const { stdout, stderr, code } = await run('unshare', args);
      assert.equal(code, 0, stderr);
      assert.match(stdout, new RegExp(`^ERR_NBC_TRANSPORT .*${library}.*(apt install|build again)`));
      assert.match(stdout, /shm works/);
    });
  }

  it("transport 'verbs' without what it needs says what is missing", async () => {
    // There is no such device anywhere; where there is no device, no library or no verbs in this build, that is said.
    const options = { transport: 'verbs', verbs: { device: 'no-such-device' } } as const;
    await assert.rejects(init(options), (error: unknown) => {
      assert(error instanceof NbcError);
      assert.equal(error.code, 'ERR_NBC_TRANSPORT');
      assert.match(error.message, /no-such-device|no RDMA device|libibverbs/);
      return true;
    });
  });

  for (const [variables, wrong] of [
    [{ NBC_RANK: '0' }, 'NBC_SIZE'],
    [{ NBC_SIZE: '2', NBC_JOB_FD: '3' }, 'NBC_RANK'],
    [{ NBC_SIZE: '2', NBC_RANK: '0' }, 'NBC_STORE'],
    [{ NBC_SIZE: '2', NBC_RANK: '2', NBC_JOB_FD: '3' }, 'NBC_RANK'],
    [{ NBC_SIZE: '0', NBC_RANK: '0', NBC_JOB_FD: '3' }, 'NBC_SIZE'],
    [{ NBC_SIZE: 'two', NBC_RANK: '0', NBC_JOB_FD: '3' }, 'NBC_SIZE'],
    [{ NBC_SIZE: '2', NBC_RANK: '0', NBC_JOB_FD: '-1' }, 'NBC_JOB_FD'],
  ] as const) {
    it(`a launcher's variables that make no sense are refused by name: ${JSON.stringify(variables)}`, async () => {
      await withEnvironment({ NBC_TRANSPORT: 'auto', ...variables }, () =>
        assert.rejects(init(), { name: 'OptionError', argument: wrong }),
      );
    });
  }

  it('a descriptor that is no job is refused, with advice for what a rank has started', async () => {
    for (const fd of ['0', '1000000']) {
      await withEnvironment({ NBC_TRANSPORT: 'auto', NBC_SIZE: '2', NBC_RANK: '0', NBC_JOB_FD: fd }, () =>
        assert.rejects(
          init(),
          (error: unknown) =>
            error instanceof NbcError &&
            error.code.startsWith('ERR_NBC_') &&
            error.message.includes(`descriptor ${fd} (NBC_JOB_FD)`) &&
            error.message.includes('If a rank started this process'),
        ),
      );
    }
  });
});
