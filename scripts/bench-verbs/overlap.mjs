/**
 * Overhead and overlap of the collectives under delays of the link: one nbcbench for each operation, so that one that
 * fails is one.
 */
import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { run } from '../test/process.mjs';

const OPS = ['ibcast', 'igather', 'ialltoall'];

/** Rows of nbcbench. Returns what went wrong. */
export async function measureOverlap({ quick, save, say }) {
  const rows = [];
  const failures = [];
  for (const [i, op] of OPS.entries()) {
    say(`overlap, ${i + 1} of ${OPS.length}: ${op}`);
    const file = join(tmpdir(), `${op}.json`);
    const what = ['--ops', op, '--sizes', quick ? '8,64K' : '8,4K,64K,1M', '--buffers', 'plain'];
    const where = ['--transport', 'verbs', '--delays', '0,1,10', '--links', 'vc,vd'];
    const how = ['--repetitions', quick ? '10' : '100', '--max-seconds', quick ? '1' : '2', '--json', file];
    const { ok, how: end } = await run('node', ['dist/bench/nbcbench/main.js', ...what, ...where, ...how], {
      live: true,
      seconds: 120,
      env: { NBC_VERBS_DEVICE: 'rxc,rxd' },
    });
    if (!ok) failures.push(`nbcbench ${op}: ${end}`);
    rows.push(...read(file));
    save(rows);
  }
  return failures;
}

/** nbcbench writes its rows at its end, also when not everything could be measured. */
function read(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    return []; // it has said why
  }
}
