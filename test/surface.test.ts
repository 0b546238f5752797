/**
 * What the package says to programs that use it in ways that cannot work; how its files are bundled; and that they
 * import each other without circles.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, normalize } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Communicator, NbcError, Request } from 'node-nbc';
import { ROOT } from './support/launch.js';

describe('the public surface', () => {
  it('is the one that docs/surface.d.ts shows', async () => {
    const script = (await import(pathToFileURL(join(ROOT, 'scripts/surface.mjs')).href)) as {
      surface: () => Promise<string>;
    };
    const built = await script.surface();
    const shown = readFileSync(join(ROOT, 'docs/surface.d.ts'), 'utf8');
    const only = (one: string, other: string): string[] =>
      one.split('\n').filter((line) => !other.split('\n').includes(line));
    const changes = [
      ...only(shown, built).map((line) => `- ${line}`),
      ...only(built, shown).map((line) => `+ ${line}`),
    ];
    assert(built === shown, `if programs shall see this change, npm run docs:surface\n${changes.join('\n')}`);
  });

  it('says who makes requests and communicators to a program that uses new', () => {
    for (const [Class, expected] of [
      [Request, /operations of a communicator make requests/],
      [Communicator, /init\(\) makes the first one/],
    ] as const) {
      const construct = Class as unknown as new () => unknown;
      assert.throws(
        () => new construct(),
        (error: unknown) => error instanceof NbcError && expected.test(error.message),
      );
    }
  });

  it('says how to build the addon where there is none', () => {
    const folder = mkdtempSync(join(tmpdir(), 'nbc-surface-'));
    try {
      cpSync(join(ROOT, 'dist'), join(folder, 'dist'), { recursive: true });
      cpSync(join(ROOT, 'package.json'), join(folder, 'package.json'));
      symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
      writeFileSync(join(folder, 'program.mjs'), "import { init } from 'node-nbc';\nawait init();\n");
      const { status, stderr } = spawnSync(process.execPath, ['program.mjs'], { cwd: folder, encoding: 'utf8' });
      assert.notEqual(status, 0);
      assert.match(stderr, /native part of node-nbc is missing[^]*glibc 2\.28[^]*make -C \S*\/native/);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});

describe('dist/', () => {
  /** Imports these files of dist/ in a process of its own, and says whether that has loaded the addon. */
  function loadsAddon(...files: string[]): boolean {
    const urls = files.map((file) => pathToFileURL(join(ROOT, 'dist', file)).href);
    const program = `import { readFileSync } from 'node:fs';
      for (const url of ${JSON.stringify(urls)}) await import(url);
      console.log(readFileSync('/proc/self/maps', 'latin1').includes('/nbc.node'));`;
    const options = { encoding: 'utf8' } as const;
    const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', program], options);
    assert.match(stdout, /^(true|false)\n$/, stderr);
    return stdout === 'true\n';
  }

  it('has each class once, whichever file is imported', async () => {
    const files = readdirSync(join(ROOT, 'dist')).filter(
      (name) => name.endsWith('.js') && !name.endsWith('-worker.js'),
    );
    const surface: Record<string, unknown> = { ...(await import('node-nbc')) };
    const found = new Set<string>();
    for (const file of files) {
      const inside = (await import(join(ROOT, 'dist', file))) as Record<string, unknown>;
      for (const [name, value] of Object.entries(inside)) {
        if (!Object.hasOwn(surface, name)) continue;
        assert.equal(value, surface[name], `${name} of ${file}`);
        if (file !== 'index.js') found.add(name);
      }
    }
    assert.deepEqual([...found].sort(), Object.keys(surface).sort());
  });

  it('loads the addon where it is needed, and nowhere else', () => {
    assert.equal(loadsAddon('index.js'), true);
    assert.equal(loadsAddon('schedules/index.js', 'errors.js', 'transport/store/local.js', 'trace/merge.js'), false);
  });
});

describe('src/', () => {
  const SOURCE = join(ROOT, 'src');
  const files = readdirSync(SOURCE, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.ts'));
  const imports = new Map(files.map((file) => [file, importsOf(file)]));

  /** The files of src/ that a file imports, types included. */
  function importsOf(file: string): string[] {
    const text = readFileSync(join(SOURCE, file), 'utf8');
    const names = [...text.matchAll(/(?:from|import\() ?'(\.[^']*)\.js'/g)];
    return names.map(([, name]) => normalize(join(dirname(file), `${name}.ts`)));
  }

  it('has no circle of imports', () => {
    const finished = new Set<string>();
    const visit = (file: string, path: readonly string[]): void => {
      assert(!path.includes(file), `a circle: ${[...path.slice(path.indexOf(file)), file].join(' -> ')}`);
      if (finished.has(file)) return;
      for (const next of imports.get(file) ?? []) visit(next, [...path, file]);
      finished.add(file);
    };
    for (const file of files) visit(file, []);
    assert(finished.size > 30, 'the files were read');
  });
});
