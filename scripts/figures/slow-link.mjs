/** Runs programs of this project on the slow link, and says what a reader of their figures must know. */
import { spawn, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../test/process.mjs';

export const RATE = '1gbit';
/**
 * What an idle link carries at once. With more, a transfer that begins only after the computation, in wait, would go at
 * the speed of memory up to that size, and look as if it had been hidden.
 */
const BURST = '70kb';
const SCRIPT = join(ROOT, 'scripts/slow-link');

/** Why nothing can be measured here, or undefined. */
export function whyNot() {
  const { status, stderr, error } = spawnSync(SCRIPT, ['--', 'true'], { encoding: 'utf8' });
  return status === 0 ? undefined : error ? error.message : stderr.trim();
}

/**
 * Runs a script of Node's there. `cards`: see slow-link --help. Resolves to its standard output; what it says on
 * standard error is shown.
 */
export function runThere(script, args, { env = {}, rate = RATE, cards = 0 } = {}) {
  const link = ['--rate', rate, '--burst', BURST, '--cards', `${cards}`];
  const child = spawn(SCRIPT, [...link, '--', process.execPath, join(ROOT, script), ...args], {
    cwd: ROOT,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text) => (output += text));
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => {
      if (code === 0) resolve(output);
      else reject(new Error(`${script} ${args.join(' ')}: ${signal ?? `exit code ${code}`}\n${output}`));
    });
  });
}

/** What every figure's JSON begins with. */
export function facts() {
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  return {
    date: new Date().toISOString().slice(0, 10),
    versions: { 'node-nbc': version, node: process.versions.node },
    link: { network: 'loopback', rate: RATE, burst: BURST },
    transport: 'tcp',
  };
}
