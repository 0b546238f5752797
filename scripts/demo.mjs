#!/usr/bin/env node
/**
 * `npm run demo`: from a fresh clone to a verified 3D FFT on four ranks. Installs what is missing, builds, and runs
 * examples/fft3d, on a real scan of a head if this machine has one, on a phantom otherwise. Uses nothing but Node until
 * the packages are there.
 */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = resolve(dirname(fileURLToPath(import.meta.url)), '..');
const RANKS = 4;
/** A T1 scan that Debian's package mricron-data installs. */
const SCAN = '/usr/share/mricron/templates/ch2.nii.gz';
const OUTPUT = 'out/demo';
const LAUNCHER = 'dist/cli/nbcrun.js';
const EXAMPLE = 'out/examples/fft3d/main.js';
const OLDEST_NODE = [20, 3];

const begin = performance.now();

checkNode();
say('[1/2] Installing and building what is missing (half a minute on a fresh clone)', '');
run(['scripts/build.mjs'], 'The build failed; what it said is above.');
for (const file of [LAUNCHER, EXAMPLE]) {
  if (!existsSync(resolve(ROOT, file))) fail(`The build did not make ${file}. Remove dist and out, and try again.`);
}

const scan = existsSync(SCAN) ? SCAN : undefined;
const input = scan ? ['--input', scan] : [];
const command = [LAUNCHER, '-n', String(RANKS), EXAMPLE, ...input, '--output', OUTPUT];
say('', `[2/2] Smoothing ${scan ? 'a scan' : 'a phantom'} of a head with a 3D FFT on ${RANKS} ranks`);
say(`$ node ${command.join(' ')}`, '');
run(command, 'The 3D FFT failed, or its result is wrong; what it said is above.');

const output = relative(process.cwd(), resolve(ROOT, OUTPUT)) || '.';
say(
  '',
  `The demo verified: ${RANKS} ranks found what a serial transform finds. All of it took ${seconds()} s.`,
  `Pictures before and after: ${output}/before.png, ${output}/after.png. The smoothed volume: ${output}/filtered.nii.gz`,
  'How it works: examples/fft3d/README.md',
);

function checkNode() {
  const [major, minor] = process.versions.node.split('.').map(Number);
  if (major > OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor >= OLDEST_NODE[1])) return;
  fail(`Node ${OLDEST_NODE.join('.')} or newer is needed; this is ${process.versions.node}.`);
}

/** Runs a script of ours, showing what it says; ends the demo if it fails. */
function run(script, explanation) {
  const { error, status, signal } = spawnSync(process.execPath, script, {
    cwd: ROOT,
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  if (error) fail(`node could not be started: ${error.message}`);
  if (signal) fail(`${explanation} (ended by ${signal})`);
  if (status !== 0) fail(`${explanation} (exit code ${status})`);
}

function seconds() {
  return ((performance.now() - begin) / 1000).toFixed(0);
}

function say(...lines) {
  process.stdout.write(lines.map((line) => `${line}\n`).join(''));
}

function fail(reason) {
  process.stderr.write(`\nThe demo did not succeed. ${reason}\n`);
  process.exit(1);
}
