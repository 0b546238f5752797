/** Schedules of the program's own; see own-schedules.test.ts. */
import assert from 'node:assert/strict';
import { ClosedError, IN_PLACE, init, ScheduleError, waitAll } from 'node-nbc';
import { Role, Schedule } from 'node-nbc/schedules';
import { statistics } from '../../examples/statistics/schedule.js';
import { play } from './scenario.js';

const world = await init();
const { rank, size } = world;

await play({
  /** In the order of all other collectives, more than once, and with a schedule that grows in between. */
  runs() {
    for (const count of [1, 100, 20_000]) {
      const schedule = statistics(rank, size, count);
      for (let step = 0; step < 3; step++) {
        const send = Float64Array.from({ length: count }, (_, i) => rank * step + i);
        const recv = new Float64Array(3 * count);
        const word = new Uint8Array(8).fill(rank === 0 ? step + 1 : 0);
        waitAll([world.start(schedule, send, recv), world.ibcast(word, 0), world.start(schedule, send, recv.slice())]);
        assert.equal(word[7], step + 1);
        const last = count - 1;
        assert.equal(recv[last], last);
        assert.equal(recv[2 * count - 1], (size - 1) * step + last);
        assert.equal(recv[3 * count - 1], ((size * (size - 1)) / 2) * step + size * last);
      }
    }
    const growing = new Schedule().copy(Role.SEND, 0, Role.RECEIVE, 0, 1).round();
    const [from, to] = [Uint8Array.of(1, 2), new Uint8Array(2)];
    world.start(growing, from, to).wait();
    assert.deepEqual([...to], [1, 0]);
    growing.copy(Role.SEND, 1, Role.RECEIVE, 1, 1).round();
    world.start(growing, from, to).wait();
    assert.deepEqual([...to], [1, 2]);
    world.start(new Schedule(), null, null).wait();
    // More of them than are kept.
    for (let i = 0; i < 600; i++) {
      world.start(new Schedule().copy(Role.SEND, 0, Role.RECEIVE, 0, 1), from, to.fill(0)).wait();
      assert.equal(to[0], 1);
    }
  },

  /** Refused on this rank alone, before anything runs; what follows works. */
  async refused() {
    const eight = new Uint8Array(8);
    const peer = (rank + 1) % size;
    const bad: [Schedule, RegExp][] = [
      [new Schedule().send(size, Role.SEND, 0, 8), /rank/],
      [new Schedule().send(rank, Role.SEND, 0, 8), /own rank/],
      [new Schedule().recv(peer, Role.RECEIVE, 0, 8).recv(peer, Role.RECEIVE, 4, 4), /same bytes/],
      [new Schedule().recv(peer, Role.RECEIVE, 0, 8).send(peer, Role.RECEIVE, 7, 1), /same bytes/],
      [new Schedule().recv(peer, Role.RECEIVE, 0, 8).copy(Role.SEND, 0, Role.RECEIVE, 0, 1), /same bytes/],
      [new Schedule().copy(Role.RECEIVE, 0, Role.RECEIVE, 4, 8), /reads the bytes/],
    ];
    for (const [schedule, expected] of bad) {
      assert.throws(
        () => world.start(schedule, new Uint8Array(16), new Uint8Array(16)),
        (error: unknown) => error instanceof ScheduleError && expected.test(error.message),
      );
    }
    const good = new Schedule().copy(Role.SEND, 0, Role.RECEIVE, 0, 8).round();
    const wrong: [string, () => unknown][] = [
      ['send', () => world.start(good, null, eight)],
      ['recv', () => world.start(good, eight, null)],
      ['send', () => world.start(good, new Uint8Array(7), eight)],
      ['recv', () => world.start(good, eight, new Uint8Array(7))],
      ['recv', () => world.start(good, eight, eight)],
      ['send', () => world.start(good, IN_PLACE as never, eight)],
      ['recv', () => world.start(good, eight, 'buffer' as never)],
      ['schedule', () => world.start(null as never, eight, eight)],
      ['schedule', () => world.start(good.encode() as never, eight, eight)],
      ['schedule', () => world.start({ encode: () => good.encode() } as never, eight, eight)],
    ];
    for (const [argument, call] of wrong) assert.throws(call, { name: 'ArgumentError', argument });
    const [from, to] = [new Uint8Array(8).fill(3), new Uint8Array(8)];
    world.start(good, from, to).wait();
    assert.deepEqual(to, from);
    const own = await world.dup();
    own.start(good, from, to).wait();
    await own.close();
    assert.throws(() => own.start(good, from, to), ClosedError);
  },
});
await world.close();
