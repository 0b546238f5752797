/**
 * The models of the park/doorbell protocol and of taking exposed memory back (REVOKE), checked by spin: correct as they
 * are, and wrong with any one thing taken out.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { result } from './pool.mjs';
import { ROOT, has, run } from './process.mjs';

const modelOf = (definitions) =>
  join(ROOT, 'native/test/model', definitions[0] === 'REVOKE' ? 'revoke.pml' : 'doorbell.pml');
/** What must hold, and then what must fail: the definitions that spin is given. */
const CORRECT = [[], ['DOZE'], ['LOOP'], ['SOCKET'], ['REVOKE']];
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
  ['LOOP', 'NO_ADD'],
  ['LOOP', 'BLIND_ADD'],
  ['LOOP', 'NO_TAKE_OVER'],
  ['SOCKET', 'LATE_DRAIN'],
  ['SOCKET', 'ONE_SOCKET'],
  ['REVOKE', 'NO_ORDER'],
  ['REVOKE', 'NO_LOOK'],
  ['REVOKE', 'NO_WAIT'],
  ['REVOKE', 'NO_PIECES'],
];
/** Of these, what the quick run checks: one model, and the other with one thing taken out. */
const QUICK = [CORRECT[4], MUTATIONS[0]];
const LIMIT_S = 1200;

/** A filter is "model", "spin" or a part of a definition. */
export function tasks(filters, { all }) {
  const wanted = (definitions) =>
    filters.length === 0
      ? all || QUICK.includes(definitions)
      : filters.some(
          (filter) => ['model', 'spin'].includes(filter) || definitions.some((name) => name.includes(filter)),
        );
  const chosen = [...CORRECT, ...MUTATIONS].filter(wanted);
  const missing = ['spin', 'cc'].filter((program) => !has(program, program === 'spin' ? '-V' : '--version'));
  if (chosen.length > 0 && missing.length > 0) {
    const why = `${missing.join(' and ')} not found (apt install spin)`;
    const left = result({ leftOut: [{ what: 'model of the doorbell', why }], text: 'left out' });
    return [{ name: 'model of the doorbell', run: async () => left }];
  }
  return chosen.map((definitions) => ({
    name: nameOf(definitions),
    idle: true,
    run: (how) => checkOne(definitions, how),
  }));
}

const nameOf = (definitions) => `model ${definitions.length === 0 ? 'of the doorbell' : definitions.join(' and ')}`;

async function checkOne(definitions, { idle }) {
  const { errors, output } = await check(definitions, idle);
  const holds = CORRECT.includes(definitions);
  const found = errors > 0 ? 'fails' : errors === 0 ? 'holds' : 'was not checked';
  if (holds ? errors === 0 : errors > 0) return result({ passed: 1, text: `${found}${holds ? '' : ', as it must'}` });
  const why = `${found}, and must ${holds ? 'hold' : 'fail'}`;
  return result({ failed: 1, failures: [`${nameOf(definitions)}: ${why}\n${output}`], text: `FAILED: ${why}` });
}

/** `errors` is NaN if spin did not get through. */
async function check(definitions, idle) {
  // A model with something taken out has its error early: to optimize would take longer than the search.
  const optimize = CORRECT.includes(definitions) ? '-O2' : '-O0';
  const folder = mkdtempSync(join(tmpdir(), 'nbc-model-'));
  const steps = [
    ['spin', ['-a', ...definitions.map((name) => `-D${name}`), modelOf(definitions)]],
    // -DCOLLAPSE stores states compressed; all of them, no hashing.
    ['cc', [optimize, '-w', '-DSAFETY', '-DCOLLAPSE', '-o', 'pan', 'pan.c']],
    ['./pan', ['-m100000', '-w25']],
  ];
  let output = '';
  try {
    for (const [command, args] of steps) {
      const ended = await run(command, args, { cwd: folder, seconds: LIMIT_S, idle });
      output += ended.output;
      if (!ended.ok) return { errors: NaN, output: `${output}\n${command}: ${ended.how}` };
    }
    const complete = !/max search depth too small|out of memory|Search not completed/.test(output);
    const errors = Number(/errors: (\d+)/.exec(output)?.[1]);
    return { errors: complete || errors > 0 ? errors : NaN, output };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
