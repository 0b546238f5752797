/** A rank alone, in a process with limits. */
import assert from 'node:assert/strict';
import { constants } from 'node:buffer';
import { closeSync, openSync } from 'node:fs';
import { alloc, init, NbcError } from 'node-nbc';
import { play, report } from './scenario.js';

await play({
  async exchange() {
    const world = await init();
    const received = alloc(Float64Array, 1000);
    await world.ialltoall(new Float64Array(1000).fill(7), received);
    assert(received.every((value) => value === 7));
    await world.close();
  },

  /** Reports why init() fails. */
  async tell() {
    await init().then(
      (world) => world.close(),
      (error: unknown) => tellOf(error),
    );
  },

  /** 256 MiB: half of them are there, twice as many are not. */
  async exposesLittle() {
    const world = await init();
    assert.equal(alloc(Uint8Array, 2 ** 27).length, 2 ** 27);
    assert.throws(() => alloc(Uint8Array, 2 ** 29), { code: 'ERR_NBC_NO_MEMORY' });
    await world.close();
  },

  /** More bytes than an ArrayBuffer has, in elements that are not too many. */
  async exposesTooMuch() {
    const world = await init();
    for (let i = 1; i < 10; i++) {
      const length = Math.min(constants.MAX_LENGTH, 2 ** 48) / 8 + i;
      assert.throws(() => alloc(Float64Array, length), { code: 'ERR_NBC_NO_MEMORY' });
    }
    assert.equal(alloc(Float64Array, 100).length, 100);
    await world.close();
  },

  /** Rank 0 has no descriptor left for its connections to the others: reports its error, and ends the job. */
  async descriptorsLater() {
    const world = await init();
    // Before rank 0 has taken the descriptors, a call of another rank would connect the two.
    if (world.rank !== 0) return new Promise(() => setInterval(() => undefined, 1000));
    takeDescriptors();
    const buffer = new Uint8Array(world.size);
    await world.ialltoall(buffer, new Uint8Array(world.size)).then(() => assert.fail('it has connected'), tellOf);
    process.exit(1);
  },

  /** With no descriptor left, then one, and so on, until init() succeeds: reports each failure. */
  async descriptors() {
    const taken = takeDescriptors();
    for (;;) {
      try {
        await (await init()).close();
        return;
      } catch (error) {
        tellOf(error);
      }
      closeSync(taken.pop()!);
    }
  },
});

/** All that are left. */
function takeDescriptors(): number[] {
  const taken: number[] = [];
  try {
    for (;;) taken.push(openSync('/dev/null', 'r'));
  } catch (error) {
    assert.equal((error as NodeJS.ErrnoException).code, 'EMFILE');
  }
  return taken;
}

function tellOf(error: unknown): void {
  assert(error instanceof NbcError, String(error));
  report({ name: error.name, code: error.code, message: error.message });
}
