#!/usr/bin/env node
/**
 * `npm run lint`: ESLint, Prettier, clang-format for the native code, and the width of comments and documents.
 * `--write` (npm run format) mends what can be mended. The last line is "N passed, N failed[, N skipped]", one for each
 * tool.
 */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { build } from './build.mjs';
import { longLines } from './test/lines.mjs';
import { ROOT, has, run } from './test/process.mjs';

const args = process.argv.slice(2);
if (args.some((arg) => arg !== '--write')) {
  console.log('npm run lint [-- --write]\n\nChecks style and format; --write mends what can be mended.');
  process.exit(args.includes('--help') ? 0 : 1);
}
const write = args.includes('--write');

// ESLint knows types: the packages must be there, and what the library declares (tests import it by its name).
if (!existsSync(join(ROOT, 'dist/index.d.ts'))) build();

const sources = ['native', 'bench'].flatMap((folder) =>
  readdirSync(join(ROOT, folder), { recursive: true })
    .filter((path) => /\.(cc|c|h)$/.test(path))
    .map((path) => join(folder, path)),
);

const tools = [
  {
    name: 'ESLint',
    command: process.execPath,
    args: ['node_modules/eslint/bin/eslint.js', ...(write ? ['--fix'] : []), '--max-warnings', '0', '.'],
  },
  {
    name: 'Prettier',
    command: process.execPath,
    args: ['node_modules/prettier/bin/prettier.cjs', '--log-level', 'warn', write ? '--write' : '--check', '.'],
  },
  {
    name: 'clang-format',
    command: 'clang-format',
    args: [...(write ? ['-i'] : ['--dry-run', '-Werror']), ...sources],
    install: 'apt install clang-format',
    // Every place is three lines long; the file's name says enough.
    brief: (output) =>
      [...new Set([...output.matchAll(/^(\S+?):\d+:\d+: error/gm)].map(([, file]) => file))].join('\n'),
  },
];

let passed = 0;
let failed = 0;
let skipped = 0;
// Side by side: each has one processor busy.
const results = tools.map((tool) => (has(tool.command) ? run(tool.command, tool.args) : undefined));
for (const [index, { name, command, install, brief = String }] of tools.entries()) {
  const result = await results[index];
  if (result === undefined) {
    console.log(`${name}: left out, ${command} is not installed (${install})`);
    if (process.env.NBC_REQUIRE_ALL === '1') failed++;
    else skipped++;
    continue;
  }
  const { ok, output } = result;
  console.log(`${name}: ${ok ? 'no complaints' : 'complains'}`);
  if (ok) {
    passed++;
  } else {
    failed++;
    console.log(brief(output) || output);
  }
}
const long = longLines();
console.log(`Lines of comments and documents: ${long.length === 0 ? 'no complaints' : 'longer than 120 columns'}`);
if (long.length === 0) passed++;
else failed++;
for (const line of long) console.log(line);
if (failed > 0 && !write) console.log('npm run format mends most of it.');
console.log(`\n${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`);
process.exitCode = failed > 0 ? 1 : 0;
