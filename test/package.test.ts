/** What npm would publish: installs in an empty project, and does what the README shows. */
import assert from 'node:assert/strict';
import {
  cpSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { BRIEF } from './helpers.js';
import { run as runCommand } from './support/commands.js';
import { ROOT } from './support/launch.js';
import { LIMIT_S } from './support/limit.js';

interface Packed {
  filename: string;
  files: { path: string }[];
}

/** What native/Makefile makes. This checkout's is taken; test/prebuilt.test.ts compiles what was installed. */
const BUILT = ['nbc.node', 'nbc-rank'].map((file) => join('build/Release', file));

describe('the package', () => {
  const folder = mkdtempSync(join(tmpdir(), 'nbc-package-'));
  const project = join(folder, 'project');
  const installed = join(project, 'node_modules/node-nbc');
  let packed: Packed;

  /** Runs a command; its standard output if it succeeds. */
  async function run(cwd: string, command: string, ...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await runCommand(command, args, {}, { cwd, limitS: LIMIT_S.long });
    assert.equal(code, 0, `${command} ${args.join(' ')}: exit code ${code}\n${stdout}${stderr}`);
    return stdout;
  }

  before(async () => {
    mkdirSync(project);
    writeFileSync(join(project, 'package.json'), JSON.stringify({ name: 'empty', private: true, type: 'module' }));
    [packed] = JSON.parse(
      await run(ROOT, 'npm', 'pack', '--json', '--ignore-scripts', '--pack-destination', folder),
    ) as [Packed];
    const file = join(folder, packed.filename);
    const options = ['--no-audit', '--no-fund', '--prefer-offline'];
    await run(project, 'npm', 'install', ...options, file);
    mkdirSync(join(installed, 'build/Release'), { recursive: true });
    for (const file of BUILT) copyFileSync(join(ROOT, file), join(installed, file));
  });

  after(() => rmSync(folder, { recursive: true, force: true }));

  it('holds what it needs and nothing else', () => {
    const paths = packed.files.map(({ path }) => path);
    const needed = ['package.json', 'README.md', 'LICENSE', 'CHANGELOG.md', 'native/Makefile', 'native/optional.mk'];
    for (const path of [...needed, 'dist/index.js', 'dist/index.d.ts', 'native/addon/addon.cc']) {
      assert.ok(paths.includes(path), `${path} is missing`);
    }
    const allowed =
      /^(dist\/.*\.(c?js|d\.c?ts)|dist\/chunks\.json|native\/.*\.(cc|h)|native\/(Makefile|optional\.mk)|native\/addon\/exports\.map|prebuilds\/linux-(x64|arm64)\/nbc(\.node|-rank)|bench\/peers\/.*|bench\/METHOD\.md|docs\/[^/]*\.md|docs\/surface\.d\.ts|docs\/figures\/[^/]*\.(md|svg|txt)|(src\/schedules|docs\/guides|docs\/jobs|docs\/architecture|examples\/(calls|compression|fft3d|heat|statistics|survivor|training))\/.*|examples\/README\.md|[^/]+)$/;
    const strange = paths.filter((path) => !allowed.test(path) || /(^|\/)(test|build)\//.test(path));
    assert.deepEqual(strange, []);
  });

  it('loads little when it is imported', async () => {
    const program = `const before = new Set(process.moduleLoadList); await import('node-nbc');
      const loaded = process.moduleLoadList.filter((name) => !before.has(name)); // a stream to write to loads net
      process.stderr.write(loaded.join());`;
    const { stderr } = await runCommand(
      process.execPath,
      ['--input-type=module', '--eval', program],
      {},
      { cwd: project },
    );
    assert.match(stderr, /NativeModule worker_threads/);
    // Who looks for other ranks loads them.
    assert.doesNotMatch(stderr, /NativeModule (crypto|net|dgram|child_process)\b/);
    const files = readdirSync(join(installed, 'dist'));
    const wide = files.filter(
      // V8 keeps a file with any other character with two bytes for each.
      (file) => file.endsWith('.js') && /[^\0-\x7f]/.test(readFileSync(join(installed, 'dist', file), 'utf8')),
    );
    assert.deepEqual(wide, []);
  });

  it('names lines of the program, in folders with blanks and parentheses, too', async () => {
    const place = join(folder, 'in (a) folder');
    cpSync(installed, join(place, 'node_modules/node-nbc'), { recursive: true });
    const lines = [
      `import { init } from 'node-nbc';`,
      `const world = await init({ debug: true });`,
      `const request = world.irecv(new Uint8Array(1), 0, 1);`,
      `world.revoke();`,
      `await request.then(null, ({ calledAt }) => console.log(calledAt));`,
    ];
    writeFileSync(join(place, 'program.mjs'), lines.join('\n'));
    const { stdout, stderr } = await runCommand(process.execPath, ['program.mjs'], {}, { cwd: place });
    assert.equal(stdout, `${pathToFileURL(join(place, 'program.mjs')).href}:3:23\n`, stderr);
  });

  it('holds what its documents refer to', () => {
    const files = packed.files.map(({ path }) => path).filter((path) => path.endsWith('.md'));
    for (const document of ['docs/jobs.md', 'docs/architecture/protocol.md', 'examples/fft3d/README.md'])
      assert.ok(files.includes(document), document);
    for (const file of files) {
      const text = readFileSync(join(installed, file), 'utf8');
      for (const [, target] of text.matchAll(/\]\(([^)#:]+)\)/g)) {
        assert.ok(existsSync(join(installed, file, '..', target)), `${file} links to ${target}`);
      }
    }
  });

  it('is not made to be published as long as no repository is named', async () => {
    const { repository } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { repository?: unknown };
    if (repository !== undefined) return;
    const args = ['scripts/release.mjs', '--to-publish'];
    const { code, stderr } = await runCommand(process.execPath, args, {}, { cwd: ROOT });
    assert.equal(code, 1);
    assert.match(stderr, /package\.json has no repository.*docs\/install\.md/);
  });

  it("runs the README's first program", async () => {
    const readme = readFileSync(join(installed, 'README.md'), 'utf8');
    const program = /^```js\n([^]*?)^```$/m.exec(readme)?.[1];
    assert.ok(program !== undefined, 'the README has no block of js');
    writeFileSync(join(project, 'first.mjs'), program);
    const lines = (await run(project, 'npx', 'nbcrun', '-n', '4', 'first.mjs')).trim().split('\n');
    assert.deepEqual(
      lines.sort(),
      [0, 1, 2, 3].map((rank) => `rank ${rank} received 0,1,2,3`),
    );
  });

  it('runs it without the launcher as a job of one', async () => {
    assert.equal(await run(project, process.execPath, 'first.mjs'), 'rank 0 received 0\n');
  });

  it('has its commands', async () => {
    const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };
    for (const command of ['nbcrun', 'nbcbench', 'nbctop', 'nbctrace']) {
      assert.equal((await run(project, 'npx', command, '--version')).trim(), version);
    }
  });

  it('declares its types, for strict programs', async () => {
    const program = `
      import { alloc, Communicator, init, IN_PLACE, Request, waitAll } from 'node-nbc';
      import * as schedules from 'node-nbc/schedules';
      export async function exchange(): Promise<Float64Array> {
        await using world: Communicator = await init({ progress: 'thread' });
        const buffer: Float64Array = alloc(Float64Array, world.size);
        const request: Request = world.ialltoall(IN_PLACE, buffer, { algorithm: 'pairwise' });
        waitAll([request], 1000);
        return buffer;
      }
      export const known: object = schedules;
      // @ts-expect-error: operations make requests
      export const request = () => new Request();
      // @ts-expect-error: init(), dup() and split() make communicators
      export const communicator = () => new Communicator();
    `;
    writeFileSync(join(project, 'typed.ts'), program);
    const options = {
      compilerOptions: {
        target: 'ES2022',
        lib: ['ES2023', 'ESNext.Disposable'],
        module: 'NodeNext',
        strict: true,
        noEmit: true,
        types: ['node'],
        typeRoots: [join(ROOT, 'node_modules/@types')],
      },
      files: ['typed.ts'],
    };
    writeFileSync(join(project, 'tsconfig.json'), JSON.stringify(options));
    await run(project, process.execPath, join(ROOT, 'node_modules/typescript/bin/tsc'), '-p', '.');
  });

  describe('its types', () => {
    const TYPESCRIPT = join(ROOT, 'node_modules/typescript/bin/tsc');
    const USE = `
      import { alloc, type Communicator, createOp, init, IN_PLACE, type Request } from 'node-nbc';
      import * as schedules from 'node-nbc/schedules';
      export async function exchange(): Promise<Float64Array> {
        const world: Communicator = await init({ progress: 'thread' });
        const buffer: Float64Array = alloc(Float64Array, world.size);
        const request: Request = world.ialltoall(IN_PLACE, buffer, { algorithm: 'pairwise' });
        await request;
        world.iallreduce(IN_PLACE, buffer, createOp(new URL('file:///op.js'), { commutative: true })).wait();
        return buffer;
      }
      export const known: object = schedules;
    `;
    let oldest: string;

    before(async () => {
      if (BRIEF) return;
      const place = join(folder, 'typescript');
      mkdirSync(place);
      writeFileSync(join(place, 'package.json'), '{ "private": true }');
      await run(place, 'npm', 'install', '--no-audit', '--no-fund', '--prefer-offline', 'typescript@~5.4');
      oldest = join(place, 'node_modules/typescript/bin/tsc');
    });

    // To install the oldest one takes a while.
    for (const version of BRIEF ? ['this'] : ['5.4', 'this']) {
      for (const resolution of ['node16', 'bundler']) {
        for (const types of ['node', 'none']) {
          if (BRIEF && (resolution === 'node16') !== (types === 'node')) continue;
          const how = `${resolution}, ${types === 'node' ? 'with' : 'without'} @types/node`;
          it(`stand TypeScript ${version} without skipLibCheck (${how})`, async () => {
            const declared = 'declare const URL: new (text: string) => { readonly href: string };\n';
            const buffer = 'export const bytes: Buffer = alloc(Buffer, 4);\n';
            writeFileSync(join(project, 'use.ts'), USE + (types === 'node' ? buffer : declared));
            const options = {
              compilerOptions: {
                target: 'ES2022',
                lib: ['ES2022'],
                module: resolution === 'node16' ? 'Node16' : 'ESNext',
                moduleResolution: resolution,
                strict: true,
                skipLibCheck: false,
                noEmit: true,
                types: types === 'node' ? ['node'] : [],
                typeRoots: [join(ROOT, 'node_modules/@types')],
              },
              files: ['use.ts'],
            };
            writeFileSync(join(project, 'use.json'), JSON.stringify(options));
            await run(project, process.execPath, version === '5.4' ? oldest : TYPESCRIPT, '-p', 'use.json');
          });
        }
      }
    }
  });
});
