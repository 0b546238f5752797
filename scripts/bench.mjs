#!/usr/bin/env node
/**
 * `npm run bench`: builds, and measures the JavaScript side with the micro-benchmarks of bench/micro.ts, on two ranks.
 * Communication is measured by nbcbench.
 */
import { spawnSync } from 'node:child_process';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const ROOT = resolve(dirname(fileURLToPath(import.meta.url)), '..');

const HELP = `Usage: npm run bench -- [options]

Measures what the JavaScript side of an operation costs: start, test, wait, await and the look-up of plans,
in nanoseconds, bytes of heap and calls of native code. Builds what is missing first.

Options:
  --time <ms>      how long each case is measured (default: 300)
  --filter <text>  only cases with this text in their name
  --json <file>    also write the figures as JSON
  --no-build       measure what was built last
  -h, --help       display this

Communication, and MPI beside it, is measured by nbcbench: node dist/bench/nbcbench/main.js --help
`;

let values;
try {
  ({ values } = parseArgs({
    options: {
      time: { type: 'string' },
      filter: { type: 'string' },
      json: { type: 'string' },
      'no-build': { type: 'boolean' },
      help: { type: 'boolean', short: 'h' },
    },
  }));
  if (values.time !== undefined && !(Number(values.time) > 0))
    throw new Error(`--time ${values.time}: not a number of ms`);
} catch (error) {
  process.stderr.write(`${error.message}\n\n${HELP}`);
  process.exit(2);
}
if (values.help) {
  process.stdout.write(HELP);
  process.exit(0);
}

if (!values['no-build']) run(join(ROOT, 'scripts/build.mjs'), []);
const rest = ['time', 'filter', 'json'].flatMap((name) =>
  values[name] === undefined ? [] : [`--${name}`, values[name]],
);
run(join(ROOT, 'dist/cli/nbcrun.js'), ['-n', '2', '--bind', 'core', join(ROOT, 'out/bench/micro.js'), ...rest]);

function run(script, args) {
  const { status, signal, error } = spawnSync(process.execPath, [script, ...args], { stdio: 'inherit' });
  if (error) throw error;
  if (status !== 0) process.exit(status ?? (signal === 'SIGINT' ? 130 : 1));
}
