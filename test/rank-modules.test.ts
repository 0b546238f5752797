/**
 * How threads of runRanks() load the module of the program (src/rank-module.ts): by `require()` where it does what
 * `import()` does. A program in a process of its own runs modules of all kinds, once each, and tells of them.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { BRIEF, skip } from './helpers.js';
import { findRuntime } from './support/runtimes.js';

/** Notes that the module runs, in a file: so one that runs twice is seen, also where it throws. */
const note = (append: string): string =>
  `${append}(new URL('runs', URL_OF).pathname, URL_OF.replace(/.*\\//, '') + ' ');`;
const ES = `import { appendFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
const URL_OF = import.meta.url;
${note('appendFileSync')}
const byRequire = () => createRequire(URL_OF).cache[fileURLToPath(URL_OF)] !== undefined;\n`;
const RETURNS = 'export default async () => ({ byRequire: byRequire(), text });\n';
const COMMON = `const URL_OF = require('node:url').pathToFileURL(__filename).href;
${note("require('node:fs').appendFileSync")}\n`;

const FILES: Record<string, string> = {
  'package.json': '{ "type": "module" }',
  'plain.mjs': `${ES}const text = 'plain'; ${RETURNS}`,
  'typed.js': `${ES}const text = 'typed'; ${RETURNS}`,
  'with a blank, 100%.mjs': `${ES}const text = 'blank'; ${RETURNS}`,
  'asking.mjs': `${ES}const text = new URL(URL_OF).search; ${RETURNS}`,
  'waits.mjs': `${ES}const text = await 'waits'; ${RETURNS}`,
  'of-waits.mjs': `${ES}import './waits.mjs'; const text = 'of waits'; ${RETURNS}`,
  'common.cjs': `${COMMON}module.exports = async () => ({ byRequire: __filename in require.cache, text: 'common' });`,
  'inner/plain.mjs': `${ES}const text = 'inner'; ${RETURNS}`,
  'typeless/package.json': '{}',
  'typeless/common.js': `${COMMON}module.exports = async () => ({ text: 'common' });`,
  'typeless/inner/deep.js': `${COMMON}module.exports = async () => ({ text: 'deep' });`,
  // Whoever requires it is given that, whoever imports it the default.
  'named.mjs': `${ES}const text = 'default'; const other = async () => ({ text: 'other' });
    export { other as 'module.exports' }; ${RETURNS}`,
  'thenable.mjs': `${ES}export function then(resolve) { resolve({ default: async () => ({ text: 'then' }) }); }
    const text = 'default'; ${RETURNS}`,
  'promises.mjs': `${ES}export default Promise.resolve(async () => ({ text: 'awaited' }));`,
  'of-common.mjs': `${ES}import { nope } from './common.cjs'; const text = nope; ${RETURNS}`,
  'of-requiring.mjs': `${ES}import './requires-waits.cjs'; const text = ''; ${RETURNS}`,
  'requires-waits.cjs': `${COMMON}require('./waits.mjs');`,
  // Returns its argument.
  'wasm.mjs': `${ES}import { same } from './same.wasm'; const text = same(7); ${RETURNS}`,
  'throws.mjs': `${ES}throw new TypeError('mine');`,
  'throws.cjs': `${COMMON}throw new TypeError('mine');`,
  'lacks.cjs': `${COMMON}require('./nothing.cjs');`,
  'lacks.mjs': `${ES}import './nothing.mjs';`,
  'puts-hooks-in.mjs': `${ES}import { register } from 'node:module';
    register('./hooks.mjs', URL_OF);
    const text = 'puts in'; ${RETURNS}`,
  'hooks.mjs': `export async function load(url, context, next) {
    const loaded = await next(url, context);
    if (!url.endsWith('/plain.mjs')) return loaded;
    return { ...loaded, source: String(loaded.source).replace("'plain'", "'hooked'") };
  }`,
  'registers.mjs': `import { register } from 'node:module';
    register('./hooks.mjs', import.meta.url);`,
  // Modules are named as arguments. They run one after another on the same thread.
  'program.mjs': `import { createRankPool } from ${JSON.stringify(import.meta.resolve('node-nbc'))};
    const pool = createRankPool({ size: 1 });
    for (const name of process.argv.slice(2)) {
      const href = new URL(name, import.meta.url).href;
      try {
        const [result] = await pool.run(href);
        console.log(JSON.stringify(result));
      } catch ({ code, message, cause }) {
        console.log(JSON.stringify({ code, message, cause: [cause?.name, cause?.message, cause?.code] }));
      }
    }
    await pool.close();`,
};

