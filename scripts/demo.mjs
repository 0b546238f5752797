#!/usr/bin/env node
/**
 * `npm run demo`: from a fresh clone to a verified 3D FFT on four ranks. Installs what is missing, builds, and runs examples/fft3d, on a real scan
 * of a head if this machine has one, on a phantom otherwise. Uses nothing but Node until the packages are there.
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
const REPETITIONS = 2;
const OLDEST_NODE = [20, 3];

const begin = performance.now();

checkTools();
install();
step('Building: the native addon, the library and the example');
run(process.execPath, ['scripts/build.mjs'], 'The build failed; its messages are above.');
needs('out/examples/fft3d/main.js', 'the build did not make it; see scripts/build.mjs');
demonstrate();

function checkTools() {
  step('Looking for what a build needs');
  const [major, minor] = process.versions.node.split('.').map(Number);
  if (major < OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor < OLDEST_NODE[1])) {
    fail(`Node ${OLDEST_NODE.join('.')} or newer is needed; this is ${process.versions.node}.`);
  }
  const compiler = process.env.CXX ? process.env.CXX.split(' ')[0] : 'g++';
  const missing = [compiler, 'make', 'python3'].filter((tool) => spawnSync(tool, ['--version']).status !== 0);
  if (missing.length > 0) {
    fail(`Not found: ${missing.join(', ')}. Install them and try again; on Debian: apt install g++ make python3`);
  }
  say(`Node ${process.versions.node}, ${compiler}, make and python3 are here.`);
}

function install() {
  step('Installing packages');
  // npm writes this file last, so it is missing where an installation was interrupted.
  if (existsSync(resolve(ROOT, 'node_modules/.package-lock.json'))) {
    say('They are installed already.');
    return;
  }
  // Without install scripts: the only one of interest is our own build, which comes next.
  run('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], 'npm could not install the packages; see above.');
}

function demonstrate() {
  step(`Smoothing a volume with a 3D FFT on ${RANKS} ranks`);
  const scan = existsSync(SCAN) ? SCAN : undefined;
  say(scan ? `Input: ${scan}` : "Input: a phantom of a head (with Debian's mricron-data, it would be a real scan).");
  const example = ['out/examples/fft3d/main.js', '--output', OUTPUT, '--repetitions', String(REPETITIONS)];
  if (scan) example.push('--input', scan);
  const command = ['dist/cli/nbcrun.js', '-n', String(RANKS), ...example];
  say(`$ node ${command.join(' ')}`, '');
  run(process.execPath, command, 'The 3D FFT failed, or its results are wrong; its messages are above.');

  const seconds = ((performance.now() - begin) / 1000).toFixed(0);
  const output = relative(process.cwd(), resolve(ROOT, OUTPUT)) || '.';
  say(
    '',
    `The demo verified: ${RANKS} ranks computed what a serial transform computes. It took ${seconds} s.`,
    `Look at ${output}/before.png and ${output}/after.png; the smoothed volume is ${output}/filtered.nii.gz.`,
    'What it did, and how: examples/fft3d/README.md',
  );
}

/** Runs a command in the project's folder, showing its output; ends the demo if it fails. */
function run(command, args, explanation) {
  const { error, status, signal } = spawnSync(command, args, { cwd: ROOT, stdio: ['ignore', 'inherit', 'inherit'] });
  if (error) fail(`${command} could not be started: ${error.message}`);
  if (signal) fail(`${explanation} (ended by ${signal})`);
  if (status !== 0) fail(`${explanation} (exit code ${status})`);
}

function needs(file, explanation) {
  if (!existsSync(resolve(ROOT, file))) fail(`${file} is missing: ${explanation}.`);
}

function step(title) {
  step.number = (step.number ?? 0) + 1;
  say(`${step.number === 1 ? '' : '\n'}[${step.number}/4] ${title}`);
}

function say(...lines) {
  process.stdout.write(lines.map((line) => `${line}\n`).join(''));
}

function fail(reason) {
  process.stderr.write(`\nThe demo did not succeed. ${reason}\n`);
  process.exit(1);
}
