import assert from 'node:assert/strict';
import fc from 'fast-check';
import {
  decodeSchedule,
  Role,
  Schedule,
  SCHEDULE_MAGIC,
  ScheduleError,
  type ScheduleElement,
} from 'node-nbc/schedules';
import { simulate, SimulationError } from './simulator.js';

describe('Schedule', () => {
  it('encodes to the documented words', () => {
    const schedule = new Schedule()
      .send(3, Role.SEND, 8, 16)
      .recv(2, Role.RECEIVE, 2 ** 33 + 5, 4)
      .round()
      .copy(Role.RECEIVE, 1, Role.TEMP, 2, 7);
    assert.deepEqual(
      [...schedule.encode()],
      [
        ...[SCHEDULE_MAGIC, 2, 24, 0, 9, 2, 9, 0],
        ...[2, 1, 3, 0, 8, 0, 16, 0, 2, 2, 1, 5, 2, 4, 0],
        ...[1, 3, 1, 1, 0, 2, 2, 0, 7, 0],
      ],
    );
  });

  it('leaves out copies of no bytes and rounds of no elements, but not empty messages', () => {
    const schedule = new Schedule();
    schedule.round().send(1, Role.SEND, 100, 0).round().copy(Role.SEND, 0, Role.TEMP, 0, 0).round();
    const send = [1, 1, Role.SEND, 0, 0, 0, 0];
    assert.deepEqual([...schedule.encode()], [SCHEDULE_MAGIC, 1, 0, 0, 0, 0, 0, 0, 1, ...send]);
  });

  it('reads as text, one line per element', () => {
    const schedule = new Schedule().recv(1, Role.RECEIVE, 8, 8).copy(Role.SEND, 0, Role.RECEIVE, 0, 8);
    schedule.round().send(1, Role.RECEIVE, 0, 16);
    assert.equal(
      schedule.toString(),
      [
        '2 rounds; send 8 B, receive 16 B, temp 0 B',
        'round 0',
        '  recv 8 B into receive+8 from rank 1',
        '  copy 8 B from send+0 to receive+0',
        'round 1',
        '  send 16 B from receive+0 to rank 1',
      ].join('\n'),
    );
  });

  it('refuses impossible elements', () => {
    const schedule = new Schedule();
    assert.throws(() => schedule.recv(0, Role.SEND, 0, 8), ScheduleError);
    assert.throws(() => schedule.copy(Role.RECEIVE, 0, Role.SEND, 0, 8), ScheduleError);
    assert.throws(() => schedule.send(-1, Role.SEND, 0, 8), ScheduleError);
    assert.throws(() => schedule.send(1.5, Role.SEND, 0, 8), ScheduleError);
    assert.throws(() => schedule.send(0, 3 as Role, 0, 8), ScheduleError);
    assert.throws(() => schedule.send(0, Role.SEND, -8, 8), ScheduleError);
    assert.throws(() => schedule.send(0, Role.SEND, 0, NaN), ScheduleError);
    assert.throws(() => schedule.send(0, Role.SEND, Number.MAX_SAFE_INTEGER, 8), ScheduleError);
  });

  it('decodes what it encodes', () => {
    const bytes = fc.oneof(fc.integer({ min: 1, max: 100 }), fc.integer({ min: 1, max: 2 ** 48 }));
    const offset = fc.oneof(
      fc.nat(100),
      fc.nat({ max: 2 ** 31 - 1 }).map((n) => n * 2 ** 15 + 1),
    );
    const anyRole = fc.constantFrom(Role.SEND, Role.RECEIVE, Role.TEMP);
    const writable = fc.constantFrom(Role.RECEIVE, Role.TEMP);
    const plain = { noNullPrototype: true } as const;
    const element: fc.Arbitrary<ScheduleElement> = fc.oneof(
      fc.record({ kind: fc.constant('send' as const), peer: fc.nat(), role: anyRole, offset, bytes }, plain),
      fc.record({ kind: fc.constant('recv' as const), peer: fc.nat(), role: writable, offset, bytes }, plain),
      fc.record(
        {
          kind: fc.constant('copy' as const),
          sourceRole: anyRole,
          sourceOffset: offset,
          targetRole: writable,
          targetOffset: offset,
          bytes,
        },
        plain,
      ),
    );
    fc.assert(
      fc.property(fc.array(fc.array(element, { minLength: 1, maxLength: 8 }), { maxLength: 8 }), (rounds) => {
        const schedule = new Schedule();
        for (const round of rounds) {
          for (const e of round) {
            if (e.kind === 'send') schedule.send(e.peer, e.role, e.offset, e.bytes);
            else if (e.kind === 'recv') schedule.recv(e.peer, e.role, e.offset, e.bytes);
            else schedule.copy(e.sourceRole, e.sourceOffset, e.targetRole, e.targetOffset, e.bytes);
          }
          schedule.round();
        }
        const decoded = decodeSchedule(schedule.encode());
        assert.deepEqual(decoded.rounds, rounds);
        const required = [0, 0, 0];
        const touch = (role: Role, end: number): void => void (required[role] = Math.max(required[role], end));
        for (const e of rounds.flat()) {
          if (e.kind !== 'copy') touch(e.role, e.offset + e.bytes);
          else {
            touch(e.sourceRole, e.sourceOffset + e.bytes);
            touch(e.targetRole, e.targetOffset + e.bytes);
          }
        }
        assert.deepEqual([decoded.sendBytes, decoded.receiveBytes, decoded.tempBytes], required);
      }),
    );
  });

  it('never decodes rubbish silently', () => {
    const words = new Schedule().send(1, Role.SEND, 0, 8).round().recv(1, Role.RECEIVE, 0, 8).encode();
    for (let length = 0; length < words.length; length++) {
      assert.throws(() => decodeSchedule(words.slice(0, length)), ScheduleError, `cut to ${length} words`);
    }
    assert.throws(() => decodeSchedule(Uint32Array.of(...words, 0)), ScheduleError);
    fc.assert(
      fc.property(fc.nat(words.length - 1), fc.integer({ min: 0, max: 2 ** 32 - 1 }), (index, value) => {
        const damaged = words.slice();
        damaged[index] = value;
        try {
          decodeSchedule(damaged);
        } catch (error) {
          assert.ok(error instanceof ScheduleError, String(error));
        }
      }),
    );
  });
});

