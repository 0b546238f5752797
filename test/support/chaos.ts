/**
 * Rounds of chaos: a job of random collectives that is harmed, as a seed says. Ranks are killed, or stopped and
 * resumed; they may open no descriptor any more; /dev/shm is small and full. Over `networks`, ranks are in two network
 * stacks, and the link between them becomes slow, or goes and comes back.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { describeJob, type JobOptions, type RankResult, reports, runJob } from '../helpers.js';
import { TwoNetworks } from './networks.js';
import { processesWith } from './processes.js';
import { generator } from './random.js';
import { FULL_SHM } from './shm.js';

/** Collectives run for as long as it takes to harm them: most jobs are harmed before these are over. */
const COLLECTIVE_ROUNDS = 150;
const LIMIT_S = 60;
/** What a rank may hear when a peer has ended. */
const LOST = /^ERR_NBC_(PEER_CLOSED|ABANDONED|UNREACHABLE)$/;
/** And when a rank cannot open a descriptor that it needs. */
const FAILED = /^ERR_NBC_(PEER_CLOSED|ABANDONED|UNREACHABLE|SYSTEM|DESCRIPTORS)$/;
const STORE_PORT = 4711;
/** Of a slow link: 400 kB take three seconds. Retransmissions come, and nothing is given up. */
const SLOW = '1mbit';

interface End {
  right: number;
  ended: string;
}

export type Transport = 'shm' | 'tcp' | 'networks';
const KINDS = {
  ranks: ['none', 'kill', 'stop', 'kill', 'stop', 'descriptors'],
  networks: ['slow', 'cut', 'slow', 'cut', 'stop', 'kill'],
} as const;

export interface Harm {
  kind: (typeof KINDS)[keyof typeof KINDS][number];
  victim: number;
  /** Milliseconds from when all ranks have joined. */
  at: number;
  /** Milliseconds that a stopped rank sleeps, or that the link is harmed. */
  sleep: number;
}

/** What a seed does: ranks, and the harm. */
export function planOf(seed: number, transport: Transport): { size: number; harm: Harm[]; fullShm: boolean } {
  const random = generator(seed);
  const below = (limit: number): number => Math.floor(random() * limit);
  const size = 2 + below(7);
  const kinds = transport === 'networks' ? KINDS.networks : KINDS.ranks;
  const harm = Array.from({ length: 1 + below(3) }, (): Harm => {
    const kind = kinds[below(kinds.length)];
    return { kind, victim: below(size), at: below(150), sleep: below(100) };
  });
  return { size, harm, fullShm: transport !== 'networks' && process.getuid?.() === 0 && random() < 0.3 };
}

/** Does to a job what a plan says. */
class Harmer {
  readonly pids = new Map<number, number>();
  private readonly timers: NodeJS.Timeout[] = [];

  constructor(
    private readonly harm: readonly Harm[],
    private readonly networks: TwoNetworks | undefined,
  ) {}

  begin(): void {
    let [slow, cut] = [false, false];
    for (const { kind, victim, at, sleep } of this.harm) {
      if (kind === 'kill') this.later(at, () => this.signal(victim, 'SIGKILL'));
      if (kind === 'stop') {
        this.later(at, () => this.signal(victim, 'SIGSTOP'));
        this.later(at + sleep, () => this.signal(victim, 'SIGCONT'));
      }
      if (kind === 'descriptors') {
        this.later(at, () => spawnSync('prlimit', ['--pid', `${this.pids.get(victim)}`, '--nofile=3:3']));
      }
      // Once each in a round: they would end each other.
      if (kind === 'slow' && !slow) {
        slow = true;
        this.later(at, () => this.networks!.limit(SLOW));
        this.later(at + sleep, () => this.networks!.unlimit());
      }
      if (kind === 'cut' && !cut) {
        cut = true;
        this.later(at, () => this.networks!.cut());
        this.later(at + sleep, () => this.networks!.mend());
      }
    }
  }

  end(): void {
    for (const timer of this.timers) clearTimeout(timer);
  }

  private later(ms: number, action: () => void): void {
    this.timers.push(setTimeout(action, ms));
  }

  private signal(victim: number, name: NodeJS.Signals): void {
    try {
      process.kill(this.pids.get(victim)!, name);
    } catch {
      // it has ended
    }
  }
}

/** Variables and wrappers of the ranks. */
function placeOf(transport: Transport, networks: TwoNetworks | undefined, fullShm: boolean): Partial<JobOptions> {
  if (networks === undefined) return { env: { NBC_TRANSPORT: transport }, wrapper: fullShm ? FULL_SHM : [] };
  const env = {
    NBC_TRANSPORT: 'auto',
    NBC_STORE: `${networks.addresses[0]}:${STORE_PORT}`,
    NBC_JOB_FD: undefined,
    NBC_HOST: undefined,
    NBC_TCP_ADDRESS: undefined,
  };
  return { env, wrapper: (rank) => networks.wrapper(rank % 2) };
}

/**
 * Plays a round. Returns how many collectives were right; fails with the seed in its message.
 * @param networks where the transport is `networks`
 */
export async function playChaos(seed: number, transport: Transport, networks?: TwoNetworks): Promise<number> {
  const { size, harm, fullShm } = planOf(seed, transport);
  const mark = `NBC_TEST_CHAOS=${process.pid}-${seed}-${transport}`;
  const [name, value] = mark.split('=');
  const full = fullShm ? ', /dev/shm is full' : '';
  const what = `chaos, seed ${seed}, ${transport}, ${size} ranks, ${JSON.stringify(harm)}${full}`;
  const harmer = new Harmer(harm, networks);
  const { env, wrapper } = placeOf(transport, networks, fullShm);
  let results: RankResult[];
  try {
    results = await runJob('chaos', {
      size,
      args: [`${seed}`, `${COLLECTIVE_ROUNDS}`],
      env: { ...(env as Record<string, string>), [name]: value },
      wrapper: wrapper!,
      stopOnFailure: false,
      tellEnds: true,
      limitS: LIMIT_S,
      onLine(line, rank, child) {
        if (line !== 'joined') return;
        harmer.pids.set(rank, child.pid!);
        if (harmer.pids.size === size) harmer.begin();
      },
    });
  } catch (error) {
    throw new Error(`${what}: ${(error as Error).message}`, { cause: error });
  } finally {
    harmer.end();
  }
  checkEnds(results, harm, what);
  assert.deepEqual(processesWith(mark), [], `${what}: processes are left`);
  return reports<End>(livedOf(results, harm)).reduce((sum, { right }) => sum + right, 0);
}

/** Those that were not killed. */
function livedOf(results: readonly RankResult[], harm: readonly Harm[]): RankResult[] {
  const killed = new Set(harm.filter(({ kind }) => kind === 'kill').map(({ victim }) => victim));
  return results.filter(({ rank, signal }) => !(killed.has(rank) && signal === 'SIGKILL'));
}

/** Each rank that lives has ended by itself, with what it may end with. */
function checkEnds(results: readonly RankResult[], harm: readonly Harm[], what: string): void {
  const lived = livedOf(results, harm);
  const explain = `${what}\n${describeJob(results)}`;
  for (const { code, killed } of lived) assert(code === 0 && !killed, explain);
  const starved = harm.some(({ kind }) => kind === 'descriptors');
  for (const { ended } of reports<End>(lived)) {
    if (lived.length === results.length && !starved) assert.equal(ended, 'done', explain);
    else assert(ended === 'done' || (starved ? FAILED : LOST).test(ended), explain);
  }
}
