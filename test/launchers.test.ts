/** Programs that other launchers start: the real ones of both MPIs, and the variables of torchrun, Kubernetes and Slurm. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { createServer, type AddressInfo } from 'node:net';
import { program, skip } from './helpers.js';

const RANKS = 3;
const LIMIT_MS = 60_000;

interface End {
  code: number | null;
  stdout: string;
  stderr: string;
}

function run(command: string, args: string[], env: Record<string, string>): Promise<End> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { env: clean(env), stdio: ['ignore', 'pipe', 'pipe'], timeout: LIMIT_MS });
    let [stdout, stderr] = ['', ''];
    child.stdout.on('data', (data: Buffer) => (stdout += data.toString()));
    child.stderr.on('data', (data: Buffer) => (stderr += data.toString()));
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, stdout, stderr }));
  });
}

/** This process's environment without what says that it is a rank itself. */
function clean(more: Record<string, string>): Record<string, string | undefined> {
  const env: Record<string, string | undefined> = { ...process.env, ...more };
  for (const name of ['NBC_RANK', 'NBC_SIZE', 'NBC_JOB_FD']) if (!(name in more)) Reflect.deleteProperty(env, name);
  return env;
}

function assertExchanged({ code, stdout, stderr }: End): void {
  assert.equal(code, 0, stdout + stderr);
  for (let rank = 0; rank < RANKS; rank++) {
    assert.match(stdout, new RegExp(`rank ${rank} of ${RANKS}`), `${stdout}\n${stderr}`);
  }
}

const EXCHANGE = [process.execPath, program('exchange')];

describe('launchers', function () {
  this.timeout(LIMIT_MS + 10_000);

  const asRoot = { OMPI_ALLOW_RUN_AS_ROOT: '1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: '1' };
  for (const [name, mpirun, flags] of [
    ['Open MPI', 'mpirun.openmpi', ['--oversubscribe']],
    ['MPICH', 'mpirun.mpich', []],
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
  }

  for (const [name, variables] of Object.entries({
    torchrun: (rank: number, port: number) => ({
      RANK: `${rank}`,
      WORLD_SIZE: `${RANKS}`,
      MASTER_ADDR: '127.0.0.1',
      MASTER_PORT: `${port}`,
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
        run(process.execPath, [program('exchange')], { ...variables(rank, port), NBC_SECRET: 'of this test' }),
      );
      for (const [rank, { code, stdout, stderr }] of (await Promise.all(ranks)).entries()) {
        assert.equal(code, 0, stdout + stderr);
        assert.match(stdout, new RegExp(`rank ${rank} of ${RANKS}`));
      }
    });
  }

  for (const [what, variables, expected] of [
    [
      'a descriptor that is closed',
      { PMI_RANK: '0', PMI_SIZE: '2', PMI_FD: '99' },
      /BootstrapError.*PMI_FD.*descriptor 99/s,
    ],
    ['a rank that does not exist', { PMI_RANK: '2', PMI_SIZE: '2', PMI_FD: '0' }, /OptionError.*PMI_RANK: is 2/s],
    ['no ranks', { PMI_RANK: '0', PMI_SIZE: '0', PMI_FD: '0' }, /OptionError.*PMI_RANK: is 0, but the job has 0/s],
  ] as const) {
    it(`a process manager that gives ${what}`, async () => {
      const { code, stderr } = await run(process.execPath, [program('exchange')], variables);
      assert.notEqual(code, 0);
      assert.match(stderr, expected);
    });
  }

  it('a secret that is missing is asked for', async () => {
    const env = { RANK: '0', WORLD_SIZE: '2', MASTER_ADDR: '127.0.0.1', MASTER_PORT: '4711', NBC_SECRET: '' };
    const { code, stderr } = await run(process.execPath, [program('exchange')], env);
    assert.notEqual(code, 0);
    assert.match(stderr, /OptionError.*NBC_SECRET: must be set where MASTER_ADDR is/s);
  });
});

/** A port that was free a moment ago. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
