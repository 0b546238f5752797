/**
 * What a launcher says wrongly, or by half: each is an error that names the variable and what to do, at once; nothing
 * hangs, nothing crashes.
 */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inFull, program, skip } from './helpers.js';
import { freePort, run } from './support/commands.js';

const STORE = { NBC_STORE: '127.0.0.1:4711', NBC_SECRET: 'a secret of this test' };
const PMI = { PMI_RANK: '0', PMI_SIZE: '2', PMI_FD: '99' };
const PMIX = { PMIX_RANK: '0', PMIX_NAMESPACE: 'nobody' };
const TORCHRUN = { RANK: '0', WORLD_SIZE: '2', MASTER_ADDR: '127.0.0.1', MASTER_PORT: '4711' };

/** A libpmix for rank 0 of 4, of which ranks 0 and 2 have told something. What STUB_SILENT names does not return. */
const STUB = `
  #include <stdint.h>
  #include <stdlib.h>
  #include <string.h>
  #include <unistd.h>
  struct proc { char nspace[256]; uint32_t rank; };
  struct value { uint16_t type; union { char *string; uint32_t number; void *largest[3]; } data; };
  static void answer(const char *name) {
    for (const char *silent = getenv("STUB_SILENT"); silent != NULL && strstr(silent, name) != NULL;) pause();
  }
  int PMIx_Init(struct proc *self, void *info, size_t n) {
    answer("PMIx_Init");
    self->rank = 0;
    return 0;
  }
  int PMIx_Finalize(const void *info, size_t n) { answer("PMIx_Finalize"); return 0; }
  int PMIx_Put(uint8_t scope, const char *key, struct value *value) { return 0; }
  int PMIx_Commit(void) { return 0; }
  int PMIx_Fence(const struct proc *procs, size_t n, const void *info, size_t m) { answer("PMIx_Fence"); return -24; }
  int PMIx_Get(const struct proc *proc, const char *key, const void *info, size_t n, struct value **got) {
    int size = strcmp(key, "pmix.job.size") == 0;
    if (!size) answer("PMIx_Get");
    if (!size && proc->rank % 2 == 1) return -46;
    *got = calloc(1, sizeof **got);
    (*got)->type = size ? 14 : 3;
    if (size) (*got)->data.number = 4;
    else (*got)->data.string = strdup("{}");
    return 0;
  }
  const char *PMIx_Error_string(int status) { return status == -24 ? "TIMEOUT" : "NOT-FOUND"; }
`;

/** A program with this environment does not get through init(), and says why. */
async function assertRefused(env: Record<string, string>, error: string, message: RegExp): Promise<void> {
  const { code, signal, stdout, stderr } = await run(process.execPath, [program('exchange')], env);
  assert.equal(signal, null, stdout + stderr);
  assert.equal(code, 1, stdout + stderr);
  assert(stderr.includes(error), stderr);
  assert.match(stderr, message);
}

/**
 * A rank of a process manager that answers each command with one line; with an empty one it ends, without one it is
 * silent.
 */
async function underManager(answers: Record<string, string>): Promise<{ code: number | null; stderr: string }> {
  const env = { ...process.env, ...PMI, PMI_FD: '3', NBC_JOIN_TIMEOUT: '4000' };
  const child = spawn(process.execPath, [program('exchange')], { env, stdio: ['ignore', 'ignore', 'pipe', 'pipe'] });
  const socket = child.stdio[3] as Socket;
  socket.setEncoding('utf8').on('data', (text: string) => {
    const answer = answers[/^cmd=(\w+)/.exec(text)?.[1] ?? ''] as string | undefined;
    if (answer === '') socket.destroy();
    else if (answer !== undefined) socket.write(`${answer}\n`);
  });
  socket.on('error', () => undefined); // it may be the first to end
  let stderr = '';
  child.stderr!.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  return new Promise((resolve) => child.on('close', (code) => resolve({ code, stderr })));
}

