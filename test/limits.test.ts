/**
 * Limits of a process (ulimit): what a rank reserves fits in them, and where it cannot, a typed error names the limit
 * and what to do.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { forbid, program, skip } from './helpers.js';
import { run } from './support/commands.js';
import { FULL_SHM } from './support/shm.js';
import { type End, Launch, PROGRAM, ROOT } from './support/launch.js';

const KIB_PER_GIB = 1024 * 1024;

/** A program under limits, as `ulimit` takes them. */
function limited(limits: string, scenario: string, env: Record<string, string> = {}): Promise<End> {
  const command = `ulimit ${limits} && exec ${process.execPath} ${program('limits')} ${scenario}`;
  return run('bash', ['-c', command], env);
}

interface Told {
  name: string;
  code: string;
  message: string;
}

function told({ code, stdout, stderr }: End, expected = 0): Told[] {
  assert.equal(code, expected, stdout + stderr);
  return [...stdout.matchAll(/^report (.*)$/gm)].map(([, text]) => JSON.parse(text) as Told);
}

describe('a limit of address space', () => {
  it('is kept to by a rank alone, also where the machine has more memory', async () => {
    assert.deepEqual(told(await limited(`-v ${20 * KIB_PER_GIB}`, 'exchange')), []);
  });

  it('is kept to by the ranks of nbcrun', async () => {
    const nbcrun = new Launch(['-n', '2', PROGRAM, 'exchange'], { under: `ulimit -v ${20 * KIB_PER_GIB}` });
    const { code, stdout, stderr } = await nbcrun.end;
    assert.equal(stderr, '');
    assert.equal(stdout, 'sum 1\nsum 1\n');
    assert.equal(code, 0);
  });

  it('is named with the size and the option where what was asked for does not fit', async () => {
    const env = { NBC_EXPOSED_BYTES: `${64 * 2 ** 30}` };
    const [error] = told(await limited(`-v ${20 * KIB_PER_GIB}`, 'tell', env));
    assert.equal(error.name, 'ExhaustedError');
    assert.equal(error.code, 'ERR_NBC_NO_MEMORY');
    for (const part of ['64.0 GiB', 'ulimit -v', '20.0 GiB', 'NBC_EXPOSED_BYTES', 'exposedBytes'])
      assert(error.message.includes(part), `no ${part} in: ${error.message}`);
  });

  it('does not matter to a rank that is told to expose less', async () => {
    const env = { NBC_EXPOSED_BYTES: `${2 ** 28}` };
    assert.deepEqual(told(await limited(`-v ${20 * KIB_PER_GIB}`, 'exposesLittle', env)), []);
  });

  it('of an ArrayBuffer: alloc() of more bytes says that there is no memory', async () => {
    assert.deepEqual(told(await limited('-n 1024', 'exposesTooMuch')), []);
  });
});

describe('what a rank takes', () => {
  it('is little memory of its own until it has many requests', async () => {
    const measure = `import { readFileSync } from 'node:fs';
      import { init } from 'node-nbc';
      const anonymous = () => Number(/RssAnon:\\s+(\\d+)/.exec(readFileSync('/proc/self/status', 'latin1'))[1]);
      gc();
      const before = anonymous();
      const world = await init();
      console.log(anonymous() - before);
      await world.close();`;
    const { code, stdout, stderr } = await run(
      process.execPath,
      ['--expose-gc', '--input-type=module', '--eval', measure],
      {},
      { cwd: ROOT },
    );
    assert.equal(code, 0, stderr);
    // KiB. A list with a place for each request that could be would be 8 MiB.
    assert(Number(stdout) < 4096, `${stdout} KiB`);
  });
});

describe('a limit of the size of files', () => {
  const limit = 'ulimit -f 1048576'; // in KiB

  it('is kept to by the ranks of nbcrun', async () => {
    const { code, stdout, stderr } = await new Launch(['-n', '2', PROGRAM, 'exchange'], { under: limit }).end;
    assert.deepEqual([code, stdout, stderr], [0, 'sum 1\nsum 1\n', '']);
  });

  it('is named with the size and the option where what was asked for does not fit', async () => {
    const [error] = told(await limited('-f 1048576', 'tell', { NBC_EXPOSED_BYTES: `${2 ** 31}` }));
    assert.deepEqual([error.name, error.code], ['ExhaustedError', 'ERR_NBC_NO_MEMORY'], error.message);
    for (const part of ['2.0 GiB', '1.0 GiB (ulimit -f)', 'NBC_EXPOSED_BYTES'])
      assert(error.message.includes(part), `no ${part} in: ${error.message}`);
  });
});

