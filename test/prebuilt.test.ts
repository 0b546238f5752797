/**
 * What `npm run release` makes: native parts that run with an old glibc, the same bytes from another folder, and a
 * package that is installed where there is no compiler.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { BRIEF, skip } from './helpers.js';
import { freePort, run as runCommand } from './support/commands.js';
import { ROOT } from './support/launch.js';
import { findRuntime, RUNTIMES_FOLDER } from './support/runtimes.js';

const { GLIBC, compareVersions, neededVersions } = (await import(join(ROOT, 'scripts/release/glibc.mjs'))) as {
  GLIBC: string;
  compareVersions: (a: string, b: string) => number;
  neededVersions: (file: string) => Record<string, string>;
};

const NATIVE = ['nbc.node', 'nbc-rank'];
const OTHER = process.arch === 'x64' ? 'arm64' : 'x64';
const QEMU = 'qemu-aarch64-static';
/** Where Debian's cross compiler has the libraries of arm64. */
const SYSROOT = '/usr/aarch64-linux-gnu';
const FIRST = ['rank 0 received 0,1', 'rank 1 received 0,1'];
/** What two ranks run that are threads: a small and a large reduction. */
const KERNEL = `import { SUM } from 'node-nbc';
export default async (world) => {
  const { rank, size } = world;
  let right = true;
  for (const length of [1, 1 << 17]) {
    const sum = new Float64Array(length);
    await world.iallreduce(new Float64Array(length).fill(rank + 1), sum, SUM);
    right &&= sum.every((value) => value === 3);
  }
  return \`rank \${rank} of \${size}: \${right ? 'right' : 'wrong'}\`;
};
`;
const THREADS = `import { runRanks } from 'node-nbc';
console.log(JSON.stringify(await runRanks(new URL('./kernel.mjs', import.meta.url), { size: 2 })));
`;