describe('the simulator', () => {
  const run = (...schedules: Schedule[]): void =>
    simulate(
      schedules.map((schedule) => ({
        schedule: decodeSchedule(schedule.encode()),
        send: new Uint8Array(64),
        receive: new Uint8Array(64),
      })),
    );

  it('finds a deadlock', () => {
    const swap = (peer: number): Schedule =>
      new Schedule().send(peer, Role.SEND, 0, 8).round().recv(peer, Role.RECEIVE, 0, 8);
    assert.throws(() => run(swap(1), swap(0)), /deadlock: rank 0 in round 0, rank 1 in round 0/);
  });

  it('finds unmatched and unequal messages', () => {
    assert.throws(() => run(new Schedule().send(1, Role.SEND, 0, 8), new Schedule()), SimulationError);
    assert.throws(
      () => run(new Schedule().send(1, Role.SEND, 0, 8), new Schedule().recv(0, Role.RECEIVE, 0, 9)),
      /message of 8 B meets: recv 9 B/,
    );
  });

  it('finds elements of a round that depend on each other', () => {
    const reads = new Schedule().copy(Role.SEND, 0, Role.RECEIVE, 0, 8).copy(Role.RECEIVE, 7, Role.TEMP, 0, 8);
    assert.throws(() => run(reads), /not independent/);
    const writes = new Schedule().copy(Role.SEND, 0, Role.RECEIVE, 0, 8).copy(Role.SEND, 8, Role.RECEIVE, 4, 8);
    assert.throws(() => run(writes), /not independent/);
    assert.throws(() => run(new Schedule().copy(Role.RECEIVE, 0, Role.RECEIVE, 4, 8)), /overlaps itself/);
  });
});
