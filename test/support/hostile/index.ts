/** Fuzzers of what TypeScript reads from outside: each plays one case, as its random numbers say. */
import type { Random } from './mutations.js';
import { playNifti } from './nifti.js';
import { playPmi } from './pmi.js';
import { playSchedules } from './schedules.js';
import { playStore } from './store.js';
import { generator } from '../random.js';

export const HOSTILE: Readonly<Record<string, (random: Random) => Promise<void>>> = {
  store: playStore,
  pmi: playPmi,
  nifti: playNifti,
  schedules: playSchedules,
};

/** Fails with the seed in its message. */
export async function playHostile(name: string, seed: number): Promise<void> {
  try {
    await HOSTILE[name](generator(seed));
  } catch (error) {
    throw new Error(`${name}, seed ${seed}: ${(error as Error).message}`, { cause: error });
  }
}