describe('a small and full /dev/shm', () => {
  it('does not matter: the shared file of a job does not lie there', async function () {
    if (process.getuid?.() !== 0) skip(this, 'only root can mount a file system');
    const [unshare, ...args] = FULL_SHM;
    assert.deepEqual(told(await run(unshare, [...args, process.execPath, program('limits'), 'exchange'])), []);
  });

  it('is named with what to do where UCX needs it', async function () {
    if (process.getuid?.() !== 0) skip(this, 'only root can mount a file system');
    const [unshare, ...args] = FULL_SHM;
    const env = { NBC_TRANSPORT: 'ucx', UCX_TLS: 'sm,self' };
    const [error] = told(await run(unshare, [...args, process.execPath, program('limits'), 'tell'], env));
    if (error.message.includes('libucp')) skip(this, 'UCX is not installed');
    assert.match(error.message, /\/dev\/shm, which has 0 KiB left of 64 KiB\. Make it larger \(--shm-size/);
    assert.match(error.message, /UCX_TLS=tcp/);
  });
});

describe('a system that forbids', () => {
  const forbidding = (what: string, context: Mocha.Context): string[] =>
    forbid(what) ?? skip(context, 'native/test/forbid has not been built (npm test builds it)');

  for (const what of ['pidfd', 'namespaces', 'cross-memory']) {
    it(`${what} does not matter`, async function () {
      const [command, ...args] = forbidding(what, this);
      const job = await run(command, [
        ...args,
        process.execPath,
        join(ROOT, 'dist/cli/nbcrun.js'),
        '-n',
        '2',
        PROGRAM,
        'exchange',
      ]);
      assert.deepEqual([job.code, job.stdout, job.stderr], [0, 'sum 1\nsum 1\n', '']);
    });
  }

  it('memfd is named, with what to do, and TCP does without', async function () {
    const [command, ...args] = forbidding('memfd', this);
    const job = (env: Record<string, string>): Promise<End> =>
      run(command, [...args, process.execPath, join(ROOT, 'dist/cli/nbcrun.js'), '-n', '2', PROGRAM, 'exchange'], env);
    const refused = await job({});
    assert.equal(refused.code, 125);
    assert.match(refused.stderr, /memfd_create.*not permitted.*allow memfd_create, or use transport 'tcp'/);
    const { code, stdout } = await job({ NBC_TRANSPORT: 'tcp' });
    assert.deepEqual([code, stdout], [0, 'sum 1\nsum 1\n']);
  });
});

describe('a limit of descriptors', () => {
  for (const transport of ['auto', 'tcp']) {
    it('is named by nbcrun where it keeps ranks from starting', async () => {
      const nbcrun = new Launch(['-n', '32', '--label', PROGRAM, 'exchange'], { under: 'ulimit -n 64' });
      const { code, stderr } = await nbcrun.end;
      assert.equal(code, 125);
      assert.match(
        stderr,
        /^nbcrun: could not start rank \d+ \(.*\): the limit of open files is reached \(ulimit -n\); raise/m,
      );
    });

    it(`is named with the remedy, whatever the last descriptor was for (transport '${transport}')`, async () => {
      const errors = told(await limited('-n 64', 'descriptors', { NBC_TRANSPORT: transport }));
      assert(errors.length > 0);
      for (const { name, code, message } of errors) {
        assert.deepEqual([name, code], ['ExhaustedError', 'ERR_NBC_DESCRIPTORS'], message);
        assert.match(message, /64 descriptors open \(ulimit -n\), which is too few: raise the limit/);
      }
    });
  }

  it('is named with the remedy where it is reached after init(), and the shortage does not pass', async () => {
    const env = { NBC_TRANSPORT: 'tcp', NBC_PEER_TIMEOUT: '1000' };
    const args = ['-n', '3', program('limits'), 'descriptorsLater'];
    const [error] = told(await new Launch(args, { under: 'ulimit -n 80', env }).end, 1);
    assert.deepEqual([error.name, error.code], ['ExhaustedError', 'ERR_NBC_DESCRIPTORS'], error.message);
    assert.match(
      error.message,
      /^ialltoall: connecting to rank [12] .* again and again for \d+ ms; this process may have/,
    );
    assert.match(error.message, /80 descriptors open \(ulimit -n\), which is too few: raise the limit/);
  });
});
