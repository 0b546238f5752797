/**
 * `nbcbench pingpong`: how long a message and its answer take between two ranks. All implementations take turns in
 * small batches, on the same processors, as in the other measurements.
 */
import type { Implementation } from './implementations.js';
import type { Job } from './job.js';
import type { Listener } from './measure.js';
import { formatBytes } from './options.js';
import { type Binding, place, type Placement } from './placement.js';
import { median } from './statistics.js';

export interface PingPong {
  implementation: string;
  transport: string;
  progress: string;
  bytes: number;
  repetitions: number;
  /** Median, in µs. */
  round_trip_us: number;
}

export interface PingPongSettings {
  sizes: readonly number[];
  /** Round trips that are measured of each size. */
  repetitions: number;
  /** For each implementation and size: measured is what fits in. */
  maxSeconds: number;
  /** Buffers are written before the first round trip of a batch only, not before each. */
  sameBuffers: boolean;
  bind: Binding;
  /** Where the ranks are already. Absent: by {@link place}. */
  placement?: Placement;
  /** Whether there are round trips before those that are measured. */
  warmUp: boolean;
}

/** Of a batch, and those at its beginning that do not count: the caches hold the data of another process. */
const BATCH = 100;
const LEAD_IN = 5;
/** Round trips before any is measured, in batches; they end after that time at the latest. */
const WARM_UP = 10_000;
const WARM_UP_MS = 1000;

interface Player {
  implementation: Implementation;
  job: Job;
  found: number[];
  milliseconds: number;
}

export async function measurePingPong(
  implementations: readonly Implementation[],
  settings: PingPongSettings,
  listener: Listener,
): Promise<PingPong[]> {
  const { sizes, repetitions, maxSeconds, sameBuffers, bind, warmUp: warm, placement = place(2, bind) } = settings;
  listener.note(placement.text);
  const writes = sameBuffers ? 'same' : 'fresh';
  let players: Player[] = [];
  /** One step of all who are left, one after the other. One that fails is left out from then on. */
  const each = async (step: (player: Player) => Promise<void>): Promise<void> => {
    for (const player of [...players]) {
      try {
        await step(player);
      } catch (error) {
        listener.failure(error as Error);
        player.job.kill();
        players = players.filter((other) => other !== player);
      }
    }
  };
  const rows: PingPong[] = [];
  try {
    for (const implementation of implementations) {
      try {
        const job = await implementation.launch(2, placement);
        players.push({ implementation, job, found: [], milliseconds: 0 });
      } catch (error) {
        listener.failure(error as Error);
      }
    }
    await each(({ job }) => job.command('calibrate'));
    for (const [at, bytes] of sizes.entries()) {
      listener.progress(at / sizes.length, `round trips of ${formatBytes(bytes)}`);
      if (warm) await each(({ job }) => warmUp(job, bytes));
      for (const player of players) Object.assign(player, { found: [], milliseconds: 0 });
      for (let done = false; !done;) {
        done = true;
        await each(async (player) => {
          if (player.found.length >= repetitions || player.milliseconds >= maxSeconds * 1000) return;
          done = false;
          const count = Math.min(BATCH, repetitions - player.found.length);
          const begin = performance.now();
          await player.job.command('pingpong', bytes, LEAD_IN + count, writes);
          player.milliseconds += performance.now() - begin;
          player.found.push(...player.job.results()[0].subarray(LEAD_IN));
        });
      }
      for (const { implementation, found } of players) {
        const { name, transport, progress } = implementation;
        const round_trip_us = median(found);
        rows.push({ implementation: name, transport, progress, bytes, repetitions: found.length, round_trip_us });
      }
    }
    return rows;
  } finally {
    await Promise.all(players.map(({ job }) => job.close()));
  }
}

async function warmUp(job: Job, bytes: number): Promise<void> {
  const end = performance.now() + WARM_UP_MS;
  for (let done = 0; done < WARM_UP && performance.now() < end; done += BATCH) {
    await job.command('pingpong', bytes, BATCH, 'same');
  }
}
