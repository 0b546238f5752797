/**
 * Where a process may do less than usual: the permission model of Node.js, an installation that cannot be written, a
 * user who is not root, few descriptors. Each works, or fails with an error that says what to allow.
 */
import assert from 'node:assert/strict';
import { chmodSync, cpSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { skip } from './helpers.js';
import { run } from './support/commands.js';
import { type End, ROOT } from './support/launch.js';
import { findRuntime } from './support/runtimes.js';

const PROGRAM = `
import { init, SUM } from 'node-nbc';
const world = await init();
const sum = new Float64Array([world.rank + 1]);
await world.iallreduce(sum, sum.slice(), SUM);
console.log(world.size);
await world.close();
`;
/** Node.js has all of its own threads first: it ends where it cannot have those. */
const THREADS = `
import { readFile } from 'node:fs/promises';
import { init } from 'node-nbc';
await Promise.all(Array.from({ length: 16 }, () => readFile('/proc/self/limits')));
await init().then(
  (world) => world.close(),
  ({ code, message }) => console.log(code, message),
);
`;
const WAITING = { NBC_RANK: '0', NBC_SIZE: '2', NBC_STORE: '127.0.0.1:9', NBC_SECRET: 'a secret of a test' };
const NOBODY = 65534;
/** A user who has no process yet, perhaps. */
const SOMEBODY = 61_000 + (process.pid % 1000);
const as = (user: number): string[] => ['--reuid', `${user}`, '--regid', `${user}`, '--clear-groups', '--'];

describe('with fewer permissions', () => {
  /** A project with the package as it is installed: nothing but what is published. */
  const folder = mkdtempSync(join(tmpdir(), 'nbc-permissions-'));
  const program = join(folder, 'program.mjs');
  const installed = join(folder, 'node_modules/node-nbc');
  const nbcrun = join(installed, 'dist/cli/nbcrun.js');

  before(() => {
    for (const path of ['dist', 'package.json', 'build/Release/nbc.node', 'build/Release/nbc-rank'])
      cpSync(join(ROOT, path), join(installed, path), { recursive: true });
    cpSync(join(ROOT, 'node_modules/commander'), join(folder, 'node_modules/commander'), { recursive: true });
    writeFileSync(program, PROGRAM);
    chmodSync(folder, 0o755);
  });
  after(() => rmSync(folder, { recursive: true, force: true }));

  function assertRan({ code, stdout, stderr }: End, ranks: number): void {
    assert.equal(code, 0, stderr);
    assert.deepEqual(stdout.trim().split('\n'), Array<string>(ranks).fill(`${ranks}`));
  }

  for (const name of ['node20', 'node22', 'node24', 'node26'] as const) {
    describe(`in ${name} --permission`, () => {
      const model = [name === 'node20' ? '--experimental-permission' : '--permission', `--allow-fs-read=${folder}`];
      const restrictsNetwork = name === 'node26';
      let node: string;
      before(function () {
        const runtime = findRuntime(name);
        if (typeof runtime === 'string') skip(this, runtime);
        node = runtime.command[0];
      });

      it('a program needs --allow-addons', async () => {
        const { code, stderr } = await run(node, [...model, program]);
        assert.equal(code, 1);
        assert.match(stderr, /permission model of Node\.js[^]*allow it with --allow-addons/);
        assertRan(await run(node, [...model, '--allow-addons', program]), 1);
      });

      it('nbcrun needs --allow-child-process', async () => {
        const { code, stderr } = await run(node, [...model, '--allow-addons', nbcrun, '-n', '2', program]);
        assert.equal(code, 125);
        const options = `--allow-child-process${restrictsNetwork ? ' and --allow-net' : ''}`;
        assert.match(stderr, new RegExp(`^nbcrun: the permission model .* allow it with ${options}$`, 'm'));
      });

      it('runs ranks with what the errors name', async () => {
        const options = ['--allow-addons', '--allow-child-process', ...(restrictsNetwork ? ['--allow-net'] : [])];
        for (const bind of ['none', 'core'])
          assertRan(await run(node, [...model, ...options, nbcrun, '-n', '2', '--bind', bind, program]), 2);
      });

      if (restrictsNetwork) {
        it('a rank, and nbcrun --store, need --allow-net', async () => {
          const rank = await run(node, [...model, '--allow-addons', program], WAITING);
          assert.equal(rank.code, 1);
          assert.match(rank.stderr, /BootstrapError: .*allow it with --allow-net/);
          const store = await run(node, [...model, nbcrun, '--store', '127.0.0.1:0', '-n', '2']);
          assert.equal(store.code, 125);
          assert.match(store.stderr, /allow it with --allow-net$/m);
        });
      }
    });
  }

  it('runs from a folder that cannot be written, as a user who is not root', async function () {
    if (process.getuid?.() !== 0) skip(this, 'only root can become another user');
    for (const path of readdirSync(folder, { recursive: true, encoding: 'utf8' })) chmodSync(join(folder, path), 0o555);
    chmodSync(folder, 0o555);
    assertRan(await run('setpriv', [...as(NOBODY), process.execPath, nbcrun, '-n', '2', program]), 2);
    chmodSync(folder, 0o755);
  });

  it('a rank names the limit of threads, with the remedy', async function () {
    if (process.getuid?.() !== 0) skip(this, 'only root can become another user');
    const threads = join(folder, 'threads.mjs');
    writeFileSync(threads, THREADS);
    const errors: string[] = [];
    // Node.js itself aborts where it cannot have its own threads; those ends do not count.
    for (let most = 9; ; most++) {
      const limited = ['bash', '-c', `ulimit -u ${most} && exec "$0" "$1"`, process.execPath, threads];
      const { code, signal, stdout, stderr } = await run('setpriv', [...as(SOMEBODY), ...limited]);
      assert.doesNotMatch(stderr, /terminate called/);
      if (signal === 'SIGABRT') continue;
      assert.equal(code, 0, stderr);
      if (stdout === '') break;
      errors.push(stdout);
    }
    assert(errors.length > 0);
    for (const error of errors)
      assert.match(error, /^ERR_NBC_OPEN .*threads of this rank: .*; raise the limit of threads \(ulimit -u/);
  });
});
