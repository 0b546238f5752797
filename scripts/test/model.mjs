/**
 * The model of the park/doorbell protocol, checked by spin: correct as it is, and wrong with any one thing taken out.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ROOT, has, run, timed } from './process.mjs';

export const title = 'model';

const MODEL = join(ROOT, 'native/test/model/doorbell.pml');
/** What must hold, and then what must fail: the definitions that spin is given. */
const CORRECT = [[], ['DOZE'], ['SOCKET']];
const MUTATIONS = [
  ['NO_RECHECK'],
  ['NO_FENCE'],
  ['NO_SLEEPER_FENCE'],
  ['LATE_BELL'],
  ['EXACT_NEED'],
  ['UNSIGNED_NEED'],
  ['NO_LOOK_BACK'],
  ['NO_UNLOCK_FENCE'],
  ['DOZE', 'NO_DOZE_RECHECK'],
  ['DOZE', 'NO_DOZE_FENCE'],
  ['DOZE', 'NO_LEAVE_FENCE'],
  ['SOCKET', 'LATE_DRAIN'],
  ['SOCKET', 'ONE_SOCKET'],
];
const LIMIT_S = 600;

/** A filter is "model", "spin" or a part of a definition. */
export function select(filters) {
  const wanted = (definitions) =>
    filters.length === 0 ||
    filters.some((filter) => ['model', 'spin'].includes(filter) || definitions.some((name) => name.includes(filter)));
  return [...CORRECT, ...MUTATIONS].filter(wanted);
}

export async function runAll(chosen) {
  const total = { passed: 0, failed: 0, leftOut: [], failures: [] };
  const missing = ['spin', 'cc'].filter((program) => !has(program, program === 'spin' ? '-V' : '--version'));
  if (missing.length > 0) {
    total.leftOut.push({ what: 'model of the doorbell', why: `${missing.join(' and ')} not found (apt install spin)` });
    return total;
  }
  for (const definitions of chosen) {
    const [{ errors, output }, duration] = await timed(() => check(definitions));
    const holds = CORRECT.includes(definitions);
    const good = holds ? errors === 0 : errors > 0;
    total[good ? 'passed' : 'failed']++;
    const found = errors > 0 ? 'fails' : errors === 0 ? 'holds' : 'was not checked';
    const what = definitions.length === 0 ? 'of the doorbell' : `with ${definitions.join(' and ')}`;
    console.log(`model ${what}: ${found}${good && !holds ? ', as it must' : ''} (${duration})`);
    if (good) continue;
    console.log(`It must ${holds ? 'hold' : 'fail'}.\n${output}`);
    total.failures.push(`model ${what}: ${found}`);
  }
  return total;
}

/** `errors` is NaN if spin did not get through. */
async function check(definitions) {
  const folder = mkdtempSync(join(tmpdir(), 'nbc-model-'));
  const steps = [
    ['spin', ['-a', ...definitions.map((name) => `-D${name}`), MODEL]],
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
