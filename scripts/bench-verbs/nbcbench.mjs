/** nbcbench, as the other scripts here run it. */
import { readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { run } from '../test/process.mjs';

/** Returns its rows, also where not everything could be measured, and `why` it did not end well. */
export async function nbcbench(args, { seconds, env }) {
  const file = join(tmpdir(), `nbcbench-${process.pid}.json`);
  const command = ['dist/bench/nbcbench/main.js', ...args, '--json', file];
  const { ok, how } = await run('node', command, { live: true, seconds, env });
  const rows = read(file);
  rmSync(file, { force: true });
  return { rows, why: ok ? undefined : how };
}

/** nbcbench writes its rows at its end. */
function read(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    return []; // it has said why
  }
}
