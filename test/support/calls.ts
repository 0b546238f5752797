/** Plays random calls (programs/calls.ts) by their seed, and says whether all ranks ended as they may. */
import { describeJob, type RankResult, runJob } from '../helpers.js';

const ROUNDS = 4;
/** Exit codes: the program ended; it has called process.exit(); nobody has caught its error. */
const MEANT = [0, 7, 1];
const LIMIT_S = 60;

/** Fails with the seed in its message. */
export async function playCalls(seed: number, env: Record<string, string> = {}): Promise<void> {
  const size = 1 + (seed % 3);
  const args = [`${seed}`, `${ROUNDS}`];
  const nodeOptions = ['--expose-gc'];
  let results: RankResult[];
  try {
    results = await runJob('calls', { size, args, env, nodeOptions, limitS: LIMIT_S, stopOnFailure: false });
  } catch (error) {
    throw new Error(`seed ${seed}: ${(error as Error).message}`, { cause: error });
  }
  const wrong = results.filter(({ code, killed }) => killed || code === null || !MEANT.includes(code));
  if (wrong.length > 0) throw new Error(`seed ${seed}:\n${describeJob(results)}`);
}
