/** Running other programs from the test scripts. */
import { spawn, spawnSync } from 'node:child_process';
import { constants, setPriority } from 'node:os';
import { dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Limit } from './limit.mjs';

export const ROOT = resolve(dirname(fileURLToPath(import.meta.url)), '../..');

/**
 * Runs a program in the project's folder. `output` holds what it printed on both streams, in order of arrival; `live`
 * shows it too. A program that takes longer than `seconds` of an idle machine (limit.mjs) is killed; with `group`, so
 * is what it has started. With `idle` it and they get what no other process wants of the processors.
 */
export function run(command, args, options = {}) {
  const { live = false, group = false, idle = false, seconds = 3600, cwd = ROOT, env = {} } = options;
  return new Promise((done) => {
    const stdio = ['ignore', 'pipe', 'pipe'];
    const child = spawn(command, args, { cwd, env: { ...process.env, ...env }, stdio, detached: group });
    if (idle && child.pid !== undefined) setPriority(child.pid, constants.priority.PRIORITY_LOW);
    let output = '';
    let late = false;
    const limit = new Limit(seconds, () => {
      late = true;
      if (group) process.kill(-child.pid, 'SIGKILL');
      else child.kill('SIGKILL');
    });
    for (const [stream, sink] of [
      [child.stdout, process.stdout],
      [child.stderr, process.stderr],
    ]) {
      stream.setEncoding('utf8').on('data', (text) => {
        output += text;
        if (live) sink.write(text);
      });
    }
    const end = (how) => {
      limit.stop();
      done({ output, ...how });
    };
    child.once('error', (error) => end({ ok: false, how: error.message }));
    child.once('close', (code, signal) => {
      const how = late ? `took longer than ${seconds} s` : signal !== null ? `ended by ${signal}` : `exit code ${code}`;
      end({ ok: code === 0, how });
    });
  });
}

export const has = (program, ...args) =>
  spawnSync(program, args.length > 0 ? args : ['--version'], { stdio: 'ignore' }).error === undefined;

/** "1 rank", "3 ranks" */
export const count = (number, noun) => `${number} ${noun}${number === 1 ? '' : 's'}`;

export async function timed(action) {
  const begin = performance.now();
  const result = await action();
  return [result, `${((performance.now() - begin) / 1000).toFixed(1)} s`];
}
