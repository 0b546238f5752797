/** A long run of everything (programs/soak.ts), at whose end nothing has grown. */
import assert from 'node:assert/strict';
import { reports, runRanks } from '../helpers.js';
import { LIMIT_S } from './limit.js';

const KIB = 1024;
const MIB = 1024 * KIB;
const RANKS = 3;

export interface Holdings {
  rss: number;
  /** Of rss, what is no file's and not shared. */
  anonymous: number;
  heapUsed: number;
  external: number;
  arrayBuffers: number;
  descriptors: number;
  /** Slots of requests: pending, or persistent. */
  requests: number;
  /** Slots of mailboxes of peers that these have not reported as free. */
  mailboxSlots: number;
  /** Messages that are pending, or have come before they were asked for. */
  messages: number;
  /** Bytes of alloc() and of temporary buffers. */
  exposed: number;
}
interface Told {
  actions: number;
  samples: Holdings[];
}
export interface Soaked {
  actions: number;
  /** Of its second quarter, and of its last. */
  early: Holdings;
  late: Holdings;
}

/**
 * In a short run, the C library's heap still grows for the first time, by a step of 12 to 15 MiB when many buffers of
 * 1 MiB meet. Of 24 ranks in runs of 20 s, and 9 in runs of 4 s, on two busy processors, four had one in the second
 * half, and none had two.
 */
const SHORT_S = 300;
const SHORT_RSS = 24 * MIB;
/** Of a mailbox, that its owner has not reported as free yet: it does so with its next message. Seen were 0 to 2. */
const REPORTED_SLOTS = 16;
/** Of shared memory, for messages to private memory: made when more are under way than ever before, 32 at most. */
const STAGING = 128 * KIB;
/** By these a rank wakes the event loops of its peers. It opens each when that peer first sleeps there. */
const PIPES = RANKS - 1;
/**
 * What may be more in the last quarter than in the second: noise of the heap, temporary buffers of the last operations,
 * and those pipes. No request: all that were started have ended, and all that are persistent were freed or collected.
 * A message of a revoked communicator may be pending for as long as a peer has not looked.
 */
const MORE: Holdings = {
  rss: 12 * MIB,
  anonymous: 12 * MIB,
  heapUsed: MIB,
  external: 4 * MIB,
  arrayBuffers: 4 * MIB,
  descriptors: PIPES,
  requests: 0,
  mailboxSlots: REPORTED_SLOTS * (RANKS - 1),
  messages: RANKS - 1,
  exposed: 2 * STAGING + 64 * KIB,
};

/** @returns of each rank what it held @throws {AssertionError} if that has grown */
export async function soak(seconds: number, env: Record<string, string>): Promise<Soaked[]> {
  const results = await runRanks('soak', {
    size: RANKS,
    args: [`${seconds}`],
    env,
    nodeOptions: ['--expose-gc'],
    limitS: seconds + LIMIT_S.long,
  });
  return reports<Told>(results).map(({ actions, samples }, rank) => {
    const quarter = samples.length >> 2;
    const early = least(samples.slice(quarter, 2 * quarter));
    const late = least(samples.slice(-quarter));
    const most = seconds < SHORT_S ? { ...MORE, rss: SHORT_RSS, anonymous: SHORT_RSS } : MORE;
    for (const [what, allowed] of Object.entries(most) as [keyof Holdings, number][]) {
      const more = late[what] - early[what];
      const list = samples.map((sample) => sample[what]).join();
      assert(more <= allowed, `rank ${rank}: ${more} more of ${what} after ${actions} actions: ${list}`);
    }
    return { actions, early, late };
  });
}

/** What is there in all of them. */
function least(samples: readonly Holdings[]): Holdings {
  const least = { ...samples[0] };
  for (const sample of samples) {
    for (const what of Object.keys(least) as (keyof Holdings)[]) least[what] = Math.min(least[what], sample[what]);
  }
  return least;
}
