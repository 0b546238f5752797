/**
 * Limits of time that find hangs. They count what the machine can do: once a second a fixed piece of work runs here,
 * and when it takes n times as long as on an idle machine, the second counts as 1/n of a second. So a busy or emulated
 * machine has more time, and a job that hangs ends all the same. native/test/limit.h is the same for native tests.
 */

const STEPS = 4_000_000;
/** What the work below takes on an idle machine of 2023 (AMD EPYC). */
const IDLE_MS = 8.8;
const TICK_MS = 1000;

function work() {
  let x = 88172645;
  for (let step = 0; step < STEPS; step++) {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
  }
  return x;
}

let measured;

/** How many times slower than idle this machine is now: 1 or more. Measured at most once in a tick. */
export function slowness() {
  // The first time it is not compiled yet.
  if (measured === undefined) work();
  const begin = performance.now();
  if (measured !== undefined && begin - measured.at < TICK_MS / 2) return measured.times;
  work();
  const at = performance.now();
  measured = { at, times: Math.max(1, (at - begin) / IDLE_MS) };
  return measured.times;
}

/** Calls `hit` once, when `seconds` of an idle machine have passed, unless stop() is called before. */
export class Limit {
  #timer;

  constructor(seconds, hit) {
    let spent = 0;
    let last = performance.now();
    this.#timer = setInterval(
      () => {
        const now = performance.now();
        spent += (now - last) / 1000 / slowness();
        last = now;
        if (spent < seconds) return;
        this.stop();
        hit();
      },
      Math.min(TICK_MS, seconds * 250),
    );
  }

  stop() {
    clearInterval(this.#timer);
  }
}