describe('what launchers say', () => {
  describe('that there are several ranks, but not how they find each other', () => {
    for (const [env, advice] of [
      [{ SLURM_PROCID: '1', SLURM_STEP_NUM_TASKS: '3' }, /srun started 3 ranks.*use srun --mpi=pmix, or set NBC_STORE/],
      [{ OMPI_COMM_WORLD_RANK: '1', OMPI_COMM_WORLD_SIZE: '3' }, /Open MPI's mpirun started 3 ranks.*PMIX_RANK/],
      [{ PMI_RANK: '1', PMI_SIZE: '3' }, /process manager \(PMI\) started 3 ranks.*PMI_FD/],
      [{ RANK: '1', WORLD_SIZE: '3' }, /torchrun started 3 ranks.*MASTER_ADDR/],
    ] as [Record<string, string>, RegExp][]) {
      it(Object.keys(env).join(' and '), () => assertRefused(env, 'ERR_NBC_OPTION', advice));
    }

    it('but NBC_RANK=0 and NBC_SIZE=1 wins over all', async () => {
      const several = {
        SLURM_PROCID: '1',
        SLURM_STEP_NUM_TASKS: '3',
        OMPI_COMM_WORLD_RANK: '1',
        OMPI_COMM_WORLD_SIZE: '3',
      };
      const env = { ...several, ...PMI, ...PMIX, ...TORCHRUN, ...STORE, NBC_RANK: '0', NBC_SIZE: '1' };
      const { code, stdout, stderr } = await run(process.execPath, [program('exchange')], env);
      assert.equal(code, 0, stderr);
      assert.match(stdout, /rank 0 of 1/);
    });

    it('one rank needs nobody', async () => {
      const env = {
        SLURM_PROCID: '0',
        SLURM_STEP_NUM_TASKS: '1',
        OMPI_COMM_WORLD_RANK: '0',
        OMPI_COMM_WORLD_SIZE: '1',
      };
      const { code, stdout, stderr } = await run(process.execPath, [program('exchange')], env);
      assert.equal(code, 0, stderr);
      assert.match(stdout, /rank 0 of 1/);
    });
  });

  describe('wrongly', () => {
    for (const [env, message] of [
      [{ NBC_RANK: '0', NBC_SIZE: '2' }, /NBC_STORE: is not set, and 2 ranks find each other by it.*or start.*nbcrun/],
      [STORE, /NBC_SIZE: is not set, though others are; let nbcrun set it, or see docs/],
      [{ ...STORE, SLURM_PROCID: '1' }, /SLURM_STEP_NUM_TASKS: is not set.*let srun set it/],
      [{ ...STORE, SLURM_PROCID: 'x', SLURM_STEP_NUM_TASKS: '2' }, /SLURM_PROCID: must be a whole number.*'x'/],
      [{ ...STORE, SLURM_PROCID: '2', SLURM_STEP_NUM_TASKS: '2' }, /SLURM_PROCID: is 2, but the job has 2 ranks/],
      [{ SLURM_PROCID: '0', SLURM_STEP_NUM_TASKS: '-2' }, /SLURM_STEP_NUM_TASKS: must be a whole number/],
      [{ ...STORE, OMPI_COMM_WORLD_RANK: '3', OMPI_COMM_WORLD_SIZE: '2' }, /OMPI_COMM_WORLD_RANK: is 3, but/],
      [{ ...STORE, JOB_COMPLETION_INDEX: '1' }, /NBC_SIZE: is not set.*Kubernetes/],
      [{ ...STORE, NBC_STORE: '127.0.0.1', NBC_RANK: '0', NBC_SIZE: '2' }, /NBC_STORE: must be host:port/],
      [{ ...PMI, PMI_RANK: 'x' }, /PMI_RANK: must be a whole number/],
      [{ ...PMI, PMI_RANK: '' }, /PMI_RANK: must be a whole number/],
      [{ ...PMI, PMI_RANK: '2' }, /PMI_RANK: is 2, but the job has 2 ranks/],
      [{ ...PMI, PMI_FD: '-1' }, /PMI_FD: must be a whole number/],
      [{ PMI_FD: '9' }, /PMI_SIZE: is not set/],
      [{ ...PMIX, PMIX_RANK: 'x' }, /PMIX_RANK: must be a whole number/],
      [{ ...TORCHRUN, MASTER_PORT: '99999' }, /MASTER_ADDR:MASTER_PORT: must be host:port.*127\.0\.0\.1:99999/],
      [
        { ...STORE, NBC_SECRET: '…', NBC_RANK: '0', NBC_SIZE: '2' },
        /NBC_SECRET: has 1 characters, and needs at least 16.*openssl rand -hex 32/,
      ],
      [{ ...STORE, NBC_SECRET: 'fifteen letters', NBC_RANK: '0', NBC_SIZE: '2' }, /NBC_SECRET: has 15 characters/],
      [{ ...STORE, NBC_JOB: 'x'.repeat(129), NBC_RANK: '0', NBC_SIZE: '2' }, /NBC_JOB: must have at most 128 bytes/],
      [{ ...TORCHRUN, NBC_SECRET: 'a secret of this test', RANK: '7' }, /RANK: is 7, but the job has 2 ranks/],
    ] as [Record<string, string>, RegExp][]) {
      const shown = Object.entries(env).filter(
        ([name]) => !(name in STORE && env[name] === STORE[name as 'NBC_STORE']),
      );
      const title = shown.map(([name, value]) => `${name}=${value}`).join(' ') || 'no rank at all';
      it(title, () => assertRefused(env, 'ERR_NBC_OPTION', message));
    }
  });

  describe('PMI_FD', () => {
    it('is closed', () => assertRefused(PMI, 'ERR_NBC_BOOTSTRAP', /descriptor 99 \(PMI_FD\) does not lead to/));
    const answers: Record<string, string> = {
      init: 'cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0',
      get_my_kvsname: 'cmd=my_kvsname kvsname=here rc=0',
      put: 'cmd=put_result rc=0',
      barrier_in: 'cmd=barrier_out rc=0',
      get: 'cmd=get_result rc=0 value=nonsense!',
    };
    for (const [title, given, message] of [
      ['leads to one that never answers', {}, /no answer to init within 4000 ms; did all ranks start/],
      ['leads to one that ends', { init: '' }, /\(PMI_FD\): it has ended/],
      ['leads to one that ends in the middle', { ...answers, barrier_in: '' }, /\(PMI_FD\): it has ended/],
      ['leads to one that refuses', { init: 'cmd=response_to_init rc=-1 msg=no' }, /\(PMI_FD\): init failed: no/],
      ['leads to one that tells nonsense', answers, /a rank told 'nonsense!'/],
    ] as [string, Record<string, string>, RegExp][]) {
      it(title, async () => {
        const { code, stderr } = await underManager(given);
        assert.equal(code, 1, stderr);
        assert(stderr.includes('ERR_NBC_BOOTSTRAP'), stderr);
        assert.match(stderr, message);
      });
    }

    it('has become one of those that Node opens for itself', async () => {
      // Each of these numbers is an epoll, an event counter or a pipe of Node in one version or another.
      const all = Array.from({ length: 20 }, (_, index) => `${3 + index}`);
      for (const fd of all) {
        await assertRefused({ ...PMI, PMI_FD: fd }, 'ERR_NBC_BOOTSTRAP', new RegExp(`descriptor ${fd} \\(PMI_FD\\)`));
      }
    });
  });

  describe('PMIx', () => {
    let folder: string;
    before(() => void (folder = mkdtempSync(join(tmpdir(), 'nbc-pmix-'))));
    after(() => rmSync(folder, { recursive: true }));

    it('nobody serves it', async function () {
      const { stderr } = await run(process.execPath, [program('exchange')], PMIX);
      if (stderr.includes('cannot be loaded')) skip(this, 'there is no libpmix.so.2');
      assert.match(stderr, /BootstrapError: PMIx: PMIx_Init, which needs the launcher.*NBC_RANK=0 and NBC_SIZE=1/);
    });

    it('libpmix cannot be loaded', () => {
      writeFileSync(join(folder, 'libpmix.so.2'), '');
      const env = { ...PMIX, LD_LIBRARY_PATH: folder };
      return assertRefused(
        env,
        'ERR_NBC_BOOTSTRAP',
        /libpmix\.so\.2 cannot be loaded \(Debian: apt install libpmix2; or set NBC_/,
      );
    });

    it('libpmix is something else', () => {
      copyFileSync(new URL('../../build/Release/nbc.node', import.meta.url), join(folder, 'libpmix.so.2'));
      const env = { ...PMIX, LD_LIBRARY_PATH: folder };
      return assertRefused(env, 'ERR_NBC_BOOTSTRAP', /libpmix\.so\.2 has no PMIx_Init/);
    });

    describe('its server never answers', () => {
      let env: Record<string, string>;
      before(function () {
        const [source, library] = ['stub.c', 'libpmix.so.2'].map((name) => join(folder, name));
        writeFileSync(source, STUB);
        rmSync(library, { force: true });
        const compiler = spawnSync('cc', ['-shared', '-fPIC', '-o', library, source], { encoding: 'utf8' });
        if (compiler.error !== undefined) skip(this, 'there is no compiler of C');
        assert.equal(compiler.status, 0, compiler.stderr);
        env = { ...PMIX, LD_LIBRARY_PATH: folder, NBC_JOIN_TIMEOUT: '1000' };
      });

      for (const [silent, message] of [
        ['PMIx_Init', /PMIx: no answer to PMIx_Init, within 2000 ms$/m],
        ['PMIx_Fence', /no answer to PMIx_Fence, which waits.*; ranks 1 and 3 of 4 did not join within 1000 ms$/m],
        [
          'PMIx_Fence PMIx_Get',
          /no answer to PMIx_Fence, which waits until all ranks have called init\(\), within \d+ ms$/m,
        ],
        ['PMIx_Finalize', /PMIx_Fence, which waits.*: TIMEOUT; ranks 1 and 3 of 4 did not join within 1000 ms$/m],
      ] as const) {
        const test = silent === 'PMIx_Fence' ? it : inFull;
        test(silent, () => assertRefused({ ...env, STUB_SILENT: silent }, 'ERR_NBC_BOOTSTRAP', message));
      }

      for (const silent of ['PMIx_Init', 'PMIx_Fence']) {
        it(`${silent}, and the signal of init() ends that`, async () => {
          const signal = { ...env, NBC_JOIN_TIMEOUT: '60000', STUB_SILENT: silent };
          const { code, stdout, stderr } = await run(process.execPath, [program('aborted-init'), '300'], signal);
          assert.equal(code, 0, stderr);
          assert.equal(stdout, 'aborted\n');
        });
      }

      inFull('PMIx_Fence, to a program that goes on, can try again, and ends by itself', async () => {
        const program = `
          import { init } from 'node-nbc';
          const codes = [];
          for (let i = 0; i < 2; i++) await init().catch(({ code }) => codes.push(code));
          console.log(codes.join());`;
        const args = ['--input-type=module', '-e', program];
        const { code, signal, stdout, stderr } = await run(process.execPath, args, {
          ...env,
          STUB_SILENT: 'PMIx_Fence',
        });
        assert.deepEqual({ code, signal }, { code: 0, signal: null }, stderr);
        assert.equal(stdout.trim(), 'ERR_NBC_BOOTSTRAP,ERR_NBC_BOOTSTRAP');
      });
    });
  });

  it('the name of the store is unknown to all ranks, rank 0 too', async () => {
    // The resolver refuses an empty label by itself, and asks no server that may be slow.
    const env = {
      ...STORE,
      NBC_STORE: `nowhere..invalid:${await freePort()}`,
      NBC_SIZE: '2',
      NBC_JOIN_TIMEOUT: '2000',
    };
    await assertRefused(
      { ...env, NBC_RANK: '0' },
      'ERR_NBC_BOOTSTRAP',
      /no address is known for 'nowhere\.\.invalid' \(NBC_STORE\)/,
    );
    await assertRefused({ ...env, NBC_RANK: '1' }, 'ERR_NBC_BOOTSTRAP', /no address is known for 'nowhere\.\.invalid'/);
  });
});
