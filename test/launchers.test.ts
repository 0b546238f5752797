/**
 * Programs that other launchers start: the real ones of both MPIs, and the variables of torchrun, Kubernetes and Slurm.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inFull, program, skip } from './helpers.js';
import { commandsOf, freePort, makeUsersFolder, run } from './support/commands.js';
import { type End, ROOT } from './support/launch.js';
import { assertLostPeer } from './support/lost-peer.js';

const RANKS = 3;

function assertExchanged({ code, stdout, stderr }: End, ranks = RANKS): void {
  assert.equal(code, 0, stdout + stderr);
  for (let rank = 0; rank < ranks; rank++) {
    assert.match(stdout, new RegExp(`rank ${rank} of ${ranks}`), `${stdout}\n${stderr}`);
  }
}

const EXCHANGE = [process.execPath, program('exchange')];

describe('launchers', () => {
  const asRoot = { OMPI_ALLOW_RUN_AS_ROOT: '1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: '1' };
  for (const [name, mpirun, flags, missing] of [
    ['Open MPI', 'mpirun.openmpi', ['--oversubscribe'], /^PMIx: .*; rank 1 of 3 did not join within 1500 ms$/],
    ['MPICH', 'mpirun.mpich', [], /no answer to barrier_in within 1500 ms; did all ranks start, and call init\(\)\?$/],
  ] as const) {
    for (const transport of ['auto', 'tcp']) {
      it(`${name}'s mpirun: ${RANKS} ranks, transport '${transport}'`, async function () {
        if (spawnSync(mpirun, ['--version']).error !== undefined) skip(this, `${mpirun} is not installed`);
        const args = [...flags, '-n', `${RANKS}`, ...EXCHANGE];
        assertExchanged(await run(mpirun, args, { ...asRoot, NBC_TRANSPORT: transport }));
      });
    }
    it(`${name}'s mpirun: one rank`, async function () {
      if (spawnSync(mpirun, ['--version']).error !== undefined) skip(this, `${mpirun} is not installed`);
      const { code, stdout, stderr } = await run(mpirun, [...flags, '-n', '1', ...EXCHANGE], asRoot);
      assert.equal(code, 0, stderr);
      assert.match(stdout, /rank 0 of 1/);
    });
    it(`${name}'s mpirun: one rank ends before init(), and the others say so in time`, async function () {
      if (spawnSync(mpirun, ['--version']).error !== undefined) skip(this, `${mpirun} is not installed`);
      const script = `[ "$OMPI_COMM_WORLD_RANK$PMI_RANK" = 1 ] || ${EXCHANGE.join(' ')} || echo "code $?"`;
      const env = { ...asRoot, NBC_JOIN_TIMEOUT: '1500' };
      const begun = performance.now();
      const { stdout, stderr } = await run(mpirun, [...flags, '-n', `${RANKS}`, 'bash', '-c', script], env);
      assert(performance.now() - begun < 10 * 1500 + 1500, `${stdout}\n${stderr}`);
      const errors = [...stderr.matchAll(/^BootstrapError: (.*)$/gm)].map(([, message]) => message);
      // Hydra ends the others as soon as one has failed.
      const least = name === 'MPICH' ? 1 : RANKS - 1;
      assert(errors.length >= least && errors.length < RANKS, `${stdout}\n${stderr}`);
      for (const error of errors) assert.match(error, missing);
      if (least > 1) assert.equal(stdout.match(/^code 1$/gm)?.length, least, `${stdout}\n${stderr}`);
    });
    for (const transport of ['auto', 'tcp']) {
      it(`${name}'s mpirun: a rank that exits with 0 fails the others that need it, transport '${transport}'`, async function () {
        if (spawnSync(mpirun, ['--version']).error !== undefined) skip(this, `${mpirun} is not installed`);
        const args = [...flags, '-n', `${RANKS}`, process.execPath, program('exits'), 'exitZero'];
        const { stdout, stderr } = await run(mpirun, args, { ...asRoot, NBC_TRANSPORT: transport });
        const reports = [...stdout.matchAll(/report (\{.*?\})/g)].map(
          ([, text]) => JSON.parse(text) as { codes: string[] },
        );
        assert.equal(reports.length, RANKS - 1, stdout + stderr);
        for (const { codes } of reports) assertLostPeer(codes);
      });
    }
  }

  for (const [name, variables] of Object.entries({
    torchrun: (rank: number, port: number) => ({
      RANK: `${rank}`,
      WORLD_SIZE: `${RANKS}`,
      MASTER_ADDR: '127.0.0.1',
      MASTER_PORT: `${port}`,
    }),
    'torchrun, whose port is taken, in a job of Slurm': (rank: number, port: number) => ({
      RANK: `${rank}`,
      WORLD_SIZE: `${RANKS}`,
      SLURM_PROCID: '0',
      SLURM_STEP_NUM_TASKS: '1',
      NBC_STORE: `127.0.0.1:${port}`,
    }),
    "Open MPI's mpirun beside a store, for want of libpmix": (rank: number, port: number) => ({
      OMPI_COMM_WORLD_RANK: `${rank}`,
      OMPI_COMM_WORLD_SIZE: `${RANKS}`,
      PMIX_RANK: `${rank}`,
      PMIX_NAMESPACE: 'nobody',
      NBC_STORE: `127.0.0.1:${port}`,
    }),
    "an indexed job of Kubernetes'": (rank: number, port: number) => ({
      JOB_COMPLETION_INDEX: `${rank}`,
      NBC_SIZE: `${RANKS}`,
      NBC_STORE: `localhost:${port}`,
    }),
    'srun without PMIx': (rank: number, port: number) => ({
      SLURM_PROCID: `${rank}`,
      SLURM_STEP_NUM_TASKS: `${RANKS}`,
      NBC_STORE: `127.0.0.1:${port}`,
    }),
  })) {
    it(`the variables of ${name}`, async () => {
      const port = await freePort();
      const ranks = Array.from({ length: RANKS }, (_, rank) =>
        run(process.execPath, [program('exchange')], { ...variables(rank, port), NBC_SECRET: 'a secret of this test' }),
      );
      for (const [rank, { code, stdout, stderr }] of (await Promise.all(ranks)).entries()) {
        assert.equal(code, 0, stdout + stderr);
        assert.match(stdout, new RegExp(`rank ${rank} of ${RANKS}`));
      }
    });
  }

  describe('the guides', () => {
    let folder: string;
    before(() => makeUsersFolder((folder = mkdtempSync(join(tmpdir(), 'nbc-guide-'))), program('exchange')));
    after(() => rmSync(folder, { recursive: true }));

    for (const command of commandsOf('docs/jobs/mpirun.md')) {
      const either = command.startsWith('bash');
      for (const [mpirun, hosts] of [
        ['mpirun.openmpi', 'hosts.openmpi'],
        ['mpirun.mpich', 'hosts.mpich'],
      ]) {
        if (!either && !command.includes(hosts)) continue;
        it(`${command}, which is ${mpirun}`, async function () {
          if (spawnSync(mpirun, ['--version']).error !== undefined) skip(this, `${mpirun} is not installed`);
          // The files as they are to be copied; both machines are this one.
          for (const file of readdirSync(join(ROOT, 'docs/jobs/mpirun'))) {
            const text = readFileSync(join(ROOT, 'docs/jobs/mpirun', file), 'utf8');
            writeFileSync(
              join(folder, file),
              text.replace(/^node-0(.*)4\nnode-1.*$/m, (_, slots) => `localhost${slots}8`),
            );
          }
          const line = command.replace(/^mpirun/, mpirun);
          assertExchanged(await run('bash', ['-c', `cd ${folder} && ${line}`], { ...asRoot, MPIRUN: mpirun }), 8);
        });
      }
    }

    for (const guide of ['docs/jobs.md', 'docs/jobs/torchrun.md']) {
      it(`${guide}'s lines for each machine`, async function () {
        if (spawnSync('openssl', ['version']).error !== undefined) skip(this, 'openssl is not installed');
        const [secret, , variables, ...lines] = commandsOf(guide);
        assert(secret.startsWith('openssl rand'));
        const made = await run('bash', ['-c', `cd ${folder}; ${secret}`]);
        assert.equal(made.code, 0, made.stderr);
        const ranks = lines.filter((line) => /^(NBC_)?RANK=\d+ node /.test(line));
        assert.equal(ranks.length, 2);
        assert(variables.startsWith('export '));
        const port = await freePort();
        const here = (line: string): string => line.replace(/node-\d/g, 'localhost').replaceAll('4711', `${port}`);
        const ends = ranks.map((line) => run('bash', ['-c', `cd ${folder}; ${here(`${variables}\n${line}`)}`]));
        for (const [rank, { code, stdout, stderr }] of (await Promise.all(ends)).entries()) {
          assert.equal(code, 0, stderr);
          assert.match(stdout, new RegExp(`rank ${rank} of 2`));
        }
      });
    }

    inFull("torchrun's run.sh on each of two machines", async () => {
      const script = join(ROOT, 'docs/jobs/torchrun/run.sh');
      const place = {
        MASTER_ADDR: 'localhost',
        MASTER_PORT: `${await freePort()}`,
        NBC_SECRET: 'a secret of this test',
      };
      const args = (machine: string): string[] => [script, machine, join(folder, 'program.mjs')];
      const ends = await Promise.all(['0', '1'].map((machine) => run('bash', args(machine), place)));
      for (const { code, stderr } of ends) assert.equal(code, 0, stderr);
      assertExchanged({ ...ends[0], stdout: ends.map(({ stdout }) => stdout).join('') }, 8);
      const alone = await run('bash', args('0'), { ...place, NBC_JOIN_TIMEOUT: '5000' });
      assert.equal(alone.code, 1, alone.stderr);
      assert.match(alone.stderr, /ranks 4 to 7 of 8 did not join/);
    });

    it("kubernetes/job.yaml's network policy lets in pods of the job only", () => {
      const parts = readFileSync(join(ROOT, 'docs/jobs/kubernetes/job.yaml'), 'utf8').split(/^---$/m);
      const [policy, ...more] = parts.filter((part) => part.includes('kind: NetworkPolicy'));
      assert.equal(more.length, 0);
      // Which pods it is for, and which may reach them.
      const job = /kind: Job\nmetadata:\n {2}name: (\w+)/.exec(parts.join())![1];
      const labels = [...policy.matchAll(/matchLabels: \{ job-name: (\w+) \}/g)].map(([, name]) => name);
      assert.deepEqual(labels, [job, job]);
      assert.match(policy, /policyTypes: \[Ingress\]/);
    });

    it("kubernetes/Dockerfile's program is where job.yaml starts it", () => {
      const [image, job] = ['Dockerfile', 'job.yaml'].map((name) =>
        readFileSync(join(ROOT, 'docs/jobs/kubernetes', name), 'utf8'),
      );
      const folders = [...image.matchAll(/^WORKDIR (.*)$/gm)].map(([, path]) => path);
      const program = /command: \[node, (.*)\]/.exec(job)![1];
      assert.equal(program, `${folders.at(-1)}/program.mjs`);
      assert.match(image, /^COPY .*program\.mjs \.\/$/m);
    });

    it('quote messages that there are', () => {
      const native = ['fabric/tcp/acceptor', 'fabric/tcp/handshake', 'job/limits', 'job/segment']
        .map((name) => readFileSync(join(ROOT, `native/${name}.cc`), 'utf8'))
        .join('\n')
        .replace(/"\n\s*"/g, '');
      const files = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' }).filter((name) =>
        name.endsWith('.ts'),
      );
      const source = files
        .map((name) => readFileSync(join(ROOT, 'src', name), 'utf8'))
        .join('\n')
        .replace(/['`] \+\n\s*['`]/g, '')
        .concat(native);
      const [, table] = readFileSync(join(ROOT, 'docs/jobs.md'), 'utf8').split('## What goes wrong');
      const cells = [...table.matchAll(/^\| (`.*?) +\|/gm)].map(([, cell]) => cell);
      const messages = cells.flatMap((cell) => [...cell.matchAll(/`(.*?)`/g)].map(([, message]) => message));
      assert(messages.length >= 9, table);
      for (const message of messages) {
        // Numbers and dots stand for what differs, and names such as PMIx_Fence are elsewhere in the source.
        const parts = [...message.split(/…|\d+|\w+_\w+/), ...(message.match(/\w+_\w+/g) ?? [])].filter(
          (part) => part.trim().length >= 7,
        );
        assert(parts.length > 0, message);
        for (const part of parts) assert(source.includes(part), `'${message}': nothing says '${part}'`);
      }
    });

    it("kubernetes/job.yaml's numbers and variables", async () => {
      const text = readFileSync(join(ROOT, 'docs/jobs/kubernetes/job.yaml'), 'utf8');
      const ranks = Number(/completions: (\d+)/.exec(text)?.[1]);
      const given = [...text.matchAll(/name: (\w+), value: '(.*?)'/g)].map(([, name, value]) => [name, value]);
      const variables = Object.fromEntries(given) as Record<string, string>;
      assert.deepEqual(Object.keys(variables), ['NBC_SIZE', 'NBC_STORE']);
      assert.match(text, /name: NBC_SECRET\n/);
      assert.equal(/parallelism: (\d+)/.exec(text)?.[1], `${ranks}`);
      // Its first pod is this machine, and its port is one that is free here.
      const store = variables['NBC_STORE'].replace(/^nbc-0\.nbc:\d+$/, `localhost:${await freePort()}`);
      const ends = Array.from({ length: ranks }, (_, index) => {
        const env = {
          ...variables,
          NBC_STORE: store,
          NBC_SECRET: 'a secret of this test',
          JOB_COMPLETION_INDEX: `${index}`,
        };
        return run(process.execPath, [program('exchange')], env);
      });
      for (const [rank, { code, stdout, stderr }] of (await Promise.all(ends)).entries()) {
        assert.equal(code, 0, stderr);
        assert.match(stdout, new RegExp(`rank ${rank} of ${ranks}`));
      }
    });
  });

  for (const [hosts, names] of Object.entries({ 'one host': ['', '', ''], 'two hosts': ['a', 'a', 'b'] })) {
    for (const progress of ['thread', 'manual']) {
      it(`a rank that is killed fails the others, on ${hosts} ('${progress}')`, async () => {
        // By the store alone: nobody sees the end of a rank who could tell the others, or end them.
        const store = {
          NBC_STORE: `127.0.0.1:${await freePort()}`,
          NBC_SECRET: 'a secret of this test',
          NBC_SIZE: `${RANKS}`,
        };
        const ranks = names.map((host, rank) => {
          const env = { ...store, NBC_RANK: `${rank}`, NBC_HOST: host, NBC_PROGRESS: progress };
          return run(process.execPath, [program('exits'), 'killOne'], env);
        });
        for (const [rank, { code, signal, stdout, stderr }] of (await Promise.all(ranks)).entries()) {
          assert.equal(signal, rank === 1 ? 'SIGKILL' : null, stdout + stderr);
          if (rank === 1) continue;
          assert.equal(code, 0, stdout + stderr);
          const { codes } = JSON.parse(stdout.replace(/^report /, '')) as { codes: string[] };
          assertLostPeer(codes);
        }
      });
    }
  }

  it('a secret that is missing is asked for', async () => {
    const env = { RANK: '0', WORLD_SIZE: '2', MASTER_ADDR: '127.0.0.1', MASTER_PORT: '4711', NBC_SECRET: '' };
    const { code, stderr } = await run(process.execPath, [program('exchange')], env);
    assert.notEqual(code, 0);
    assert.match(stderr, /OptionError.*NBC_SECRET: must be set where MASTER_ADDR:MASTER_PORT is/s);
  });
});