/** A module of WebAssembly that exports `same`, a function from a number to that. */
const SAME = [
  ...[0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 1, 6, 1, 0x60, 1, 0x7f, 1, 0x7f, 3, 2, 1, 0],
  ...[7, 8, 1, 4, 0x73, 0x61, 0x6d, 0x65, 0, 0, 10, 6, 1, 4, 0, 0x20, 0, 0x0b],
];

/** What Node.js 26 says of hooks of this kind. */
const DEPRECATED = /.*DEP0205.*\n.*\n/g;

interface Told {
  byRequire?: boolean;
  text?: unknown;
  code?: string;
  message?: string;
  cause?: [name: string, message: string, code?: string];
}

for (const name of BRIEF ? (['node20'] as const) : (['node20', 'node22', 'node24', 'node26'] as const)) {
  describe(`a thread's module, in ${name},`, () => {
    let node: string;
    let folder: string | undefined;
    /** Node.js 20 can since 20.19. */
    let requiresAll: boolean;
    before(function () {
      const runtime = findRuntime(name);
      if (typeof runtime === 'string') skip(this, runtime);
      node = runtime.command[0];
      requiresAll =
        spawnSync(node, ['-p', 'process.features.require_module'], { encoding: 'utf8' }).stdout === 'true\n';
      folder = realpathSync(mkdtempSync(join(tmpdir(), 'nbc-test-')));
      for (const [file, text] of Object.entries(FILES)) {
        mkdirSync(join(folder, dirname(file)), { recursive: true });
        writeFileSync(join(folder, file), text);
      }
      writeFileSync(join(folder, 'same.wasm'), Uint8Array.from(SAME));
      symlinkSync('plain.mjs', join(folder, 'link.mjs'));
    });
    after(() => {
      if (folder !== undefined) rmSync(folder, { recursive: true });
    });

    /** What the program tells of modules, and which ones have run. Nothing must warn. */
    function play(
      modules: readonly string[],
      options: readonly string[] = [],
      env = {},
      mayWarn = DEPRECATED,
    ): [told: Told[], runs: string] {
      assert(folder !== undefined);
      writeFileSync(join(folder, 'runs'), '');
      const { status, stdout, stderr } = spawnSync(node, [...options, join(folder, 'program.mjs'), ...modules], {
        encoding: 'utf8',
        env: { ...process.env, NODE_OPTIONS: '', ...env },
      });
      assert.doesNotMatch(stderr.replace(mayWarn, ''), /\S/);
      assert.equal(status, 0);
      const told = stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as Told);
      return [told, readFileSync(join(folder, 'runs'), 'utf8').trim()];
    }
    const one = (module: string, options: readonly string[] = [], env = {}): Told & { runs: string } => {
      const [[told], runs] = play([module], options, env);
      return { ...told, runs };
    };

    for (const [module, text] of [
      ['plain.mjs', 'plain'],
      ['typed.js', 'typed'],
      ['with%20a%20blank,%20100%25.mjs', 'blank'],
    ])
      it(`is required where it can be: ${module}`, () => {
        assert.deepEqual(one(module), { byRequire: requiresAll, text, runs: module });
      });

    it('is imported where it waits for something, and runs once', () => {
      assert.deepEqual(one('waits.mjs'), { byRequire: false, text: 'waits', runs: 'waits.mjs' });
      assert.deepEqual(one('of-waits.mjs'), { byRequire: false, text: 'of waits', runs: 'waits.mjs of-waits.mjs' });
    });

    it('is imported where it is CommonJS, and may be', () => {
      // Node.js has what it imports so among what it requires.
      assert.deepEqual(one('common.cjs'), { byRequire: true, text: 'common', runs: 'common.cjs' });
      assert.deepEqual(one('typeless/common.js'), { text: 'common', runs: '' });
      assert.deepEqual(one('typeless/inner/deep.js'), { text: 'deep', runs: '' });
    });

    it('gives what import() gives where require() gives something else, or refuses', () => {
      assert.equal(one('named.mjs').text, 'default');
      assert.equal(one('thenable.mjs').text, 'then');
      assert.match(one('promises.mjs').message ?? '', /must be a function.*: an object/);
      const { cause } = one('of-common.mjs');
      assert.match(cause?.[1] ?? '', /nope/);
      const { code, runs } = one('of-requiring.mjs');
      assert.equal(code, 'ERR_NBC_RANK_MODULE');
      assert.equal(runs, 'requires-waits.cjs');
      const [told] = play(['wasm.mjs'], ['--experimental-wasm-modules'], {}, /[^]*/g);
      assert.equal(told[0].text, 7, told[0].message);
    });

    it('is imported where its URL says more than a path, or leads to another file', () => {
      assert.deepEqual(one('asking.mjs?a=1'), { byRequire: false, text: '?a=1', runs: 'asking.mjs?a=1' });
      assert.deepEqual(one('link.mjs'), { byRequire: false, text: 'plain', runs: 'plain.mjs' });
    });

    it('runs once where it throws, and says what import() says where there is none', () => {
      for (const module of ['throws.mjs', 'throws.cjs']) {
        const { code, cause, runs } = one(module);
        assert.deepEqual([code, cause?.slice(0, 2), runs], ['ERR_NBC_RANK_MODULE', ['TypeError', 'mine'], module]);
      }
      const { code, cause, runs } = one('lacks.cjs');
      assert.deepEqual([code, cause?.[2], runs], ['ERR_NBC_RANK_MODULE', 'MODULE_NOT_FOUND', 'lacks.cjs']);
      for (const module of ['inner%2Fplain.mjs', 'inner%5cplain.mjs'])
        assert.equal(one(module).cause?.[2], 'ERR_INVALID_MODULE_SPECIFIER');
      for (const module of ['lacks.mjs', 'absent.mjs', 'plain']) {
        const { code, cause, runs } = one(module);
        assert.deepEqual([code, cause?.[2], runs], ['ERR_NBC_RANK_MODULE', 'ERR_MODULE_NOT_FOUND', '']);
      }
    });

    it('goes through loaders that Node.js was started with', () => {
      const hooked = { byRequire: false, text: 'hooked', runs: 'plain.mjs' };
      const file = join(folder ?? '', 'registers.mjs');
      assert.deepEqual(one('plain.mjs', ['--import', file]), hooked);
      assert.deepEqual(one('plain.mjs', [`--import=${file}`]), hooked);
      for (const options of [`--no-warnings --import ${file}`, `"--import=${file}"`])
        assert.deepEqual(one('plain.mjs', [], { NODE_OPTIONS: options }), hooked);
      const [told] = play(['plain.mjs'], [`--experimental_loader=${join(folder ?? '', 'hooks.mjs')}`], {}, /[^]*/g);
      assert.equal(told[0].text, 'hooked');
      const forgets = join(folder ?? '', 'forgets.mjs');
      writeFileSync(forgets, `delete process.env.NODE_OPTIONS; await import('./program.mjs');`);
      const { stdout } = spawnSync(node, [forgets, 'plain.mjs'], {
        encoding: 'utf8',
        env: { ...process.env, NODE_OPTIONS: `--import=${file}` },
      });
      assert.match(stdout, /"hooked"/);
    });

    it('goes through loaders that a module before it has put into the thread', () => {
      const [told, runs] = play(['puts-hooks-in.mjs', 'plain.mjs']);
      assert.deepEqual(
        told.map(({ text }) => text),
        ['puts in', 'hooked'],
      );
      assert.equal(runs, 'puts-hooks-in.mjs plain.mjs');
    });

    it('is the same one in a thread that is kept, and runs once', () => {
      for (const module of ['plain.mjs', 'waits.mjs', 'common.cjs']) {
        const [told, runs] = play([module, module]);
        assert.deepEqual(told[1], told[0]);
        assert.equal(runs, module);
      }
    });
  });
}
