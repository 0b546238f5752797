/**
 * Rounds of chaos: a job of random collectives that is harmed, as a seed says. Ranks are killed, or stopped and
 * resumed; they may open no descriptor any more; /dev/shm is small and full. Over `networks`, ranks are in two network
 * stacks, and the link between them becomes slow, delays packets, carries them twice, or goes and comes back. Over
 * `verbs`, in the guest of scripts/rdma-guest, so does the link between two devices.
 */
import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describeJob, type JobOptions, type RankResult, reports, runJob } from '../helpers.js';
import { ROOT } from './launch.js';
import { Leftovers } from './leftovers.js';
import type { TwoNetworks } from './networks.js';
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
/** Ranks give up a network that is away for longer: after three fifths of `peerTimeout`, and a device may be exact. */
const PATIENCE_MS = 6000;
/** Of a slow link: 400 kB take three seconds. Retransmissions come, and nothing is given up. */
const SLOW = '1mbit';
/** Of a link that delays: a thousand times what it takes otherwise. */
const DELAY_MS = 20;

interface End {
  right: number;
  ended: string;
}

export type Transport = 'shm' | 'tcp' | 'networks' | 'verbs';
const LINK_HARMS = ['slow', 'cut', 'double', 'delay'] as const;
type LinkHarm = (typeof LINK_HARMS)[number];
const OF_RANKS = ['none', 'kill', 'stop', 'kill', 'stop', 'descriptors'] as const;
export const KINDS = {
  shm: OF_RANKS,
  tcp: OF_RANKS,
  networks: [...LINK_HARMS, ...LINK_HARMS, 'stop', 'kill'],
  verbs: [...OF_RANKS, ...LINK_HARMS, ...LINK_HARMS],
} as const;
/** An emulated processor is ten times slower: there are fewer ranks and collectives, and harm lasts longer. */
const IN_GUEST = { ranks: 3, rounds: 20, times: 10 };
const ON_MACHINE = { ranks: 7, rounds: COLLECTIVE_ROUNDS, times: 1 };
const sizesOf = (transport: Transport): typeof ON_MACHINE => (transport === 'verbs' ? IN_GUEST : ON_MACHINE);

/** Of a link, and who has them. */
const PARTS: Partial<Record<LinkHarm, string>> = { slow: 'queue', delay: 'queue', cut: 'cut', double: 'double' };

export interface Harm {
  kind: (typeof KINDS)[Transport][number];
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
  const { ranks, times } = sizesOf(transport);
  const size = 2 + below(ranks);
  const kinds = KINDS[transport];
  const drawn = Array.from({ length: 1 + below(3) }, (): Harm => {
    const kind = kinds[below(kinds.length)];
    return { kind, victim: below(size), at: below(150) * times, sleep: below(100) * times };
  });
  // Of what is done to the same part of a link, one: another would end it.
  const parts = drawn.map(({ kind }, index) => PARTS[kind as LinkHarm] ?? index);
  const harm = drawn.filter((_, index) => parts.indexOf(parts[index]) === index);
  const local = transport === 'shm' || transport === 'tcp';
  return { size, harm, fullShm: local && process.getuid?.() === 0 && random() < 0.3 };
}

/** What joins the ranks, and what can be done to it. */
interface Link {
  harm(how: LinkHarm): unknown;
  heal(how: LinkHarm): unknown;
}

function linkBetween(networks: TwoNetworks): Link {
  const slow = (): void => networks.limit(SLOW);
  const harms = {
    slow,
    cut: () => networks.cut(),
    double: () => networks.double(),
    // Where the kernel cannot delay packets, they wait in the queue of a slow link.
    delay: () => (networks.canDelay ? networks.delay(DELAY_MS) : slow()),
  };
  const heals = {
    slow: () => networks.unlimit(),
    cut: () => networks.mend(),
    double: () => networks.undouble(),
    delay: () => networks.unlimit(),
  };
  return { harm: (how) => harms[how](), heal: (how) => heals[how]() };
}

const linkOfGuest: Link = {
  harm: (how) => changeLink({ slow: 'slow', cut: 'mute', double: 'double', delay: 'delay' }[how]),
  heal: () => changeLink('free'),
};
/** Takes seconds in the guest. Meanwhile a rank that was stopped has to be resumed. */
const changeLink = (how: string): Promise<unknown> => promisify(execFile)(join(ROOT, 'scripts/guest/link'), [how]);

/** Does to a job what a plan says. */
class Harmer {
  readonly pids = new Map<number, number>();
  private readonly harming = new Set<LinkHarm>();
  /** Of the link, one behind the other. */
  private changes: Promise<unknown> = Promise.resolve();
  private readonly timers: NodeJS.Timeout[] = [];
  /** What was done to the link, and when, in ms: to change it takes time on a busy machine. */
  private readonly done: { how: LinkHarm; heals: boolean; began: number; ended: number }[] = [];
  private readonly began = performance.now();

