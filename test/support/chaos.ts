/** Rounds of chaos: a job of random collectives whose ranks are killed, or stopped and resumed, as a seed says. */
import assert from 'node:assert/strict';
import { describeJob, type RankResult, reports, runJob } from '../helpers.js';
import { processesWith } from './processes.js';
import { generator } from './random.js';

/** Collectives run for as long as it takes to harm them: most jobs are harmed before these are over. */
const COLLECTIVE_ROUNDS = 150;
const LIMIT_S = 60;
/** What a rank may hear when a peer has ended. */
const LOST = /^ERR_NBC_(PEER_CLOSED|ABANDONED|UNREACHABLE)$/;

interface End {
  right: number;
  ended: string;
}

export interface Harm {
  kind: 'none' | 'kill' | 'stop';
  victim: number;
  /** Milliseconds from when all ranks have joined. */
  at: number;
  /** Milliseconds that a stopped rank sleeps. */
  sleep: number;
}

/** What a seed does: ranks, and the harm. */
export function planOf(seed: number): { size: number; harm: Harm[] } {
  const random = generator(seed);
  const below = (limit: number): number => Math.floor(random() * limit);
  const size = 2 + below(7);
  const harm = Array.from({ length: 1 + below(3) }, (): Harm => {
    const kind = (['none', 'kill', 'stop', 'kill', 'stop'] as const)[below(5)];
    return { kind, victim: below(size), at: below(150), sleep: below(100) };
  });
  return { size, harm };
}

/** Plays a round. Returns how many collectives were right; fails with the seed in its message. */
export async function playChaos(seed: number, transport: string): Promise<number> {
  const { size, harm } = planOf(seed);
  const mark = `NBC_TEST_CHAOS=${process.pid}-${seed}-${transport}`;
  const [name, value] = mark.split('=');
  const what = `chaos, seed ${seed}, ${transport}, ${size} ranks, ${JSON.stringify(harm)}`;
  const pids = new Map<number, number>();
  const timers: NodeJS.Timeout[] = [];
  const later = (ms: number, action: () => void): void => void timers.push(setTimeout(action, ms));
  const signal = (victim: number, name: NodeJS.Signals): void => {
    try {
      process.kill(pids.get(victim)!, name);
    } catch {
      // it has ended
    }
  };
  let results: RankResult[];
  try {
    results = await runJob('chaos', {
      size,
      args: [`${seed}`, `${COLLECTIVE_ROUNDS}`],
      env: { [name]: value, NBC_TRANSPORT: transport },
      stopOnFailure: false,
      tellEnds: true,
      limitS: LIMIT_S,
      onLine(line, rank, child) {
        if (line !== 'joined') return;
        pids.set(rank, child.pid!);
        if (pids.size < size) return;
        for (const { kind, victim, at, sleep } of harm) {
          if (kind === 'kill') later(at, () => signal(victim, 'SIGKILL'));
          if (kind !== 'stop') continue;
          later(at, () => signal(victim, 'SIGSTOP'));
          later(at + sleep, () => signal(victim, 'SIGCONT'));
        }
      },
    });
  } catch (error) {
    throw new Error(`${what}: ${(error as Error).message}`, { cause: error });
  } finally {
    for (const timer of timers) clearTimeout(timer);
  }
  const killed = new Set(harm.filter(({ kind }) => kind === 'kill').map(({ victim }) => victim));
  const lived = results.filter(({ rank, signal: by }) => !(killed.has(rank) && by === 'SIGKILL'));
  const explain = `${what}\n${describeJob(results)}`;
  for (const { code, killed: late } of lived) assert(code === 0 && !late, explain);
  const ends = reports<End>(lived);
  for (const { ended } of ends) {
    if (lived.length === size) assert.equal(ended, 'done', explain);
    else assert(ended === 'done' || LOST.test(ended), explain);
  }
  assert.deepEqual(processesWith(mark), [], `${what}: processes are left`);
  return ends.reduce((sum, { right }) => sum + right, 0);
}
