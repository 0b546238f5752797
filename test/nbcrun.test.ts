import assert from 'node:assert/strict';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { BRIEF, inFull } from './helpers.js';
import { isAlive, stateOf } from './support/hang.js';
import { type End, type Launch, launcher, PROGRAM, ROOT } from './support/launch.js';
import { childrenOf, commandOf, holdersOf, jobInode, kill, namedSharedMemory } from './support/processes.js';
import { inTerminal, nbcrun, type Typed } from './support/terminal.js';
import { until } from './support/until.js';

describe('nbcrun', () => {
  const launch = launcher();
  /** Runs `program` as a job to its end. */
  const run = (size: number, ...args: string[]): Promise<End> => launch(['-n', `${size}`, PROGRAM, ...args]).end;

  const lines = (text: string): string[] => text.split('\n').filter((line) => line !== '');

  describe('what ranks get', () => {
    it('rank, size and job in the environment; the arguments as they were given', async () => {
      const { code, stdout, stderr } = await run(3, 'tell', '--label', '-n', '7', 'a b', '--', '');
      assert.equal(code, 0);
      assert.equal(stderr, '');
      const told = lines(stdout).map((line) => JSON.parse(line) as Record<string, unknown>);
      assert.deepEqual(told.map(({ NBC_RANK }) => NBC_RANK).sort(), ['0', '1', '2']);
      for (const { NBC_SIZE, NBC_JOB_FD, args } of told) {
        assert.deepEqual([NBC_SIZE, NBC_JOB_FD], ['3', '3']);
        assert.deepEqual(args, ['--label', '-n', '7', 'a b', '--', '']);
      }
    });

    it('the options of node that --node-arg names', async () => {
      const node = ['--node-arg', '--expose-gc', '--node-arg=--stack-size=900'];
      const { stdout } = await launch(['-n', '1', ...node, PROGRAM, 'tell']).end;
      assert.deepEqual((JSON.parse(stdout) as { node: string[] }).node, ['--expose-gc', '--stack-size=900']);
    });

    it('standard input on rank 0, none on the others', async () => {
      const { stdout } = await launch(['-n', '3', PROGRAM, 'read'], { input: 'typed\nlines' }).end;
      assert.deepEqual(lines(stdout).sort(), ['0 read "typed\\nlines"', '1 read ""', '2 read ""']);
    });

    it('a process group each, in the session of nbcrun', async () => {
      // In sessions of their own they would yield to nobody: see native/launch/rank.cc.
      const { stdout } = await run(3, 'tell');
      const told = lines(stdout).map((line) => JSON.parse(line) as Record<'pid' | 'group' | 'session', number>);
      for (const { pid, group } of told) assert.equal(group, pid);
      const ours = readFileSync('/proc/self/stat', 'latin1');
      const session = Number(ours.slice(ours.lastIndexOf(')') + 2).split(' ')[3]);
      assert.deepEqual(
        told.map((rank) => rank.session),
        [session, session, session],
      );
    });

    describe('from a terminal', () => {
      it('what is typed, on rank 0, up to the end', async () => {
        const script: Typed[] = [
          ['0 reads', 'typed\n'],
          ['typed', 'more\n\x04'],
        ];
        const { code, output } = await inTerminal(script, nbcrun('-n', '3', PROGRAM, 'read', 'tell'));
        assert.deepEqual(
          lines(output)
            .filter((line) => line.includes(' read "'))
            .sort(),
          ['0 read "typed\\nmore\\n"', '1 read ""', '2 read ""'],
        );
        assert.equal(code, 0);
      });

      it('Ctrl-C once, and it ends the job', async () => {
        const script: Typed[] = [['ready', '\x03']];
        const { code, output } = await inTerminal(script, nbcrun('-n', '1', PROGRAM, 'interrupted'));
        assert.match(output, /interrupted 1 times/);
        assert.equal(code, 0);
        assert.equal((await inTerminal(script, nbcrun('-n', '2', PROGRAM, 'stay'))).code, 130);
      });

      it('output while it is in the background of the terminal', async () => {
        // A shell that puts nbcrun there: with job control, a background process that reads the terminal is stopped.
        const shell = `set -m; ${nbcrun('-n', '2', PROGRAM, 'tell').join(' ')} & wait $!; echo code $?`;
        const { code, output } = await inTerminal([], ['bash', '-c', shell]);
        assert.equal(code, 0);
        assert.equal(lines(output).filter((line) => line.includes('NBC_RANK')).length, 2);
        assert.match(output, /^code 0$/m);
      });

      it('output on a terminal that stops what writes in the background', async () => {
        const shell = `stty tostop; exec ${nbcrun('--timeout', '20', '-n', '2', PROGRAM, 'tell').join(' ')}`;
        const { code, output } = await inTerminal([], ['bash', '-c', shell]);
        assert.equal(code, 0, output);
        assert.equal(lines(output).filter((line) => line.includes('NBC_RANK')).length, 2);
      });

      it('what is typed after it has come from the background to the foreground', async () => {
        const job = nbcrun('--timeout', '20', '-n', '1', PROGRAM, 'read', 'tell').join(' ');
        const script: Typed[] = [
          ['0 reads', ''],
          ['in front', 'typed\n\x04'],
        ];
        const { code, output } = await inTerminal(script, [
          'bash',
          '-c',
          `set -m; ${job} & sleep 2; echo in front; fg`,
        ]);
        assert.match(output, /0 read "typed\\n"/);
        assert.equal(code, 0);
      });
    });

    it('one processor each with --bind core, in turn', async () => {
      const told = async (policy: string) => {
        const { stdout } = await launch(['-n', '3', '--bind', policy, PROGRAM, 'tell']).end;
        const ranks = lines(stdout).map((line) => JSON.parse(line) as { NBC_RANK: string; processors: string });
        return ranks.sort((a, b) => Number(a.NBC_RANK) - Number(b.NBC_RANK)).map(({ processors }) => processors);
      };
      const [all] = await told('none');
      const bound = await told('core');
      for (const processor of bound) assert.match(processor, /^\d+$/);
      const available = all.split(',').reduce((sum, part) => {
        const [first, last = first] = part.split('-').map(Number);
        return sum + last - first + 1;
      }, 0);
      assert.equal(new Set(bound).size, Math.min(3, available));
    });

    const many = BRIEF ? 16 : 64;
    it(`a job: ${many} ranks exchange`, async () => {
      const { code, stdout, stderr } = await run(many, 'exchange');
      assert.equal(stderr, '');
      assert.deepEqual(lines(stdout), Array<string>(many).fill(`sum ${((many - 1) * many) / 2}`));
      assert.equal(code, 0);
    });
  });

  describe('a rank that fails ends the job', () => {
    const cases: [title: string, args: string[], code: number, message: RegExp][] = [
      ['by its exit code', ['exit', '2', '42'], 42, /^nbcrun: rank 2 \(process \d+\) exited with code 42; .*3 other/m],
      ['by throwing', ['throw', '1'], 1, /^nbcrun: rank 1 .* exited with code 1; ending the 3 other ranks$/m],
      ['by a rejection that nobody handles', ['reject', '0'], 1, /^nbcrun: rank 0 .* exited with code 1;/m],
      ['by a signal', ['die', '3', 'SIGKILL'], 137, /^nbcrun: rank 3 .* was ended by SIGKILL;/m],
      ['by another signal', ['die', '0', 'SIGABRT'], 134, /^nbcrun: rank 0 .* was ended by SIGABRT;/m],
      ['while the others are blocked in native code', ['blockButOne', '0'], 1, /^nbcrun: rank 0 .* code 1;/m],
      ['and what the others do then does not count', ['cascade', '1'], 137, /^nbcrun: rank 1 .* SIGKILL; .*3 other/m],
    ];
    for (const [title, args, expected, message] of cases) {
      it(title, async () => {
        const one = launch(['-n', '4', PROGRAM, ...args]);
        const { code, stderr } = await one.end;
        assert.equal(code, expected, stderr);
        assert.match(stderr, message);
        if (/throw|reject|But/.test(args[0])) assert.match(stderr, /(thrown|rejected) on purpose/);
        assert.deepEqual(one.processes(), []);
      });
    }

    it('of which the last to run is told as such', async () => {
      const { code, stderr } = await run(1, 'exit', '0', '3');
      assert.equal(code, 3);
      assert.match(stderr, /^nbcrun: rank 0 \(process \d+\) exited with code 3\n$/);
    });

    it('with SIGKILL for those that ignore SIGTERM', async () => {
      const one = launch(['-n', '3', '--grace', '0.2', PROGRAM, 'signals', 'SIGUSR2', '9']);
      const pids = await one.ready(3);
      process.kill(pids[1], 'SIGUSR2');
      const { code, stdout, stderr } = await one.end;
      assert.equal(code, 9);
      assert.match(stdout, /^0 got SIGTERM$/m);
      assert.match(stdout, /^2 got SIGTERM$/m);
      assert.match(stderr, /^nbcrun: ranks 0, 2 did not end within 0.2 s of SIGTERM and were killed$/m);
    });
  });

  describe('with --on-failure=continue a rank that fails ends no other one', () => {
    const cases: [title: string, ends: string[], code: number, told: RegExp[]][] = [
      ['that exits with 0 in spite of it', ['SIGKILL', '0', '0'], 0, [/^nbcrun: rank 0 .* was ended by SIGKILL;?/m]],
      ['and an exit code counts', ['0', '7', 'SIGKILL'], 7, [/rank 1 .* exited with code 7/, /rank 2 .* SIGKILL/]],
      ['and all that are lost are a failure', ['SIGKILL', 'SIGKILL'], 137, [/rank 0 .* SIGKILL/, /rank 1 .* SIGKILL/]],
    ];
    for (const [title, ends, expected, told] of cases) {
      it(title, async () => {
        const { code, stderr } = await launch([
          ...['-n', String(ends.length), '--on-failure=continue'],
          ...[PROGRAM, 'ends', ...ends],
        ]).end;
        assert.equal(code, expected, stderr);
        for (const line of told) assert.match(stderr, line);
        assert.doesNotMatch(stderr, /; ending the/);
      });
    }

    it('and Ctrl-C ends all', async () => {
      const one = launch(['-n', '2', '--on-failure=continue', PROGRAM, 'stay']);
      await one.ready(2);
      one.child.kill('SIGTERM');
      const { code } = await one.end;
      assert.equal(code, 143);
      assert.deepEqual(one.processes(), []);
    });
  });

  describe('a rank that ends with 0 before init()', () => {
    for (const [transport, told] of [
      ['shm', /^\d is told ERR_NBC_PEER_CLOSED: irecv: rank 1 of the world closed its world, or ended, while/],
      ['auto', /^\d is told ERR_NBC_PEER_CLOSED: irecv: rank 1 of the world closed its world, or ended, while/],
      ['tcp', /^\d is told ERR_NBC_BOOTSTRAP: rank 1 ended before the job had started$/],
    ] as const) {
      it(`is named to those that need it, with transport '${transport}'`, async () => {
        const one = launch(['-n', '3', PROGRAM, 'needed', '1'], { env: { NBC_TRANSPORT: transport } });
        const { code, stdout, stderr } = await one.end;
        assert.equal(stderr, '');
        assert.equal(lines(stdout).length, 2, stdout);
        for (const line of lines(stdout)) assert.match(line, told);
        assert.equal(code, 0);
      });
    }

    it('fails nothing where no other rank needs it', async () => {
      const { code, stdout, stderr } = await run(3, 'notNeeded', '1');
      assert.equal(stderr, '');
      assert.deepEqual(lines(stdout).sort(), ['0 has 2', '2 has 0']);
      assert.equal(code, 0);
    });
  });

  describe('ranks with different transports', () => {
    for (const [one, other] of [
      ['tcp', 'shm'],
      ['auto', 'tcp'],
    ]) {
      it(`${one} and ${other}: both are told`, async () => {
        const env = { NBC_JOIN_TIMEOUT: '600000' };
        const { code, stdout } = await launch(['-n', '2', PROGRAM, 'transports', one, other], { env }).end;
        assert.equal(lines(stdout).length, 2, stdout);
        for (const line of lines(stdout)) {
          assert.match(line, /is told ERR_NBC_(BOOTSTRAP|MISMATCH|UNREACHABLE|PEER_CLOSED): .*('tcp'|rank \d)/);
        }
        assert.match(stdout, /transport 'tcp'.*must be the same on all ranks/);
        assert.equal(code, 0);
      });
    }
  });

  describe('signals', () => {
    it('reach every rank, and only once', async () => {
      const one = launch(['-n', '3', PROGRAM, 'signals', 'SIGTERM', '0']);
      await one.ready(3);
      const passedOn = ['SIGHUP', 'SIGUSR1', 'SIGWINCH', 'SIGINT'] as const;
      for (const signal of passedOn) {
        one.child.kill(signal);
        await until(`three ranks got ${signal}`, () => one.stdout.match(RegExp(`got ${signal}$`, 'gm'))?.length === 3);
      }
      one.child.kill('SIGTERM');
      const { code, stdout, stderr } = await one.end;
      assert.equal(code, 0, 'every rank ended with 0');
      assert.equal(stderr, '');
      const expected = [...passedOn, 'SIGTERM'].flatMap((signal) => [0, 1, 2].map((rank) => `${rank} got ${signal}`));
      assert.deepEqual(lines(stdout.replace(/^ready.*$/gm, '')).sort(), expected.sort());
    });

    for (const [signal, expected] of [
      ['SIGTERM', 143],
      ['SIGINT', 130],
      ['SIGHUP', 129],
    ] as const) {
      it(`end ranks that do not handle them: ${signal} gives ${expected}, without a word`, async () => {
        const one = launch(['-n', '3', PROGRAM, 'block']);
        await one.ready(3);
        one.child.kill(signal);
        const { code, stderr } = await one.end;
        assert.equal(code, expected);
        assert.equal(stderr, '');
        assert.deepEqual(one.processes(), []);
      });
    }

    it('kill, when SIGINT comes a second time', async () => {
      const one = launch(['-n', '2', PROGRAM, 'signals', 'never', '0']);
      await one.ready(2);
      one.child.kill('SIGINT');
      await until('both ranks got SIGINT', () => one.stdout.match(/got SIGINT$/gm)?.length === 2);
      one.child.kill('SIGINT');
      assert.equal((await one.end).code, 130);
      assert.deepEqual(one.processes(), []);
    });

    it('stop and continue the job as a whole', async () => {
      const one = launch(['-n', '2', PROGRAM, 'stay']);
      const all = [...(await one.ready(2)), one.pid];
      one.child.kill('SIGTSTP');
      await until('all are stopped', () => all.every((pid) => stateOf(pid) === 'T'));
      one.child.kill('SIGCONT');
      await until('all go on', () => all.every((pid) => stateOf(pid) !== 'T'));
      one.child.kill('SIGTERM');
      assert.equal((await one.end).code, 143);
    });
  });

  describe('--label', () => {
    it('puts the rank in front of whole lines', async () => {
      const { code, stdout, stderr } = await launch(['-n', '4', '--label', PROGRAM, 'lines', '200']).end;
      assert.equal(code, 0);
      const expected = [0, 1, 2, 3].flatMap((rank) => [
        ...Array.from({ length: 200 }, (_, line) => `[${rank}] this is line ${line} of rank ${rank}`),
        `[${rank}] end of rank ${rank}`,
      ]);
      assert.deepEqual(lines(stdout).sort(), expected.sort());
      assert.ok(stdout.endsWith('\n'));
      const ranks = [0, 1, 2, 3].map((rank) => `[${rank}] error of rank ${rank}`);
      assert.deepEqual(lines(stderr).sort(), ranks);
    });

    it('keeps the lines of a rank in order', async () => {
      const { stdout } = await launch(['-n', '2', '-l', PROGRAM, 'lines', '500']).end;
      const numbers = [...stdout.matchAll(/^\[1\] this is line (\d+) /gm)].map(([, number]) => Number(number));
      assert.deepEqual(numbers, [...Array(500).keys()]);
    });

    it('aligns the labels of many ranks', async () => {
      const { stdout } = await launch(['-n', '11', '-l', PROGRAM, 'exchange']).end;
      assert.match(stdout, /^\[ 9\] sum 55$/m);
      assert.match(stdout, /^\[10\] sum 55$/m);
    });

    it('splits lines of more than a megabyte, and loses nothing of them', async () => {
      const { stdout } = await launch(['-n', '2', '-l', PROGRAM, 'longLine', '3000000']).end;
      for (const rank of ['0', '1']) {
        const parts = lines(stdout).filter((line) => line.startsWith(`[${rank}] `));
        assert.ok(parts.length > 1);
        const whole = parts.map((line) => line.slice(4)).join('');
        assert.ok(whole === rank.repeat(3_000_000), `rank ${rank}: ${whole.length} characters`);
      }
    });

    it('ends the job quietly when nobody reads any more', async () => {
      const one = launch(['-n', '2', '-l', PROGRAM, 'forever']);
      one.child.stdout!.once('data', () => one.child.stdout!.destroy());
      const { code, stderr } = await one.end;
      assert.equal(code, 141);
      assert.equal(stderr, '');
      assert.deepEqual(one.processes(), []);
    });

    it('is not there without the option', async () => {
      assert.match((await run(2, 'exchange')).stdout, /^sum 1\nsum 1\n$/);
    });
  });

  describe('nothing stays behind', () => {
    /** A job whose ranks are blocked, with the inode of its memory and nbcrun's other child. */
    async function blocked(): Promise<{ one: Launch; pids: number[]; inode: number; guardian: number }> {
      const one = launch(['-n', '4', PROGRAM, 'block']);
      const pids = await one.ready(4);
      const inode = jobInode(pids[0]);
      assert.ok(holdersOf(inode).length >= 4, 'the ranks hold the memory of the job');
      const guardian = childrenOf(one.pid).find((pid) => commandOf(pid).includes('nbcrun-guardian'));
      assert.ok(guardian !== undefined);
      return { one, pids, inode, guardian };
    }

    it('when all ranks are killed', async () => {
      const { one, pids, inode, guardian } = await blocked();
      for (const pid of pids) assert.deepEqual(namedSharedMemory(pid), [], 'shared memory has no name');
      for (const pid of pids) kill(pid); // nbcrun begins to end the others at the first
      const { code, stderr } = await one.end;
      assert.equal(code, 137);
      assert.match(stderr, /was ended by SIGKILL/);
      assert.deepEqual(one.processes(), []);
      assert.ok(!isAlive(guardian));
      assert.deepEqual(holdersOf(inode), []);
    });

    it('when nbcrun is killed', async () => {
      const { one, inode, guardian } = await blocked();
      one.child.kill('SIGKILL');
      await until('all processes end', () => one.processes().length === 0 && !isAlive(guardian));
      // A process that is ending has no environment any more, by which processes() knows it, but may still have its
      // descriptors.
      await until('the memory is free', () => holdersOf(inode).length === 0);
    });

    it('when nbcrun and its children have children', async () => {
      const one = launch(['-n', '2', PROGRAM, 'parent', 'stay']);
      await one.ready(2);
      assert.equal(one.processes().length, 5, 'nbcrun, two ranks, a child of each');
      one.child.kill('SIGKILL');
      await until('all processes end', () => one.processes().length === 0);
    });

    it('of a rank that ends before its children', async () => {
      const one = launch(['-n', '2', PROGRAM, 'parent']);
      const { code, stdout } = await one.end;
      assert.equal(code, 0);
      assert.equal([...stdout.matchAll(/^child \d+$/gm)].length, 2);
      assert.deepEqual(one.processes(), []);
    });

    it('and a job does not depend on its guardian', async () => {
      const { one, guardian, pids } = await blocked();
      kill(guardian);
      await until('the guardian is gone', () => !isAlive(guardian));
      kill(pids[2]);
      assert.equal((await one.end).code, 137);
      assert.deepEqual(one.processes(), []);
    });
  });

  describe('--timeout', () => {
    it('ends the job and says which ranks were still there', async () => {
      const { code, stderr } = await launch(['-n', '2', '--timeout', '1', PROGRAM, 'stay']).end;
      assert.equal(code, 124);
      assert.match(stderr, /^nbcrun: the job did not end within 1 s \(--timeout\); ending 2 ranks: 0, 1$/m);
    });

    it('does not hold a job up that is faster', async () => {
      const { code, stderr } = await launch(['-n', '2', '--timeout', '1000', PROGRAM, 'exchange']).end;
      assert.deepEqual([code, stderr], [0, '']);
    });
  });

  it('keeps its exit code when nobody takes its own messages', () => {
    const command = `${process.execPath} ${join(ROOT, 'dist/cli/nbcrun.js')} -n 2 ${PROGRAM} exit 1 7 2>/dev/full`;
    assert.equal(spawnSync('bash', ['-c', command]).status, 7);
  });

  inFull('says so when arguments and environment are too long for ranks, though not for itself', async () => {
    const nbcrun = [join(ROOT, 'dist/cli/nbcrun.js'), '-n', '1', PROGRAM, 'exit', '0', '7'];
    // The kernel takes a quarter of the stack's limit; nbcrun needs a little less than its ranks.
    const tries = (bytes: number) => {
      const env: Record<string, string> = { PATH: process.env['PATH']! };
      for (let left = bytes; left > 0; left -= 100_000) env[`FILL${left}`] = 'x'.repeat(Math.min(left, 100_000));
      return spawnSync(process.execPath, nbcrun, { env, encoding: 'utf8' });
    };
    let [fits, tooLong] = [0, 8 << 20];
    while (tooLong - fits > 1) {
      const middle = (fits + tooLong) >> 1;
      const { error, status, stderr } = tries(middle);
      if (error !== undefined) tooLong = middle;
      else if (status === 7) fits = middle;
      else {
        assert.match(stderr, /^nbcrun: could not start rank 0 .*: the arguments and the environment are too long$/m);
        assert.equal(status, 125);
        return;
      }
    }
    assert.fail('nbcrun always started, or its rank did');
  });

  describe('what it says when it cannot start', () => {
    const folder = mkdtempSync(join(tmpdir(), 'nbcrun-test-'));
    after(() => rmSync(folder, { recursive: true, force: true }));

    const cases: [title: string, args: string[], message: RegExp][] = [
      ['no program', [], /missing required argument 'program'[^]*--help/],
      [
        'a program that is not there',
        ['no/such.js'],
        /there is no program no\/such\.js \(looked for \/.*\/no\/such\.js\)/,
      ],
      ['a folder', [folder], /is a folder; name the file in it/],
      ['no ranks', ['-n', '0', PROGRAM], /'0' is invalid\. Give the number of ranks, 1 or more/],
      ['half a rank', ['-n', '1.5', PROGRAM], /'1\.5' is invalid/],
      ['far too many ranks', ['-n', '5000', PROGRAM], /At most 1024 ranks/],
      ['an unknown policy', ['--bind', 'socket', PROGRAM], /Allowed choices are core, none/],
      ['a time that is none', ['--timeout', 'soon', PROGRAM], /Give a number of seconds/],
      ['an option that it does not know', ['--lable', PROGRAM], /unknown option '--lable'[^]*Did you mean --label/],
    ];
    for (const [title, args, message] of cases) {
      it(title, async () => {
        const { code, stdout, stderr } = await launch(args).end;
        assert.match(stderr, message);
        assert.equal(stdout, '');
        assert.equal(code, 125);
      });
    }

    it('no addon', async () => {
      const broken = join(folder, 'broken');
      cpSync(join(ROOT, 'dist'), join(broken, 'dist'), { recursive: true });
      cpSync(join(ROOT, 'package.json'), join(broken, 'package.json'));
      symlinkSync(join(ROOT, 'node_modules'), join(broken, 'node_modules'));
      const missing = await launch(['-n', '2', PROGRAM], { root: broken }).end;
      assert.equal(missing.code, 125);
      assert.match(missing.stderr, /native part of node-nbc is missing[^]*make -C /);

      mkdirSync(join(broken, 'build/Release'), { recursive: true });
      writeFileSync(join(broken, 'build/Release/nbc.node'), 'not an addon');
      const damaged = await launch(['-n', '2', PROGRAM], { root: broken }).end;
      assert.equal(damaged.code, 125);
      assert.match(damaged.stderr, /make -C /);
    });
  });

  it('--help tells options, exit codes and examples', async () => {
    const { code, stdout } = await launch(['--help']).end;
    assert.equal(code, 0);
    for (const expected of ['--ranks', '--label', '--bind', '--timeout', 'Exit codes:', 'Examples:']) {
      assert.ok(stdout.includes(expected), expected);
    }
  });

  it('--help | head: a reader that goes away is no failure', () => {
    const { status, stderr } = spawnSync('bash', [
      '-c',
      `set -o pipefail; ${process.execPath} ${join(ROOT, 'dist/cli/nbcrun.js')} --help | true`,
    ]);
    assert.equal(stderr.toString(), '');
    assert.equal(status, 0);
  });

  it('--version', async () => {
    assert.match((await launch(['--version']).end).stdout, /^\d+\.\d+\.\d+\S*\n$/);
  });
});
