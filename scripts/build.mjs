#!/usr/bin/env node
/**
 * `npm run build`: installs packages if there are none, builds the native addon and compiles the TypeScript, each only
 * when needed. Uses nothing but Node itself until the packages are there. Quiet: one line a step, and everything a tool
 * said if it fails.
 */
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readFileSync, readdirSync, realpathSync, rmSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const ROOT = resolve(dirname(fileURLToPath(import.meta.url)), '..');
const at = (...path) => join(ROOT, ...path);

const ADDON = at('build/Release/nbc.node');

/** Builds all. Ends the process with exit code 1 and an explanation if a step fails. */
export function build() {
  install();
  buildAddon();
  compileTypeScript();
}

/** Installs the packages of the lockfile, if any is missing. */
export function install() {
  const missing = missingPackages();
  if (missing === undefined) return;
  step(`packages (${missing})`, 'installed', 'npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund']);
}

/** Why packages must be installed; undefined if all that the lockfile names are there in their versions. */
function missingPackages() {
  // npm writes this file last, so it is missing where an installation was interrupted.
  const installed = at('node_modules/.package-lock.json');
  if (!existsSync(installed)) return 'none yet';
  const present = JSON.parse(readFileSync(installed, 'utf8')).packages;
  const wanted = JSON.parse(readFileSync(at('package-lock.json'), 'utf8')).packages;
  const outdated = Object.entries(wanted).filter(
    ([path, entry]) => path !== '' && !entry.optional && present[path]?.version !== entry.version,
  );
  return outdated.length === 0 ? undefined : `${outdated.length} missing or outdated`;
}

/** The addon and nbc-rank: make knows what has changed. */
export function buildAddon() {
  step('native addon', 'built', 'make', ['-s', '-C', 'native', 'all', 'editors']);
  // Where the compiler found no <infiniband/verbs.h> or <ucp/api/ucp.h>: see native/fabric/*/available.h.
  const addon = readFileSync(ADDON);
  for (const [transport, library, debian] of [
    ['verbs', 'libibverbs.so.1', 'libibverbs-dev'],
    ['ucx', 'libucp.so.0', 'libucx-dev'],
  ]) {
    if (addon.includes(library)) continue;
    console.log(`native addon: without transport '${transport}', because headers are missing (apt install ${debian})`);
  }
}

/** The library, and what uses it. */
export function compileTypeScript() {
  // The other projects import the package by its own name, so they see what the first has made.
  compile('TypeScript: library', 'tsconfig.json', 'out/library', [['src', '.']]);
  step('library', 'bundled', process.execPath, [at('scripts/bundle.mjs')]);
  compile('TypeScript: nbcbench', 'tsconfig.bench.json', 'dist', [['bench/nbcbench', 'bench/nbcbench']]);
  for (const bin of Object.values(JSON.parse(readFileSync(at('package.json'), 'utf8')).bin)) chmodSync(at(bin), 0o755);
  const programs = ['test', 'bench', 'examples'].map((folder) => [folder, folder]);
  compile('TypeScript: tests, benchmarks, examples', 'tsconfig.dev.json', 'out', programs);
}

/** Folders in an output folder that belong to another project: nbcbench is compiled to dist/bench, not to out/. */
const ELSEWHERE = { dist: 'bench', 'out/bench': 'nbcbench' };

/** `folders`: pairs of a folder of sources and the folder below `output` that it is compiled to. */
function compile(name, project, output, folders) {
  const info = at('out/.tsc', `${project}.tsbuildinfo`);
  mkdirSync(dirname(info), { recursive: true });
  let complete = true;
  for (const [from, to] of folders) {
    if (!existsSync(at(from))) continue;
    const elsewhere = ELSEWHERE[join(output, to)];
    const others = (path) => elsewhere !== undefined && path.startsWith(`${elsewhere}/`);
    const made = new Set(
      readdirSync(at(from), { recursive: true })
        .filter((path) => /\.c?ts$/.test(path) && !path.endsWith('.d.ts') && !others(path))
        .map((path) => path.replace(/ts$/, 'js')),
    );
    for (const path of made) complete &&= existsSync(at(output, to, path));
    removeOrphans(at(output, to), made, others);
  }
  // tsc takes its word that everything was written once.
  if (!complete) rmSync(info, { force: true });
  const tsc = at('node_modules/typescript/bin/tsc');
  step(name, 'compiled', process.execPath, [tsc, '-p', project, '--incremental', '--tsBuildInfoFile', info]);
}

/** What was compiled from a source that is no more: a test that was deleted must not run. */
function removeOrphans(folder, made, others) {
  if (!existsSync(folder)) return;
  for (const path of readdirSync(folder, { recursive: true }).filter((path) => !others(path))) {
    const [, name, commonJs] = /^(.*?)\.(?:d\.)?(c?)(?:ts|js|js\.map)$/.exec(path) ?? [];
    if (name !== undefined && !made.has(`${name}.${commonJs}js`)) rmSync(join(folder, path));
  }
}

/** Runs a command silently; ends the process with what it printed if it fails. */
function step(name, done, command, args) {
  process.stdout.write(`${name} … `);
  const begin = performance.now();
  const result = spawnSync(command, args, { cwd: ROOT, encoding: 'utf8', maxBuffer: 2 ** 28, stdio: 'pipe' });
  if (result.status === 0) {
    console.log(`${done} (${((performance.now() - begin) / 1000).toFixed(1)} s)`);
    return;
  }
  console.log('failed');
  const reason = result.error ? `${result.error.message}\n` : '';
  process.stderr.write(`${result.stdout ?? ''}${result.stderr ?? ''}${reason}\n${command} ${args.join(' ')}: failed\n`);
  if (name === 'native addon') {
    const missing = ['g++', 'make'].filter((tool) => spawnSync(tool, ['--version']).error !== undefined);
    if (missing.length > 0) {
      process.stderr.write(`Not found: ${missing.join(', ')}. On Debian: apt install g++ make\n`);
    }
  }
  process.exit(1);
}

if (import.meta.url === pathToFileURL(realpathSync(process.argv[1])).href) build();
