#!/usr/bin/env node
/**
 * `npm test` and `npm run test:all`: builds, and runs the tests. The last line is "N passed, N failed[, N skipped]".
 * docs/testing.md describes what runs where.
 */
import { availableParallelism } from 'node:os';
import { buildAddon, compileTypeScript, install } from './build.mjs';
import * as fuzz from './test/fuzz.mjs';
import * as mocha from './test/mocha.mjs';
import * as model from './test/model.mjs';
import * as native from './test/native.mjs';
import { runPool } from './test/pool.mjs';
import * as verbs from './test/verbs.mjs';

const HELP = `npm test [-- FILTER… [--grep PATTERN]]      a part of every test, in six minutes; or what FILTERs name, in full
npm run test:all                            everything

A FILTER runs a part, all of it:
  native             the native tests; also plain, asan, tsan, arm64 for one variant, or a part of a
                     program's name
  model              the model of the doorbell, checked by spin
  fuzz               the fuzzers of what reads bytes from a network
  tcp/               what can run over any transport, over TCP; tcp/exits, for example: one file of it
  ucx/               the same over UCX, on its tcp and its shared memory; ucx-tcp/, ucx-sm/: on one of them
  anything else      the test files in TypeScript whose name contains it, for example nbcrun
--grep PATTERN       of those in TypeScript, only tests whose title matches

NBC_REQUIRE_ALL=1 in the environment: what is left out counts as failed.`;

const QUICK = `npm test covers: the native tests (not under sanitizers, nor large_test), a model of the protocol and a mutation,
and the test files in TypeScript but for Slurm, the guest, the documentation site and bench/patterns, each scenario
once and in one progress mode, two of them over TCP and over UCX also.
npm run test:all adds: sanitizers, arm64, all of the model, fuzzers, verbs in a guest, Slurm, and every combination.`;
const ALL =
  'npm run test:all covers everything: native tests plain, under ASan and TSan, for arm64, model, fuzzers, TypeScript, verbs.';

/** The quick run says what took its time if it took longer than this on a machine that was built already. */
const QUICK_SECONDS = 360;

/** More than processors: half of the time a test waits, for time to pass or for one process among several. */
const AT_A_TIME = Math.ceil(1.5 * availableParallelism());

/** Of tests that are left out for the same reason, so many have their names printed. */
const NAMED = 3;

/** So much of each failure stands below everything. */
const HEAD_LINES = 6;
const HEAD_WIDTH = 200;

const args = process.argv.slice(2);
if (args.includes('--help') || args.includes('-h')) {
  console.log(HELP);
  process.exit(0);
}
const all = args.includes('--all');
const grepAt = args.indexOf('--grep');
const grep = grepAt < 0 ? undefined : args.splice(grepAt, 2)[1];
const filters = args.filter((arg) => arg !== '--all');
const isBuild = ({ name }) => name.endsWith(': build');
process.exitCode = await main();

async function main() {
  const begin = performance.now();
  if (filters.length === 0) console.log(all ? ALL : QUICK);
  const options = { all, grep };
  const parts = grep === undefined ? { native, model, mocha, fuzz, verbs } : { mocha };
  const tasks = {};
  for (const [name, part] of Object.entries(parts)) tasks[name] = part.tasks(filters, options);
  // What is built comes first; what is short, or waits for what is built, last.
  const list = [...(tasks.native ?? []).filter(isBuild), ...tasks.mocha, ...(tasks.model ?? [])];
  list.push(...(tasks.native ?? []).filter((task) => !isBuild(task)), ...(tasks.fuzz ?? []), ...(tasks.verbs ?? []));
  if (list.length === 0) {
    console.error(`nothing is called ${filters.join(' or ')}\n\n${HELP}`);
    return 1;
  }
  await buildFor(tasks);
  if (list.length === 1 && tasks.mocha.length === 1) list[0].run = list[0].run.bind(undefined, { live: true });
  const results = await runPool(list, AT_A_TIME);
  const seconds = (performance.now() - begin) / 1000;
  if (list.length > 3) tellSlowest(results, seconds);
  return tellAll(results);
}

/** The addon, and then TypeScript and the native tests side by side. */
async function buildFor({ native: programs = [], mocha: files }) {
  if (files.length === 0) return;
  install();
  buildAddon();
  const [first] = programs.filter(isBuild);
  const building = first?.run();
  // Lets make start: compiling TypeScript blocks this process.
  if (building !== undefined) await new Promise((done) => setTimeout(done, 500));
  compileTypeScript();
  await building;
}

function tellSlowest(results, seconds) {
  const slowest = results.toSorted((a, b) => b.seconds - a.seconds).slice(0, 8);
  const list = slowest.map((one) => `${one.name} ${one.seconds.toFixed(0)} s`).join(', ');
  console.log(`\n${(seconds / 60).toFixed(1)} minutes; what took longest: ${list}`);
  if (filters.length === 0 && !all && seconds > QUICK_SECONDS)
    console.log(
      `This is more than the ${QUICK_SECONDS / 60} minutes that npm test may take on a quiet machine with two processors.`,
    );
}

/** The first lines of a failure, indented. */
function headOf(failure) {
  const lines = failure.split('\n').filter((line) => line.trim() !== '');
  return lines
    .slice(0, HEAD_LINES)
    .map((line) => `  ${line.slice(0, HEAD_WIDTH)}`)
    .join('\n');
}

function tellAll(results) {
  const sum = (what) => results.reduce((total, one) => total + one[what], 0);
  const failures = results.flatMap((one) => one.failures);
  // At the end: most of the output of a long run is about what did not fail.
  if (failures.length > 0) console.log(`\nFailed:\n\n${failures.join('\n\n')}`);

  const leftOut = results.flatMap((one) => one.leftOut);
  if (leftOut.length > 0) console.log('\nLeft out:');
  const byReason = new Map();
  for (const { what, why } of leftOut) byReason.set(why, [...(byReason.get(why) ?? []), what]);
  for (const [why, all] of byReason) {
    const more = all.length - NAMED;
    console.log(`  ${all.slice(0, NAMED).join('; ')}${more > 0 ? `; and ${more} more` : ''}: ${why}`);
  }

  // Once more, briefly: their output may be longer than what is kept of a run.
  if (failures.length > 0) console.log(`\nFailed (all of it is above):\n${failures.map(headOf).join('\n')}`);

  const required = process.env.NBC_REQUIRE_ALL === '1';
  if (required && leftOut.length > 0) console.log('All of it is required here (NBC_REQUIRE_ALL=1).');
  const passed = sum('passed');
  const failed = sum('failed') + (required ? leftOut.length : 0);
  console.log(
    `\n${passed} passed, ${failed} failed${required || leftOut.length === 0 ? '' : `, ${leftOut.length} skipped`}`,
  );
  return failed > 0 || passed === 0 ? 1 : 0;
}
