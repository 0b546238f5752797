#!/usr/bin/env node
/**
 * `npm test`: builds, and runs all tests that this machine can run. The last line is "N passed, N failed[, N skipped]".
 */
import { build } from './build.mjs';
import * as fuzz from './test/fuzz.mjs';
import * as mocha from './test/mocha.mjs';
import * as model from './test/model.mjs';
import * as native from './test/native.mjs';
import * as tcp from './test/tcp.mjs';

const HELP = `npm test [-- FILTER… [--grep PATTERN]]

Builds what is needed and runs all tests that this machine can run; what it left out, and why, stands at the end.

A FILTER runs a part:
  native             the native tests; also plain, asan, tsan for one variant, or a part of a program's name
  model              the model of the doorbell, checked by spin
  fuzz               the fuzzers of what reads bytes from a network
  tcp                what can run over any transport, over TCP; tcp/exits, for example: one file of it
  anything else      the test files in TypeScript whose name contains it, for example nbcrun
--grep PATTERN       of those, only tests whose title matches

NBC_REQUIRE_ALL=1 in the environment: what is left out counts as failed.`;

const args = process.argv.slice(2);
if (args.includes('--help') || args.includes('-h')) {
  console.log(HELP);
  process.exit(0);
}
const grepAt = args.indexOf('--grep');
const grep = grepAt < 0 ? undefined : args.splice(grepAt, 2)[1];

const inTypeScript = [mocha, tcp];
const parts = [model, native, fuzz, ...inTypeScript]
  .map((part) => ({ part, chosen: part.select(args) }))
  .filter(({ part, chosen }) => chosen.length > 0 && (grep === undefined || inTypeScript.includes(part)));
if (parts.length === 0) {
  console.error(`nothing is called ${args.join(' or ')}\n\n${HELP}`);
  process.exit(1);
}
if (parts.some(({ part }) => inTypeScript.includes(part))) build();

const total = { passed: 0, failed: 0, leftOut: [], failures: [] };
for (const { part, chosen } of parts) {
  console.log(`\n--- ${part.title}`);
  const { passed, failed, leftOut, failures } = await part.runAll(chosen, { grep });
  total.passed += passed;
  total.failed += failed;
  total.leftOut.push(...leftOut);
  total.failures.push(...failures.map((text) => `--- ${part.title}\n${text}`));
}

// Once more at the end: most of the output of a long run is about what did not fail.
if (total.failures.length > 0) console.log(`\nFailed:\n\n${total.failures.join('\n\n')}`);

const skipped = total.leftOut.length;
if (skipped > 0) {
  console.log('\nLeft out:');
  const lines = new Map();
  for (const { what, why } of total.leftOut) {
    const line = `${what}: ${why}`;
    lines.set(line, (lines.get(line) ?? 0) + 1);
  }
  for (const [line, times] of lines) console.log(`  ${line}${times > 1 ? ` (${times} times)` : ''}`);
}
const required = process.env.NBC_REQUIRE_ALL === '1';
if (required && skipped > 0) console.log('All of it is required here (NBC_REQUIRE_ALL=1).');
const failed = total.failed + (required ? skipped : 0);
console.log(`\n${total.passed} passed, ${failed} failed${required || skipped === 0 ? '' : `, ${skipped} skipped`}`);
process.exitCode = failed > 0 || total.passed === 0 ? 1 : 0;