  constructor(
    private readonly harm: readonly Harm[],
    private readonly link: Link,
  ) {}

  begin(): void {
    for (const { kind, victim, at, sleep } of this.harm) {
      if (kind === 'kill') this.later(at, () => this.signal(victim, 'SIGKILL'));
      if (kind === 'stop') {
        this.later(at, () => this.signal(victim, 'SIGSTOP'));
        this.later(at + sleep, () => this.signal(victim, 'SIGCONT'));
      }
      if (kind === 'descriptors') {
        this.later(at, () => spawnSync('prlimit', ['--pid', `${this.pids.get(victim)}`, '--nofile=3:3']));
      }
      const how = LINK_HARMS.find((one) => one === kind);
      if (how !== undefined) {
        this.later(at, () => {
          this.harming.add(how);
          this.change(how, false, () => this.link.harm(how));
        });
        this.later(at + sleep, () => this.heal(how));
      }
    }
  }

  async end(): Promise<void> {
    for (const timer of this.timers) clearTimeout(timer);
    for (const how of this.harming) this.heal(how);
    await this.changes;
  }

  private heal(how: LinkHarm): void {
    this.harming.delete(how);
    this.change(how, true, () => this.link.heal(how));
  }

  /** For how long no packet came through, at most: each harm is done once. */
  get cutMs(): number {
    const cut = this.done.find(({ how }) => how === 'cut');
    const healed = this.done.find(({ how, heals }) => how === 'cut' && heals);
    return cut === undefined ? 0 : (healed?.ended ?? Infinity) - cut.began;
  }

  /** What was done to the link, for an error. */
  describe(): string {
    const times = this.done.map(({ how, heals, began, ended }) => {
      return `${how}${heals ? ' no more' : ''} ${Math.round(began)} to ${Math.round(ended)} ms`;
    });
    return times.length === 0 ? '' : `, link: ${times.join(', ')} after the job began`;
  }

  private change(how: LinkHarm, heals: boolean, action: () => unknown): void {
    this.changes = this.changes.then(async () => {
      const began = performance.now() - this.began;
      await action();
      this.done.push({ how, heals, began, ended: performance.now() - this.began });
    });
    // end() hears of it.
    this.changes.catch(() => undefined);
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
  const devices = transport === 'verbs' ? { NBC_VERBS_DEVICE: 'rxc,rxd' } : {};
  if (networks === undefined)
    return { env: { NBC_TRANSPORT: transport, ...devices }, wrapper: fullShm ? FULL_SHM : [] };
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
  const harmer = new Harmer(harm, networks === undefined ? linkOfGuest : linkBetween(networks));
  const { env, wrapper } = placeOf(transport, networks, fullShm);
  const leftovers = await Leftovers.before();
  try {
    let results: RankResult[];
    try {
      results = await runJob('chaos', {
        size,
        args: [`${seed}`, `${sizesOf(transport).rounds}`],
        env: { ...(env as Record<string, string>), ...leftovers.environment, [name]: value },
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
      await harmer.end();
    }
    checkEnds(results, harm, harmer.cutMs, `${what}${harmer.describe()}`);
    assert.deepEqual(processesWith(mark), [], `${what}: processes are left`);
    const killed = results.filter(({ signal }) => signal === 'SIGKILL').map(({ rank }) => harmer.pids.get(rank)!);
    await leftovers.check(what, killed);
    return reports<End>(livedOf(results, harm)).reduce((sum, { right }) => sum + right, 0);
  } finally {
    leftovers.remove();
  }
}

/** Those that were not killed. */
function livedOf(results: readonly RankResult[], harm: readonly Harm[]): RankResult[] {
  const killed = new Set(harm.filter(({ kind }) => kind === 'kill').map(({ victim }) => victim));
  return results.filter(({ rank, signal }) => !(killed.has(rank) && signal === 'SIGKILL'));
}

/** Each rank that lives has ended by itself, with what it may end with. */
function checkEnds(results: readonly RankResult[], harm: readonly Harm[], cutMs: number, what: string): void {
  const lived = livedOf(results, harm);
  const explain = `${what}\n${describeJob(results)}`;
  for (const { code, killed } of lived) assert(code === 0 && !killed, explain);
  const starved = harm.some(({ kind }) => kind === 'descriptors');
  for (const { ended } of reports<End>(lived)) {
    if (lived.length === results.length && !starved && cutMs < PATIENCE_MS) assert.equal(ended, 'done', explain);
    else assert(ended === 'done' || (starved ? FAILED : LOST).test(ended), explain);
  }
}
