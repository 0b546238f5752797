#!/usr/bin/env node
/**
 * Makes dist/ of what tsc has compiled to out/library. To import node-nbc then opens 12 files, not a hundred, which
 * took a third of the time that a rank needs to start. Each module still has its file in dist/, which exports what the
 * bundle has of it: so it exists once in a process, whichever way it is imported.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { commonJs, DEFINE, esModule, facade } from './commonjs.mjs';

const ROOT = resolve(dirname(fileURLToPath(import.meta.url)), '..');
const FROM = join(ROOT, 'out/library');
const TO = join(ROOT, 'dist');

/** What programs import, the file of a worker, and the commands. */
const ENTRIES = [
  'index.js',
  'schedules/index.js',
  'function-worker.js',
  'rank-worker.js',
  'cli/nbcrun.js',
  'cli/nbcrun/process.js',
  'cli/nbctop.js',
  'cli/nbctrace.js',
];
/**
 * Export what all modules export, each name with the number of its module: the first what needs no addon, for those who
 * say that there is none.
 */
const ALL = ['plain.js', 'native-code.js'];
const ADDON = 'native.js';

/** src/code.cts is no part of a chunk, because it loads them. All chunks lie beside it. */
function loader({ onResolve }) {
  onResolve({ filter: /code\.cjs$/ }, () => ({ path: './code.cjs', external: true }));
}

const OPTIONS = {
  absWorkingDir: FROM,
  outdir: TO,
  outbase: FROM,
  bundle: true,
  splitting: true,
  write: false,
  metafile: true,
  format: 'esm',
  platform: 'node',
  target: 'node20',
  packages: 'external',
  plugins: [{ name: 'loader', setup: loader }],
  define: DEFINE,
  // Messages name classes and functions.
  keepNames: true,
  logLevel: 'error',
};

const { inputs } = (await build({ ...OPTIONS, entryPoints: ENTRIES })).metafile;
const modules = Object.keys(inputs).filter((path) => !ENTRIES.includes(path));
const needsAddon = (path) => path === ADDON || reachable(path).includes(ADDON);
const { outputs } = (await build({ ...OPTIONS, entryPoints: modules })).metafile;
const names = new Map(Object.values(outputs).map(({ entryPoint, exports }) => [entryPoint, exports]));

const made = new Map();
const all = Object.fromEntries(ALL.map((entry) => [entry, '']));
for (const [number, path] of modules.entries()) {
  const own = names.get(path);
  const entry = ALL[Number(needsAddon(path))];
  const above = relative(dirname(path), entry);
  const from = above.startsWith('.') ? above : `./${above}`;
  made.set(path, `export { ${own.map((name) => `${name}_${number} as ${name}`).join(', ')} } from '${from}';\n`);
  all[entry] += `export { ${own.map((name) => `${name} as ${name}_${number}`).join(', ')} } from './${path}';\n`;
}
/**
 * What programs and ranks need, in one chunk with and one without addon: esbuild makes a chunk of the modules that the
 * same entries need. So all entries but the small ones are made to need all of it.
 */
const core = (addon) =>
  reachable('rank-worker.js', new Set(reachable('index.js'))).filter((path) => needsAddon(path) === addon);
const CORE = { core: core(false), 'core-with-addon': core(true) };
const SMALL = ['function-worker.js'];
const wanting = new Set(
  [...ENTRIES, ...dynamic()].filter((path) => ![...SMALL, ...CORE.core, ...CORE['core-with-addon']].includes(path)),
);

function reachable(entry, found = new Set()) {
  for (const { path, kind, external } of inputs[entry].imports) {
    if (kind !== 'import-statement' || external || found.has(path)) continue;
    found.add(path);
    reachable(path, found);
  }
  return [...found];
}

function dynamic() {
  const imports = Object.values(inputs).flatMap((input) => input.imports);
  return imports.filter(({ kind, external }) => kind === 'dynamic-import' && !external).map(({ path }) => path);
}

