import assert from 'node:assert/strict';
import fc from 'fast-check';
import {
  decodeSchedule,
  ElementType,
  isDefined,
  Operator,
  Order,
  Role,
  Schedule,
  SCHEDULE_MAGIC,
  ScheduleError,
  type ScheduleElement,
} from 'node-nbc/schedules';
import { blocksOf } from './local.js';
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

  it('encodes reductions and strided copies to the documented words', () => {
    const schedule = new Schedule()
      .reduce(Operator.MAXLOC, ElementType.FLOAT64, Role.SEND, 8, Role.RECEIVE, 16, 32, Order.TARGET_FIRST)
      .strided(Role.SEND, 1, Role.TEMP, 2, 4, [
        { count: 3, sourceStride: 40, targetStride: 12 },
        { count: 2, sourceStride: 6, targetStride: 4 },
      ]);
    assert.deepEqual(
      [...schedule.encode()],
      [
        ...[SCHEDULE_MAGIC, 1, 91, 0, 48, 0, 34, 0, 2],
        ...[4, 11, 11, 1, 0, 8, 0, 1, 16, 0, 32, 0],
        ...[5, 0, 1, 0, 2, 2, 0, 4, 0, 2, 3, 0, 40, 0, 12, 0, 2, 0, 6, 0, 4, 0],
      ],
    );
    assert.equal(
      schedule.toString(),
      [
        '1 rounds; send 91 B, receive 48 B, temp 34 B',
        'round 0',
        '  reduce MAXLOC FLOAT64 32 B from send+8 to receive+16, target first',
        '  copy 4 B × 3 (+40 to +12) × 2 (+6 to +4) from send+1 to temp+2',
      ].join('\n'),
    );
  });

  it('leaves out copies of no bytes and rounds of no elements, but not messages of no bytes', () => {
    const schedule = new Schedule();
    schedule.round().copy(Role.SEND, 0, Role.TEMP, 0, 0).round();
    assert.deepEqual([...schedule.encode()], [SCHEDULE_MAGIC, 0, 0, 0, 0, 0, 0, 0]);
    schedule.send(1, Role.SEND, 100, 0).round();
    assert.deepEqual([...schedule.encode()], [SCHEDULE_MAGIC, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0]);
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
    const reduce = (operator: number, type: number, bytes: number): Schedule =>
      schedule.reduce(operator as Operator, type as ElementType, Role.SEND, 0, Role.RECEIVE, 0, bytes);
    assert.throws(() => reduce(13, 0, 8), /no operator: 13/);
    assert.throws(() => reduce(0, 12, 8), /no element type: 12/);
    assert.throws(() => reduce(Operator.BAND, ElementType.FLOAT32, 8), /BAND is not defined for FLOAT32/);
    assert.throws(() => reduce(Operator.SUM, ElementType.FLOAT64, 12), /not a multiple of 8/);
    assert.throws(() => reduce(Operator.MINLOC, ElementType.FLOAT64, 8), /not a multiple of 16/);
    const strided = (count: number, stride: number): Schedule =>
      schedule.strided(Role.SEND, 0, Role.RECEIVE, 0, 8, [{ count, sourceStride: 0, targetStride: stride }]);
    assert.throws(() => strided(-1, 8), /no count: -1/);
    assert.throws(() => strided(2, -8), /no stride: -8/);
    assert.throws(() => strided(2 ** 30, 2 ** 30), /no length/);
    const dimensions = Array.from({ length: 17 }, () => ({ count: 1, sourceStride: 0, targetStride: 0 }));
    assert.throws(() => schedule.strided(Role.SEND, 0, Role.RECEIVE, 0, 8, dimensions), /at most 16 dimensions/);
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
      fc
        .record(
          {
            kind: fc.constant('reduce' as const),
            operator: fc.constantFrom(...Object.values(Operator)),
            type: fc.constantFrom(...Object.values(ElementType)),
            order: fc.constantFrom(...Object.values(Order)),
            sourceRole: anyRole,
            sourceOffset: offset,
            targetRole: writable,
            targetOffset: offset,
            bytes: fc.integer({ min: 1, max: 2 ** 20 }).map((n) => n * 16),
          },
          plain,
        )
        .filter(({ operator, type }) => isDefined(operator, type)),
      fc.record(
        {
          kind: fc.constant('strided' as const),
          sourceRole: anyRole,
          sourceOffset: offset,
          targetRole: writable,
          targetOffset: offset,
          blockBytes: fc.integer({ min: 1, max: 100 }),
          dimensions: fc.array(
            fc.record({ count: fc.integer({ min: 1, max: 4 }), sourceStride: fc.nat(), targetStride: fc.nat() }, plain),
            { maxLength: 3 },
          ),
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
            else {
              const places = [e.sourceRole, e.sourceOffset, e.targetRole, e.targetOffset] as const;
              if (e.kind === 'copy') schedule.copy(...places, e.bytes);
              else if (e.kind === 'reduce') schedule.reduce(e.operator, e.type, ...places, e.bytes, e.order);
              else schedule.strided(...places, e.blockBytes, e.dimensions);
            }
          }
          schedule.round();
        }
        const decoded = decodeSchedule(schedule.encode());
        assert.deepEqual(decoded.rounds, rounds);
        const required = [0, 0, 0];
        const touch = (role: Role, end: number): void => void (required[role] = Math.max(required[role], end));
        for (const e of rounds.flat()) {
          if (e.kind === 'send' || e.kind === 'recv') {
            touch(e.role, e.offset + e.bytes);
            continue;
          }
          for (const { source, target, bytes } of blocksOf(e)) {
            touch(e.sourceRole, source + bytes);
            touch(e.targetRole, target + bytes);
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
  const run = (...schedules: Schedule[]): number =>
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
    const reads = new Schedule().recv(1, Role.RECEIVE, 0, 8).copy(Role.RECEIVE, 7, Role.TEMP, 0, 8);
    assert.throws(() => run(reads, new Schedule()), /not independent/);
    const writes = new Schedule().copy(Role.SEND, 0, Role.RECEIVE, 0, 8).recv(1, Role.RECEIVE, 4, 8);
    assert.throws(() => run(writes, new Schedule()), /not independent/);
    assert.throws(() => run(new Schedule().copy(Role.RECEIVE, 0, Role.RECEIVE, 4, 8)), /overlaps itself/);
  });
});
