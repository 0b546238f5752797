/** How much of its time a rank waits, in the shape that Node.js has for its event loop. */

/** As `performance.eventLoopUtilization()` has it. */
export interface Utilization {
  /** Milliseconds in which this thread waited: in `wait()` and its like, or in short looks for what is awaited. */
  idle: number;
  /** The rest of the time, in milliseconds: the program computed, called, or was in its event loop. */
  active: number;
  /** The part of the time that was active, from 0 to 1. */
  utilization: number;
}

export function utilizationOf(idle: number, active: number): Utilization {
  const time = idle + active;
  return { idle, active, utilization: time > 0 ? active / time : 0 };
}

/** What came between two of them. */
export function utilizationSince(now: Utilization, before: Utilization): Utilization {
  return utilizationOf(now.idle - before.idle, now.active - before.active);
}