describe('the release', function () {
  // By the wall clock: most of it blocks until a compiler ends.
  this.timeout(1_800_000);
  const folder = mkdtempSync(join(tmpdir(), 'nbc-release-'));
  const release = join(folder, 'release');
  const project = join(folder, 'project');
  const installed = join(project, 'node_modules/node-nbc');
  const architectures: string[] = [process.arch];
  let tarball: string;
  let npm: string;

  function has(command: string): boolean {
    return spawnSync(command, ['--version']).error === undefined;
  }

  /** Standard output of a command that succeeds. */
  function run(cwd: string, command: string, args: readonly string[], env: Record<string, string> = {}): string {
    const options = { cwd, encoding: 'utf8', maxBuffer: 2 ** 26, env: { ...process.env, ...env } } as const;
    const { status, error, stdout, stderr } = spawnSync(command, args, options);
    const how = error?.message ?? `exit code ${status}`;
    assert.equal(status, 0, `${command} ${args.join(' ')}: ${how}\n${stdout}${stderr}`);
    return stdout;
  }

  function install(node = process.execPath, env: Record<string, string> = {}): void {
    rmSync(join(project, 'node_modules'), { recursive: true, force: true });
    rmSync(join(project, 'package-lock.json'), { force: true });
    const options = ['--no-audit', '--no-fund', '--prefer-offline', '--foreground-scripts'];
    run(project, node, [npm, 'install', ...options, tarball], env);
  }

  before(function () {
    if (!existsSync('/usr/include/infiniband/verbs.h')) skip(this, 'libibverbs-dev is not installed');
    if (!existsSync('/usr/include/ucp/api/ucp.h')) skip(this, 'libucx-dev is not installed');
    if (!BRIEF && has('aarch64-linux-gnu-g++')) architectures.push(OTHER);
    run(ROOT, process.execPath, ['scripts/release.mjs', '--built', '--to', release, ...architectures]);
    tarball = join(
      release,
      readdirSync(release).find((name) => name.endsWith('.tgz'))!,
    );
    // PATH has npm; beside it is what npx runs.
    npm = realpathSync(spawnSync('sh', ['-c', 'command -v npm'], { encoding: 'utf8' }).stdout.trim());
    mkdirSync(project);
    writeFileSync(join(project, 'package.json'), JSON.stringify({ name: 'empty', private: true, type: 'module' }));
    const program = /^```js\n([^]*?)^```$/m.exec(readFileSync(join(ROOT, 'README.md'), 'utf8'))?.[1];
    writeFileSync(join(project, 'first.mjs'), program!);
  });
  after(() => rmSync(folder, { recursive: true, force: true }));

  describe('native parts', () => {
    for (const arch of BRIEF ? [process.arch] : [process.arch, OTHER]) {
      it(`for ${arch} need glibc ${GLIBC} at most, and no libstdc++`, function () {
        if (!architectures.includes(arch)) skip(this, 'aarch64-linux-gnu-g++ is not installed');
        for (const name of NATIVE) {
          const file = join(release, 'package/prebuilds', `linux-${arch}`, name);
          accessSync(file, constants.X_OK);
          const { GLIBC: glibc = '', GCC: gcc = '0', ...others } = neededVersions(file);
          assert.ok(glibc !== '' && compareVersions(glibc, GLIBC) <= 0, `${name} needs glibc ${glibc}`);
          // libgcc_s.so.1: Node.js itself needs it.
          assert.ok(compareVersions(gcc, '4.2.0') <= 0, `${name} needs libgcc ${gcc}`);
          assert.deepEqual(others, {}, `${name} needs libstdc++`);
          const header = run(ROOT, 'readelf', ['--file-header', '--dynamic', file], { LC_ALL: 'C' });
          assert.match(header, arch === 'x64' ? /X86-64/ : /AArch64/);
          const libraries = [...header.matchAll(/NEEDED.*\[(.*)\]/g)].map(([, library]) => library);
          const allowed = /^(lib(c|dl|pthread|gcc_s|m)\.so\.\d|ld-linux-[-\w]+\.so\.\d)$/;
          assert.deepEqual(
            libraries.filter((library) => !allowed.test(library)),
            [],
          );
        }
      });
    }

    it('export nothing but the entry of an addon, and have verbs', () => {
      for (const arch of architectures) {
        const file = join(release, 'package/prebuilds', `linux-${arch}`, 'nbc.node');
        const symbols = run(ROOT, 'readelf', ['--dyn-syms', '--wide', file]).split('\n');
        const exported = symbols.filter((line) => /^ +\d+: [\da-f]+ .* (GLOBAL|WEAK|UNIQUE) +DEFAULT +\d+ /.test(line));
        const names = exported.map((line) => line.trim().split(/ +/).at(-1));
        assert.deepEqual(names.sort(), ['napi_register_module_v1', 'node_api_module_get_api_version_v1']);
        for (const library of ['libibverbs.so.1', 'libucp.so.0']) assert.ok(readFileSync(file).includes(library), arch);
      }
    });
  });

  it('lists what it made, by checksum', () => {
    for (const line of readFileSync(join(release, 'SHA256SUMS'), 'utf8').trim().split('\n')) {
      const [sum, name] = line.split('  ') as [string, string];
      const file = existsSync(join(release, name)) ? join(release, name) : join(release, 'package', name);
      assert.equal(createHash('sha256').update(readFileSync(file)).digest('hex'), sum, name);
    }
  });

  it('publishes what belongs there, with provenance', () => {
    const { publishConfig, scripts } = JSON.parse(readFileSync(join(release, 'package/package.json'), 'utf8')) as {
      publishConfig: object;
      scripts: Record<string, string>;
    };
    assert.deepEqual(publishConfig, { access: 'public', provenance: true });
    for (const name of ['preinstall', 'install', 'postinstall', 'prepare']) assert.ok(!(name in scripts), name);
    const output = run(folder, process.execPath, [npm, 'publish', '--dry-run', '--json', tarball]);
    const report = JSON.parse(output) as { files: { path: string }[] } & Record<string, { files: { path: string }[] }>;
    const paths = (report['node-nbc'] ?? report).files.map(({ path }) => path);
    const prebuilt = paths.filter((path) => path.startsWith('prebuilds/')).sort();
    const expected = architectures.flatMap((arch) => NATIVE.map((name) => `prebuilds/linux-${arch}/${name}`));
    assert.deepEqual(prebuilt, expected.sort());
    // npm, pnpm and Yarn each compile where they see one.
    assert.ok(!paths.some((path) => path.endsWith('.gyp')));
    assert.ok(!paths.some((path) => /^(build|out|test|scripts|native\/(test|fuzz|portable))\//.test(path)));
    assert.ok(paths.includes('native/Makefile') && paths.includes('dist/index.js'));
  });

  describe('installed without compiler, make and Python', () => {
    const bin = join(folder, 'bin');

    for (const name of BRIEF ? (['node20'] as const) : (['node20', 'node22', 'node24', 'node26'] as const)) {
      it(`runs nothing, and then the first program (${name})`, function () {
        const runtime = findRuntime(name);
        if (typeof runtime === 'string') skip(this, runtime);
        const node = runtime.command[0];
        rmSync(bin, { recursive: true, force: true });
        mkdirSync(bin);
        symlinkSync(node, join(bin, 'node'));
        const env = { PATH: bin };
        install(node, env);
        assert.ok(!readFileSync(join(project, 'package-lock.json'), 'utf8').includes('hasInstallScript'));
        assert.ok(!existsSync(join(installed, 'build')));
        const lines = run(project, join(project, 'node_modules/.bin/nbcrun'), ['-n', '2', 'first.mjs'], env);
        assert.deepEqual(lines.trim().split('\n').sort(), FIRST);
      });
    }
  });

  // To compile takes a minute, twice.
  if (BRIEF) return;

  it('for arm64 runs the first program, in an emulator', async function () {
    if (process.arch !== 'x64') skip(this, 'this machine has no other architecture to emulate');
    if (!architectures.includes('arm64')) skip(this, 'it was not made');
    if (!has(QEMU)) skip(this, `${QEMU} is not installed`);
    const node = join(RUNTIMES_FOLDER, 'node22-arm64');
    if (!existsSync(node)) skip(this, 'it is not there: node scripts/runtimes.mjs fetches it');
    install();
    const port = await freePort();
    const job = { NBC_SIZE: '2', NBC_STORE: `127.0.0.1:${port}`, NBC_SECRET: 'a secret of a test' };
    const program = join(project, 'first.mjs');
    const ranks = ['0', '1'].map((rank) =>
      runCommand(QEMU, ['-L', SYSROOT, node, program], { ...job, NBC_RANK: rank }),
    );
    const ends = await Promise.all(ranks);
    assert.deepEqual(
      ends.map(({ stdout, stderr }) => stdout.trim() || stderr),
      FIRST,
    );
    // And ranks that are threads of one process.
    writeFileSync(join(project, 'kernel.mjs'), KERNEL);
    writeFileSync(join(project, 'threads.mjs'), THREADS);
    const threads = await runCommand(QEMU, ['-L', SYSROOT, node, join(project, 'threads.mjs')]);
    assert.equal(threads.stdout.trim() || threads.stderr, '["rank 0 of 2: right","rank 1 of 2: right"]');
    // Without arguments it says how it is started. The emulator cannot start it for nbcrun.
    const starter = join(installed, 'prebuilds/linux-arm64/nbc-rank');
    const { status, stderr } = spawnSync(QEMU, ['-L', SYSROOT, starter], { encoding: 'utf8' });
    assert.match(stderr, /^usage: nbc-rank/);
    assert.equal(status, 125);
  });

  it('has the same bytes when it is made again, from another folder', () => {
    install();
    // The command for those whom the package brings no native part.
    const source = join(installed, 'native');
    run(project, 'make', ['-s', '-C', source], { CCACHE_DISABLE: '1' });
    for (const name of NATIVE) accessSync(join(installed, 'build/Release', name), constants.X_OK);
    symlinkSync(join(ROOT, 'native/portable'), join(source, 'portable'));
    const stubs = join(ROOT, 'build/prebuild', process.arch, 'stubs');
    const again = join(folder, 'again');
    const objects = join(installed, 'build/Release/obj');
    run(project, 'make', ['-s', '-C', source, `OUT=${again}`, `OBJECTS=${objects}`, `PORTABLE=${stubs}`]);
    for (const name of NATIVE) {
      const made = join(release, 'package/prebuilds', `linux-${process.arch}`, name);
      assert.ok(readFileSync(join(again, name)).equals(readFileSync(made)), `${name} differs`);
    }
    // What was built here comes first.
    const program = `console.log((await import(${JSON.stringify(join(installed, 'dist/binaries.js'))})).ADDON)`;
    const chosen = run(project, process.execPath, ['--input-type=module', '--eval', program]);
    assert.equal(chosen.trim(), join(realpathSync(installed), 'build/Release/nbc.node'));
    rmSync(join(installed, 'build'), { recursive: true });
    // The tarball as well.
    const second = join(folder, 'second');
    run(ROOT, process.execPath, ['scripts/release.mjs', '--built', '--to', second, ...architectures]);
    const sums = [release, second].map((made) => readFileSync(join(made, 'SHA256SUMS'), 'utf8'));
    assert.equal(sums[0], sums[1]);
  });
});
