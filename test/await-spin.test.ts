/** How long the event loop is held for what a turn awaits (option `awaitSpin`): the calls that native code gets. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { ROOT } from './support/launch.js';

const { EventLoop } = (await import(
  pathToFileURL(join(ROOT, 'dist/event-loop.js')).href
)) as typeof import('../src/event-loop.js');
type Made = ConstructorParameters<typeof EventLoop>;

/** One turn that awaits three requests, none of which ends. Of each look: how many it watches, and its length. */
async function turn(awaitSpin: number): Promise<[number, number][]> {
  const looks: [number, number][] = [];
  let fresh = 3;
  const native = {
    look: (count: number, microseconds: number) => {
      looks.push([count, microseconds]);
      return 0;
    },
    rest: () => true,
    setKeepAlive: () => undefined,
  };
  const takeFresh = (): number => {
    const count = fresh;
    fresh = 0;
    return count;
  };
  const slots = { exchange: new Uint32Array(8), hasFresh: false, pendingCount: 3, takeFresh, at: () => null };
  const settler = { settleIfEnded: () => false };
  const stubs = [native, slots, settler, { wait: false }] as unknown as [Made[0], Made[1], Made[2], Made[3]];
  const loop = new EventLoop(...stubs, { manual: false, awaitSpin });
  for (let i = 0; i < 3; i++) loop.awaited();
  assert.deepEqual(looks, [], 'nothing before the end of the turn');
  await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
  loop.close();
  return looks;
}

describe('the option awaitSpin', () => {
  it('has one look of its length for all that a turn awaits, and a short one before the event loop sleeps', async () => {
    assert.deepEqual(await turn(100), [
      [3, 100],
      [0, 0],
    ]);
  });

  it('of 0 has no look that lasts', async () => {
    assert.deepEqual(await turn(0), [[3, 0]]);
  });
});
