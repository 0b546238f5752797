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

/** What programs may name: an algorithm that is gone breaks them. */
const PROMISED: Record<string, readonly string[]> = {
  ibarrier: ['dissemination', 'hierarchical'],
  ibcast: ['binomial', 'chain', 'scatter-allgather', 'circulant', 'hierarchical'],
  igather: ['linear', 'binomial'],
  iscatter: ['linear', 'binomial'],
  iallgather: ['ring', 'recursive-doubling', 'bruck', 'neighbor-exchange', 'hierarchical'],
  ialltoall: ['linear', 'pairwise', 'bruck', 'hierarchical'],
  ialltoallv: ['linear', 'pairwise', 'bruck', 'hierarchical'],
  ireduce: ['binomial', 'rabenseifner', 'hierarchical'],
  iallreduce: ['recursive-doubling', 'ring', 'rabenseifner', 'hierarchical'],
  ireduceScatterBlock: ['recursive-halving', 'pairwise'],
  ireduceScatter: ['recursive-halving', 'pairwise'],
  iscan: ['linear', 'recursive-doubling'],
  iexscan: ['linear', 'recursive-doubling'],
};

describe('the algorithms', () => {
  for (const [name, promised] of Object.entries(PROMISED)) {
    it(`of ${name} have ${promised.join(', ')} among them`, () => {
      const names = tables.find((operation) => operation.name === name)!.algorithms.map((row) => row.name);
      assert.deepEqual(
        promised.filter((one) => !names.includes(one)),
        [],
      );
    });
  }
});
