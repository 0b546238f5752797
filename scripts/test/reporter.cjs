/**
 * Mocha's usual output, and at the end the file that NBC_TEST_RESULTS names: what passed and how long it took, what
 * failed, and what was skipped and why (skip() in test/helpers.ts leaves the reason at the test or its suite).
 */
const { writeFileSync } = require('node:fs');
const Mocha = require('mocha');

const { EVENT_TEST_PASS, EVENT_TEST_FAIL, EVENT_TEST_PENDING, EVENT_RUN_END } = Mocha.Runner.constants;

function reasonOf(test) {
  for (let at = test; at !== undefined; at = at.parent) if (at.skipReason !== undefined) return at.skipReason;
  return undefined;
}

module.exports = class extends Mocha.reporters.Spec {
  constructor(runner, options) {
    super(runner, options);
    const passed = [];
    const failed = [];
    const skipped = [];
    runner.on(EVENT_TEST_PASS, (test) => passed.push({ title: test.fullTitle(), ms: test.duration }));
    runner.on(EVENT_TEST_FAIL, (test, { stack, message }) =>
      failed.push({ title: test.fullTitle(), ms: test.duration, why: stack ?? message }),
    );
    runner.on(EVENT_TEST_PENDING, (test) => skipped.push({ title: test.fullTitle(), why: reasonOf(test) }));
    const file = process.env.NBC_TEST_RESULTS;
    if (file === undefined) return;
    runner.on(EVENT_RUN_END, () => writeFileSync(file, JSON.stringify({ passed, failed, skipped })));
  }
};
