/** The model of the park/doorbell protocol, checked by spin: correct as it is, and wrong with any one thing taken out. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ROOT, has, run, timed } from './process.mjs';

export const title = 'model';

const MODEL = join(ROOT, 'native/test/model/doorbell.pml');
const MUTATIONS = [
  'NO_RECHECK',
  'NO_FENCE',
  'NO_SLEEPER_FENCE',
  'LATE_BELL',
  'EXACT_NEED',
  'UNSIGNED_NEED',
  'NO_LOOK_BACK',
  'NO_UNLOCK_FENCE',
];
const LIMIT_S = 600;

/** A filter is "model", "spin" or a part of a mutation's name. */
export function select(filters) {
  const all = ['', ...MUTATIONS];
  if (filters.length === 0 || filters.some((filter) => filter === 'model' || filter === 'spin')) return all;
  return MUTATIONS.filter((name) => filters.some((filter) => name.includes(filter)));
}

export async function runAll(mutations) {
  const total = { passed: 0, failed: 0, leftOut: [] };
  const missing = ['spin', 'cc'].filter((program) => !has(program, program === 'spin' ? '-V' : '--version'));
  if (missing.length > 0) {
    total.leftOut.push({ what: 'model of the doorbell', why: `${missing.join(' and ')} not found (apt install spin)` });
    return total;
  }
  for (const mutation of mutations) {
    const [{ errors, output }, duration] = await timed(() => check(mutation));
    const good = mutation === '' ? errors === 0 : errors > 0;
    total[good ? 'passed' : 'failed']++;
    const found = errors > 0 ? 'fails' : errors === 0 ? 'holds' : 'was not checked';
    console.log(`model ${mutation === '' ? 'of the doorbell' : `with ${mutation}`}: ${found} (${duration})`);
    if (!good) console.log(`${mutation === '' ? 'It must hold.' : 'It must fail.'}\n${output}`);
  }
  return total;
}

/** `errors` is NaN if spin did not get through. */
async function check(mutation) {
  const folder = mkdtempSync(join(tmpdir(), 'nbc-model-'));
  const steps = [
    ['spin', ['-a', ...(mutation === '' ? [] : [`-D${mutation}`]), MODEL]],
    // -DCOLLAPSE stores states compressed; all of them, no hashing.
    ['cc', ['-O2', '-w', '-DSAFETY', '-DCOLLAPSE', '-o', 'pan', 'pan.c']],
    ['./pan', ['-m100000', '-w25']],
  ];
  let output = '';
  try {
    for (const [command, args] of steps) {
      const result = await run(command, args, { cwd: folder, seconds: LIMIT_S });
      output += result.output;
      if (!result.ok) return { errors: NaN, output: `${output}\n${command}: ${result.how}` };
    }
    const complete = !/max search depth too small|out of memory|Search not completed/.test(output);
    const errors = Number(/errors: (\d+)/.exec(output)?.[1]);
    return { errors: complete || errors > 0 ? errors : NaN, output };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
