/** Ranks that a real Slurm starts, on two nodes that are this machine: see support/slurm.ts. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { program, skip } from './helpers.js';
import { commandsOf, freePort, makeUsersFolder } from './support/commands.js';
import type { End } from './support/launch.js';
import { assertLostPeer } from './support/lost-peer.js';
import { missingPrograms, Slurm } from './support/slurm.js';

const RANKS = 3;
const EXCHANGE = [process.execPath, program('exchange')];
const LEAVER = 1;

const both = ({ stdout, stderr }: End): string => `${stdout}\n${stderr}`;

function assertExchanged(end: End, ranks = RANKS, output = end.stdout): void {
  assert.equal(end.code, 0, `${both(end)}\n${output}`);
  const expected = Array.from({ length: ranks }, (_, rank) => `exchanged: rank ${rank} of ${ranks}`);
  assert.deepEqual(output.trim().split('\n').sort(), expected, both(end));
}

describe('Slurm', () => {
  let slurm: Slurm | undefined;

  before(async function () {
    const missing = missingPrograms();
    if (missing.length > 0) {
      skip(this, `there is no ${missing.join(', ')} (Debian: slurmctld, slurmd, slurm-client, munge)`);
    }
    slurm = await Slurm.start();
  });

  after(async () => {
    if (slurm === undefined) return;
    await slurm.stop();
    assert.deepEqual(slurm.processes(), []);
    assert(!existsSync(slurm.directory));
  });

  const srun = (args: string[], env: Record<string, string> = {}): Promise<End> => slurm!.run('srun', args, env);

  /** How ranks find each other: options of srun, and what else is to be set. */
  const ways: Record<string, { options: string[]; nodes: number; variables: () => Promise<Record<string, string>> }> = {
    // Slurm's PMIx does not serve two nodes of one machine.
    'by PMIx': { options: ['--mpi=pmix'], nodes: 1, variables: async () => ({}) },
    "by Slurm's PMI": { options: ['--mpi=pmi2'], nodes: 2, variables: async () => ({}) },
    'by a store': {
      options: ['--mpi=none'],
      nodes: 2,
      variables: async () => ({ NBC_STORE: `127.0.0.1:${await freePort()}`, NBC_SECRET: 'a secret of this test' }),
    },
  };

  for (const [name, { options, nodes, variables }] of Object.entries(ways)) {
    const start = [...options, `--nodes=${nodes}`, `--ntasks=${RANKS}`];

    describe(`ranks that find each other ${name}, on ${nodes} nodes`, () => {
      for (const transport of ['auto', 'tcp']) {
        it(`exchange, transport '${transport}'`, async () => {
          assertExchanged(await srun([...start, ...EXCHANGE], { ...(await variables()), NBC_TRANSPORT: transport }));
        });

        for (const [scenario, end] of [
          ['killOne', 'is killed'],
          ['exitOne', 'exits'],
        ]) {
          it(`one ${end}, and the others fail, transport '${transport}'`, async () => {
            const env = { ...(await variables()), NBC_TRANSPORT: transport };
            const result = await srun([...start, process.execPath, program('exits'), scenario], env);
            assert.match(result.stderr, new RegExp(`task ${LEAVER}: (Killed|Exited with exit code 7)`), both(result));
            // They would have said so if anything else had gone wrong, and srun had, if they had ended otherwise.
            assert.doesNotMatch(result.stderr, /task(?!.* 1:)/, both(result));
            const reports = [...result.stdout.matchAll(/^report (.*)$/gm)];
            assert.equal(reports.length, RANKS - 1, both(result));
            for (const [, text] of reports) {
              assertLostPeer((JSON.parse(text) as { codes: string[] }).codes);
            }
          });
        }
      }

      it('one ends before init(), and the others say so', async () => {
        const script = `[ $SLURM_PROCID = ${LEAVER} ] || exec ${EXCHANGE.join(' ')}`;
        const env = { ...(await variables()), NBC_JOIN_TIMEOUT: '2000' };
        const result = await srun([...start, 'bash', '-c', script], env);
        const errors = [...result.stderr.matchAll(/BootstrapError: (.*)$/gm)].map(([, message]) => message);
        assert.equal(errors.length, RANKS - 1, both(result));
        for (const message of errors) assert.match(message, /rank 1 of 3 did not join|all ranks/);
        assert.match(result.stderr, /tasks? 0(,|:)/);
      });
    });
  }

  it('ranks of one node by shared memory, others by TCP', async () => {
    // One machine is one host; the nodes say that they are two.
    const script = `NBC_HOST=$SLURMD_NODENAME exec ${EXCHANGE.join(' ')}`;
    assertExchanged(await srun(['--mpi=pmi2', '--nodes=2', '--ntasks=4', 'bash', '-c', script]), 4);
  });

  it('ranks that cannot find each other say what to do', async () => {
    const result = await srun(['--mpi=none', `--ntasks=${RANKS}`, ...EXCHANGE]);
    assert.notEqual(result.code, 0);
    const errors = result.stderr.match(/OptionError.*srun started 3 ranks.*use srun --mpi=pmix/g);
    assert.equal(errors?.length, RANKS, both(result));
  });

  describe('the guide', () => {
    let folder: string;
    before(() => {
      folder = join(slurm!.directory, 'user');
      makeUsersFolder(folder, program('exchange'));
    });

    for (const command of commandsOf('docs/jobs/slurm.md')) {
      it(command, async () => {
        const end = await slurm!.run('bash', ['-c', `cd ${folder} && ${command}`], { SBATCH_WAIT: '1' });
        const file = readdirSync(folder).find((name) => /^slurm-\d+\.out$/.test(name));
        const batch = command.startsWith('sbatch');
        assert.equal(file !== undefined, batch, both(end));
        assertExchanged(end, 8, file === undefined ? end.stdout : readFileSync(join(folder, file), 'utf8'));
      });
    }

    it('shows a command for srun, and one for sbatch', () => {
      const programs = commandsOf('docs/jobs/slurm.md').map((command) => command.split(' ')[0]);
      assert.deepEqual(new Set(programs), new Set(['srun', 'sbatch']));
    });
  });
});