const together = ({ onResolve, onLoad }) => {
  onResolve({ filter: /^core/ }, ({ path }) => (path in CORE ? { path, namespace: 'core' } : undefined));
  onLoad({ filter: /./, namespace: 'core' }, ({ path }) => ({
    contents: CORE[path].map((module) => `import './${module}';\n`).join(''),
    resolveDir: FROM,
  }));
  onLoad({ filter: /\.js$/, namespace: 'file' }, ({ path }) => {
    const own = relative(FROM, path);
    if (!wanting.has(own)) return undefined;
    const [, shebang, rest] = /^(#!.*\n)?([^]*)$/.exec(readFileSync(path, 'utf8'));
    const imports = `import 'core';${needsAddon(own) ? "import 'core-with-addon';" : ''}`;
    return { contents: `${shebang ?? ''}${imports}${rest}`, resolveDir: dirname(path) };
  });
};
const virtual = ({ onResolve, onLoad }) => {
  onResolve({ filter: /^[^./]/ }, ({ path }) => (ALL.includes(path) ? { path, namespace: 'all' } : undefined));
  onLoad({ filter: /./, namespace: 'all' }, ({ path }) => ({ contents: all[path], resolveDir: FROM }));
};
const { outputFiles } = await build({
  ...OPTIONS,
  entryPoints: [...ENTRIES, ...ALL].map((path) => ({ in: path, out: path.slice(0, -'.js'.length) })),
  plugins: [{ name: 'all', setup: virtual }, { name: 'together', setup: together }, ...OPTIONS.plugins],
});
/** Files of nothing, which `core` leaves where all of it is in other chunks. */
const empty = outputFiles.filter(({ text }) => text === '').map(({ path }) => basename(path));
/**
 * Without what makes a start slower: files of nothing, names that functions have anyhow, and in comments (esbuild
 * leaves them nowhere else) characters for which V8 keeps a file with two bytes for each.
 */
const lean = (text) =>
  text
    .replace(/^import "[^"]*?([^"/]*)";\n/gm, (line, file) => (empty.includes(file) ? '' : line))
    .replace(/^__name\((\w+), "\1"\);\n/gm, '')
    .normalize('NFKD')
    .replaceAll('\u2212', '-')
    .replace(/[^\0-\x7f]/g, '?');
for (const { path, text } of outputFiles) if (text !== '') made.set(relative(TO, path), lean(text));
/**
 * What a rank loads becomes CommonJS (src/code.cts says why). ES modules find it where it was. The list names chunks
 * after those that they import.
 */
const ofRank = [];
const chunksOf = (text) => [...text.matchAll(/^(?:import|\}) .*?"\.\/(chunk-\w+)\.js";$/gm)].map(([, name]) => name);
function list(name) {
  for (const other of chunksOf(made.get(`${name}.js`))) if (!ofRank.includes(other)) list(other);
  ofRank.push(name);
}
list('rank-worker');
for (const name of ofRank) {
  const { script, names } = commonJs(`${name}.cjs`, made.get(`${name}.js`), ofRank);
  made.set(`${name}.cjs`, script);
  made.set(`${name}.js`, facade(name, names));
}
// No program imports it.
made.delete(`${ofRank.pop()}.js`);
made.set('chunks.json', `${JSON.stringify(ofRank.map((name) => `./${name}.cjs`))}\n`);
for (const [path, text] of made) if (path.endsWith('.js')) made.set(path, esModule(path, text));
// Threads of another version, installed while a program runs, must not find what those of this one have offered.
const hash = createHash('sha256');
for (const [path, text] of made) if (path.endsWith('.cjs')) hash.update(text);
const code = readFileSync(join(FROM, 'code.cjs'), 'utf8');
made.set('code.cjs', code.replace('hash of the bundle', hash.update(code).digest('hex').slice(0, 16)));

// Types, and modules that have nothing else.
for (const path of readdirSync(FROM, { recursive: true })) {
  if (path.startsWith('rank-worker.')) continue;
  if (/\.(c?js|d\.c?ts)$/.test(path) && !made.has(path)) made.set(path, readFileSync(join(FROM, path), 'utf8'));
}

for (const [path, text] of made) {
  if (path.startsWith('..')) throw new Error(`${path} lies outside of src/`);
  const file = join(TO, path);
  mkdirSync(dirname(file), { recursive: true });
  // What is the same keeps its time, for tsc.
  if (read(file) !== text) writeFileSync(file, text);
}
for (const path of readdirSync(TO, { recursive: true })) {
  if (/\.(c?js|json|d\.c?ts)$/.test(path) && !path.startsWith('bench/') && !made.has(path)) rmSync(join(TO, path));
}

function read(file) {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}
