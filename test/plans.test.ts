/** The look-up of plans, where shapes have large numbers. */
import assert from 'node:assert/strict';
import { Schedule, type Shape } from 'node-nbc/schedules';

const { PlanCache } = (await import(
  new URL('../../dist/plans.js', import.meta.url).href
)) as typeof import('../src/plans.js');

describe('plans', () => {
  it('of shapes that a number below 2^53 cannot tell apart are apart, and each is kept', () => {
    let plans = 0;
    const native = { compile: () => plans++, releasePlan: () => undefined };
    // Many ranks instead of large buffers.
    const owner = { rank: 0, size: 2 ** 50, hosts: undefined, handle: 0, world: { rank: 0, native }, requireOpen() {} };
    const shape = (call: { root: number; shape(bytes: number): Shape }): Shape => call.shape(64);
    const algorithms = [{ name: 'one', build: () => new Schedule() }];
    const cache = new PlanCache(owner as never, { name: 'itest', algorithms, shape, choose: () => 'one' } as never);
    const planOf = (root: number): number => cache.find(null, new Uint8Array(64), root, undefined);
    const roots = [0, 1, 2, 3, 1000];
    const found = roots.map(planOf);
    assert.equal(new Set(found).size, roots.length);
    assert.deepEqual(roots.map(planOf), found);
  });
});
