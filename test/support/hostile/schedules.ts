/**
 * Schedules of random and damaged elements: the builder refuses them with a ScheduleError, or what it encodes can be
 * decoded; checkSchedules says what does not fit, and what it finds nothing in runs to its end in the simulator.
 *
 * An input is JSON: for each rank a list of words. Nothing: the builder has refused one.
 */
import assert from 'node:assert/strict';
import {
  allgatherRing,
  alltoallLinear,
  bcastBinomial,
  checkSchedules,
  decodeSchedule,
  ElementType,
  Operator,
  Role,
  Schedule,
  ScheduleError,
  type DecodedSchedule,
  type Dimension,
} from 'node-nbc/schedules';
import { runLocal } from '../../schedules/local.js';
import { simulate, SimulationError } from '../../schedules/simulator.js';
import { generator } from '../random.js';
import { below, damaged, damagedValue, type Fuzzer, pick, type Random } from './mutations.js';

const BUILDERS = [allgatherRing, alltoallLinear, bcastBinomial];
/**
 * What the simulator may have to say about schedules that fit together, as native code does: elements of one round
 * collide, or a damaged header asks for less memory than they touch.
 */
const REFUSED = /overlaps itself|not independent|access beyond role/;

export const SCHEDULES: Fuzzer = {
  make(seed) {
    const random = generator(seed);
    const size = 2 + below(random, 3);
    const all: number[][] = [];
    for (let rank = 0; rank < size; rank++) {
      const words = tried(() => (random() < 0.5 ? builtin(random, rank, size) : built(random, size)));
      if (words === undefined) return new Uint8Array();
      all.push([...words]);
    }
    return new TextEncoder().encode(JSON.stringify(all));
  },

  run(input) {
    if (input.length === 0) return Promise.resolve();
    const all = JSON.parse(new TextDecoder().decode(input)) as number[][];
    const schedules = tried(() => all.map((words) => decodeSchedule(Uint32Array.from(words))));
    if (schedules !== undefined) simulated(schedules);
    return Promise.resolve();
  },
};

function simulated(schedules: readonly DecodedSchedule[]): void {
  if (checkSchedules(schedules).length > 0) return;
  const memory = (bytes: number): Uint8Array => new Uint8Array(bytes);
  const most = 1 << 20;
  if (schedules.some((one) => one.sendBytes + one.receiveBytes + one.tempBytes > most)) return;
  try {
    simulate(
      schedules.map((one) => ({ schedule: one, send: memory(one.sendBytes), receive: memory(one.receiveBytes) })),
      // What is combined how does not matter here. A reduction touches what a copy does.
      (element, bytes) => runLocal(element.kind === 'reduce' ? { ...element, kind: 'copy' } : element, bytes),
    );
  } catch (error) {
    assert(error instanceof SimulationError && REFUSED.test(error.message), `ended with ${String(error)}`);
  }
}

/** undefined: refused, as it may be. */
function tried<T>(action: () => T): T | undefined {
  try {
    return action();
  } catch (error) {
    assert(error instanceof ScheduleError, `ended with ${String(error)}`);
    return undefined;
  }
}

/** A schedule of the library, of which words may be damaged. */
function builtin(random: Random, rank: number, size: number): Uint32Array {
  const words = pick(random, BUILDERS)({ rank, size, root: 0, bytes: 24, inPlace: false }).encode();
  if (random() < 0.5) return words;
  const bytes = damaged(new Uint8Array(words.buffer, words.byteOffset, words.byteLength), random);
  return new Uint32Array(bytes.slice(0, bytes.length & ~3).buffer);
}

/** A schedule of random elements, of which arguments may be no numbers at all. */
function built(random: Random, size: number): Uint32Array {
  const schedule = new Schedule();
  const roles = Object.values(Role);
  const role = (): Role => pick(random, roles);
  const offset = (): number => 8 * below(random, 8);
  const bytes = pick(random, [0, 1, 8, 64]);
  const dimension = (): Dimension => ({ count: below(random, 4), sourceStride: offset(), targetStride: offset() });
  const CALLS: (() => [keyof Schedule, unknown[]])[] = [
    () => ['send', [below(random, size), role(), offset(), bytes]],
    () => ['recv', [below(random, size), role(), offset(), bytes]],
    () => ['copy', [role(), offset(), role(), offset(), bytes]],
    () => ['reduce', [Operator.SUM, ElementType.UINT8, role(), offset(), role(), offset(), bytes]],
    () => ['strided', [role(), offset(), role(), offset(), bytes, Array.from({ length: below(random, 4) }, dimension)]],
    () => ['round', []],
  ];
  for (let left = below(random, 6); left > 0; left--) {
    const [name, args] = pick(random, CALLS)();
    const given = args.length > 0 && random() < 0.1 ? (damagedValue(args, random) as unknown[]) : args;
    (schedule[name] as (...all: unknown[]) => unknown).apply(schedule, Array.isArray(given) ? given : [given]);
  }
  return schedule.encode();
}
