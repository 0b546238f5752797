import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { skip } from './helpers.js';
import { ROOT } from './support/launch.js';
import { kill, processesWith } from './support/processes.js';
import { until } from './support/until.js';

const SCRIPT = join(ROOT, 'scripts/rdma-guest');
/** Where the script keeps kernels, below the caches' folder. */
const KEPT = 'node-nbc/rdma-guest';
/** Longer than any test takes; those that use it wait for something else to end the guest. */
const FOREVER = ['sleep', '3600'];

interface End {
  code: number | null;
  stdout: Buffer;
  stderr: string;
}

describe('scripts/rdma-guest', () => {
  const mark = `NBC_TEST_MARK=${randomUUID()}`;
  let folder: string;
  let cache: string;
  let env: NodeJS.ProcessEnv;

  const start = (...args: string[]): ChildProcess =>
    spawn(SCRIPT, args, { cwd: ROOT, env, stdio: ['ignore', 'pipe', 'pipe'] });

  const run = async (...args: string[]): Promise<End> => {
    const child = start(...args);
    const stdout: Buffer[] = [];
    const stderr: Buffer[] = [];
    child.stdout!.on('data', (data: Buffer) => stdout.push(data));
    child.stderr!.on('data', (data: Buffer) => stderr.push(data));
    const code = await new Promise<number | null>((resolve, reject) => {
      child.once('error', reject);
      child.once('close', resolve);
    });
    return { code, stdout: Buffer.concat(stdout), stderr: Buffer.concat(stderr).toString() };
  };

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'nbc-test-'));
    cache = join(folder, 'cache');
    mkdirSync(join(cache, KEPT), { recursive: true });
    mkdirSync(join(folder, 'tmp'));
    const [name, value] = mark.split('=');
    env = { ...process.env, [name]: value, XDG_CACHE_HOME: cache, TMPDIR: join(folder, 'tmp') };
  });

  afterEach(() => {
    processesWith(mark).forEach(kill);
    rmSync(folder, { recursive: true, force: true });
  });

  describe('without a guest', () => {
    const runNow = (...args: string[]): [number | null, string] => {
      const { status, stdout, stderr } = spawnSync(SCRIPT, args, { env, encoding: 'utf8' });
      return [status, stdout + stderr];
    };

    it('explains itself', () => {
      const [status, text] = runNow('--help');
      assert.equal(status, 0);
      assert.match(text, /^Usage: scripts\/rdma-guest /);
    });

    it('exits with 64 when it is not understood', () => {
      for (const args of [
        [],
        ['--nonsense'],
        ['--link', 'lan', '--', 'true'],
        ['--delay', '1', '--', 'true'],
        ['--timeout', 'x', '--', 'true'],
        ['--peers', '3', '--', 'true'],
        ['--peers', '2', '--link', 'veth', '--', 'true'],
      ]) {
        const [status, text] = runNow(...args);
        assert.equal(status, 64, `${args.join(' ')}: ${text}`);
      }
    });

    it('exits with 69 and names what is missing', () => {
      const bin = join(folder, 'bin');
      mkdirSync(bin);
      writeFileSync(join(bin, 'dpkg'), '#!/bin/sh\necho amd64\n', { mode: 0o755 });
      writeFileSync(join(bin, 'dpkg-query'), '#!/bin/sh\nexit 1\n', { mode: 0o755 });
      writeFileSync(join(bin, 'apt-get'), '#!/bin/sh\nexit 1\n', { mode: 0o755 });
      env['PATH'] = `${bin}:${env['PATH']}`;
      const [status, text] = runNow('--check');
      assert.equal(status, 69);
      assert.match(text, /apt-get install .*\bqemu-system-x86\b.*\brdma-core\b/);
      assert.match(text, /a kernel in .*--setup/);
    });
  });

  describe('with a guest', () => {
    let missing: string;

    before(() => {
      const { status, stderr } = spawnSync(SCRIPT, ['--check'], { encoding: 'utf8' });
      missing = status === 0 ? '' : stderr.trim().replaceAll('\n', '; ');
    });

    beforeEach(function () {
      if (missing !== '') skip(this, missing);
      // A cache of our own that has the kernel already: what else is there at the end was left behind.
      const kernels = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), KEPT);
      for (const name of readdirSync(kernels)) {
        if (name.startsWith('linux-image-')) symlinkSync(join(kernels, name), join(cache, KEPT, name));
      }
    });

    const assertNothingLeft = async (): Promise<void> => {
      await until('all processes have ended', () => processesWith(mark).length === 0);
      assert.deepEqual(readdirSync(join(folder, 'tmp')), []);
      const left = readdirSync(join(cache, KEPT)).filter((name) => !name.startsWith('linux-image-') && name !== 'lock');
      assert.deepEqual(left, []);
    };

    it('brings back the exit status, both streams unmixed and unchanged, and results', async () => {
      const results = join(folder, "results, it's new");
      mkdirSync(results);
      const bytes = randomBytes(300_000);
      writeFileSync(join(results, 'input'), bytes);
      env['NBC_TEST_VARIABLE'] = 'a "b"\n$c';
      const script = `
        cat "$1/input"
        echo to stderr >&2; echo and again >/dev/stderr; cat
        { pwd; id -u; echo "$NBC_TEST_VARIABLE"; ls /sys/class/infiniband; } >"$1/found"
        exit 37`;
      const { code, stdout, stderr } = await run('--results', results, '--', 'bash', '-c', script, 'name', results);
      assert.equal(stderr, 'to stderr\nand again\n');
      assert.equal(code, 37);
      assert(stdout.equals(bytes), `${stdout.length} of ${bytes.length} bytes, or others`);
      assert.equal(readFileSync(join(results, 'found'), 'utf8'), `${ROOT}\n0\n${env['NBC_TEST_VARIABLE']}\nrxe0\n`);
      await assertNothingLeft();
    });

    it('ends a command that takes too long', async () => {
      const { code, stderr } = await run('--timeout', '5', '--', ...FOREVER);
      assert.equal(code, 124, stderr);
      assert.match(stderr, /not done after 5 s/);
      await assertNothingLeft();
    });

    it('prints as the command prints, and ends with it on SIGTERM', async () => {
      const child = start('--', 'bash', '-c', `echo here; exec ${FOREVER.join(' ')}`);
      const closed = new Promise((resolve) => child.once('close', resolve));
      const first = await new Promise((resolve) =>
        child.stdout!.once('data', (data: Buffer) => resolve(data.toString())),
      );
      assert.equal(first, 'here\n');
      child.kill('SIGTERM');
      assert.equal(await closed, 143);
      await assertNothingLeft();
    });

    it('fails with the console when the guest ends without the command', async () => {
      const crash = 'echo 1 >/proc/sys/kernel/sysrq; echo c >/proc/sysrq-trigger; sleep 60';
      const { code, stderr } = await run('--', 'bash', '-c', crash);
      assert.equal(code, 70, stderr);
      assert.match(stderr, /Kernel panic/);
      await assertNothingLeft();
    });

    it('joins two guests by a network, and exits with the status of the one that fails', async () => {
      const script = `
        ls /sys/class/infiniband
        latency() { ib_write_lat -d rxe0 -x 1 -n 5 "$@" >/tmp/latency 2>&1; }
        if [[ $NBC_GUEST == 1 ]]; then latency; else until latency 10.7.2.1; do sleep 0.1; done; fi || exit
        echo "guest $NBC_GUEST reaches the other"; exit $((NBC_GUEST == 2 ? 41 : 0))`;
      const { code, stdout, stderr } = await run('--peers', '2', '--', 'bash', '-c', script);
      assert.equal(code, 41, stderr);
      const lines = stdout.toString().trim().split('\n').sort();
      assert.deepEqual(lines, ['guest 1 reaches the other', 'guest 2 reaches the other', 'rxe0', 'rxe0']);
      await assertNothingLeft();
    });

    it('joins two devices by a link with a delay, beside the one without', async () => {
      const delayMs = 30;
      const script = `
        ls /sys/class/infiniband >&2
        ib_write_lat -d rxd -x 1 -n 5 >/tmp/server 2>&1 & server=$!
        until ss -Hltn 'sport = 18515' | grep -q .; do kill -0 $server && sleep 0.1 || exit; done
        ib_write_lat -d rxc -x 1 -n 5 10.7.0.2 2>&1 && wait $server || { cat /tmp/server; false; }`;
      const { code, stdout, stderr } = await run('--link', 'both', '--delay', `${delayMs}`, '--', 'bash', '-c', script);
      assert.equal(code, 0, `${stdout.toString()}${stderr}`);
      assert.equal(stderr, 'rxc\nrxd\nrxe0\n', 'what ls says; a warning of perftest is in stdout');
      // The table's columns: size, iterations, least, most and typical time, one way in µs.
      const rows = stdout.toString().split('\n');
      const [, , least] = rows.map((row) => row.trim().split(/\s+/)).find(([size]) => size === '2')!;
      // perftest measures how fast the clock of the processor runs. A busy emulated machine makes it err.
      assert(Number(least) > (delayMs * 1000) / 2, `${least} µs`);
      await assertNothingLeft();
    });
  });
});
