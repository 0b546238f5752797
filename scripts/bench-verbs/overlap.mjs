/**
 * Overhead and overlap of the collectives under delays of the link: one nbcbench for each operation, so that one that
 * fails is one.
 */
import { nbcbench } from './nbcbench.mjs';

const OPS = ['ibcast', 'igather', 'ialltoall'];

/** Rows of nbcbench. Returns what went wrong. */
export async function measureOverlap({ quick, save, say }) {
  const rows = [];
  const failures = [];
  for (const [i, op] of OPS.entries()) {
    say(`overlap, ${i + 1} of ${OPS.length}: ${op}`);
    const what = ['--ops', op, '--sizes', quick ? '8,64K' : '8,4K,64K,1M', '--buffers', 'plain'];
    const where = ['--transport', 'verbs', '--delays', '0,1,10', '--links', 'vc,vd'];
    const times = ['--repetitions', quick ? '10' : '100', '--max-seconds', quick ? '1' : '2'];
    const env = { NBC_VERBS_DEVICE: 'rxc,rxd' };
    const { rows: found, why } = await nbcbench([...what, ...where, ...times], { seconds: 120, env });
    if (why !== undefined) failures.push(`nbcbench ${op}: ${why}`);
    rows.push(...found);
    save(rows);
  }
  return failures;
}
