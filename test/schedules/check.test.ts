/** checkSchedules: finds nothing in the library's own schedules, and everything that is done to them. */
import assert from 'node:assert/strict';
import {
  allgatherRing,
  alltoallLinear,
  barrierDissemination,
  bcastBinomial,
  checkSchedules,
  decodeSchedule,
  type DecodedSchedule,
  Role,
  Schedule,
  type ScheduleProblem,
  type Shape,
} from 'node-nbc/schedules';
import { statistics } from '../../examples/statistics/schedule.js';

const BUILDERS: Record<string, (shape: Shape) => Schedule> = {
  bcastBinomial,
  alltoallLinear,
  allgatherRing,
  barrierDissemination,
  statistics: ({ rank, size }) => statistics(rank, size, 3),
};

function all(build: (shape: Shape) => Schedule, size: number): DecodedSchedule[] {
  return Array.from({ length: size }, (_, rank) =>
    decodeSchedule(build({ rank, size, root: 0, bytes: 24, inPlace: false }).encode()),
  );
}

function kinds(problems: readonly ScheduleProblem[]): string[] {
  return [...new Set(problems.map(({ kind }) => kind))].sort();
}

/** Every place of a transfer of this kind: rank, round, index. */
function transfers(schedules: readonly DecodedSchedule[], kind: 'send' | 'recv'): [number, number, number][] {
  return schedules.flatMap(({ rounds }, rank) =>
    rounds.flatMap((elements, round) =>
      elements.flatMap((element, index) =>
        element.kind === kind ? [[rank, round, index] as [number, number, number]] : [],
      ),
    ),
  );
}

describe('checkSchedules', () => {
  for (const [name, build] of Object.entries(BUILDERS)) {
    it(`finds nothing wrong with ${name} on 1 to 17 ranks`, () => {
      for (let size = 1; size <= 17; size++) assert.deepEqual(checkSchedules(all(build, size)), [], `${size} ranks`);
    });

    it(`finds each transfer that is taken out of ${name}`, () => {
      for (const kind of ['send', 'recv'] as const) {
        for (const [rank, round, index] of transfers(all(build, 5), kind)) {
          const schedules = all(build, 5);
          schedules[rank].rounds[round].splice(index, 1);
          const problems = checkSchedules(schedules);
          assert(
            kinds(problems).includes(kind === 'send' ? 'no send' : 'no receive'),
            `${kind} ${rank} ${round}: ${JSON.stringify(problems)}`,
          );
        }
      }
    });

    it(`finds each size that is changed in ${name}`, () => {
      for (const kind of ['send', 'recv'] as const) {
        for (const [rank, round, index] of transfers(all(build, 5), kind)) {
          const schedules = all(build, 5);
          const element = schedules[rank].rounds[round][index];
          assert(element.kind === kind);
          element.bytes += 8;
          const problems = checkSchedules(schedules);
          assert.deepEqual(kinds(problems), ['sizes']);
          assert.equal(problems.length, 1);
          const [{ message }] = problems;
          assert.match(message, new RegExp(`${element.bytes} `), message);
        }
      }
    });
  }

  const transfer = (peer: number): [number, Role, number, number] => [peer, Role.RECEIVE, 0, 8];

  it('finds rounds that wait for each other, and says who waits for whom', () => {
    // Each sends and then receives: large messages would wait for ever. Any length of the circle.
    for (const size of [2, 3, 7]) {
      const schedules = Array.from({ length: size }, (_, rank) =>
        new Schedule()
          .send(...transfer((rank + 1) % size))
          .round()
          .recv(...transfer((rank + size - 1) % size))
          .round(),
      );
      const [problem, ...others] = checkSchedules(schedules);
      assert.deepEqual(others, []);
      assert.equal(problem.kind, 'cycle');
      assert.equal(problem.message.match(/rank \d+ in round 0/g)?.length, size + 1);
      // In one round it is none.
      const together = Array.from({ length: size }, (_, rank) =>
        new Schedule()
          .send(...transfer((rank + 1) % size))
          .recv((rank + size - 1) % size, Role.TEMP, 0, 8)
          .round(),
      );
      assert.deepEqual(checkSchedules(together), []);
    }
  });

  it('finds a cycle behind ranks that only wait for it', () => {
    const schedules = [
      new Schedule().recv(...transfer(1)).round(),
      // prettier-ignore
      new Schedule().recv(...transfer(2)).round().send(...transfer(2)).round().send(...transfer(0)).round(),
      new Schedule()
        .recv(...transfer(1))
        .round()
        .send(...transfer(1))
        .round(),
    ];
    const [problem] = checkSchedules(schedules);
    assert.equal(problem.kind, 'cycle');
    assert.doesNotMatch(problem.message, /rank 0/);
  });

  it('finds ranks that do not exist, and a rank that sends to itself', () => {
    assert.deepEqual(kinds(checkSchedules([new Schedule().send(...transfer(1)).round()])), ['rank']);
    assert.deepEqual(kinds(checkSchedules([new Schedule().send(...transfer(0)).round()])), ['rank']);
  });
});
