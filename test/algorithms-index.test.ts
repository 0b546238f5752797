/** docs/algorithms.md is what the table of operations says. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { NEIGHBOR_OPERATIONS, type Operation, OPERATIONS } from 'node-nbc/schedules';
import { ROOT } from './support/launch.js';

const { render } = (await import(join(ROOT, 'scripts/algorithms.mjs'))) as {
  render: (operations: readonly Operation[]) => Promise<string>;
};

const tables = [...OPERATIONS, ...NEIGHBOR_OPERATIONS] as readonly Operation[];

describe('docs/algorithms.md', () => {
  it('is current (node scripts/algorithms.mjs writes it)', async () => {
    assert.equal(readFileSync(join(ROOT, 'docs/algorithms.md'), 'utf8'), await render(tables));
  });
});
