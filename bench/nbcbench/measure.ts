/**
 * The two passes of NBCBench over every combination of operation, size and number of ranks, with all implementations
 * taking turns: a small batch of repetitions each, round after round, so that whatever the machine does meanwhile hits
 * all of them.
 */
import { loadavg } from 'node:os';
import { isPeer, type Implementation } from './implementations.js';
import type { Job } from './job.js';
import { formatBytes } from './options.js';
import { type Op, sizesOf } from './operations.js';
import { type Binding, place, type Placement } from './placement.js';
import { median, overlapPercentage, repetitions, testsFor, type Repetition } from './statistics.js';
import { MODES, type BufferKind, type Form, type Mode, type Start, type Writes } from './wire.js';

export interface Settings {
  ranks: readonly number[];
  ops: readonly Op[];
  sizes: readonly number[];
  /** Empty: only pass one. */
  intervals: readonly number[];
  repetitions: number;
  /** Limit for one implementation in one pass of one combination; measured is what fits in. */
  maxSeconds: number;
  start: Start | 'auto';
  /** Whether combinations run for a while before they are measured. */
  warmUp: boolean;
  /** Buffers are written before the first repetition of a batch only, not before each. */
  sameBuffers?: boolean;
  bind: Binding;
  /** Where the ranks are already. Absent: by {@link place}. */
  placement?: Placement;
  /** All is measured under each of these delays of the network, in ms, by the same ranks. Absent: as the network is. */
  delays?: readonly number[] | undefined;
  /** Makes the network have that delay. */
  setDelay?: (ms: number) => void;
}

/** Pass two with one test interval; times in µs. */
export interface Overlap {
  interval: number;
  init: number;
  test: number;
  wait: number;
  /** init + test + wait */
  overhead: number;
  /** OSU's percentage: 100 − (total − compute) / blocking · 100. */
  percentage: number;
}

/** What was found out about one implementation, with one kind of buffers, in one combination. */
export interface Result {
  implementation: Implementation;
  ranks: number;
  op: Op;
  bytes: number;
  /** Of the network, in ms, where it was set. */
  delay?: number;
  buffers: BufferKind;
  form: Form;
  start: Start;
  sameBuffers: boolean;
  /** µs from the common start to the end of the slowest rank; with the start `osu` the mean of the ranks' own times. */
  blocking: number;
  repetitions: number;
  overlaps: Overlap[];
}

export interface Listener {
  /** How much of all is done, 0 to 1, and what is being done. */
  progress(fraction: number, text: string): void;
  /** Something about the results that a reader must know. */
  note(text: string): void;
  /** An implementation could not be measured (any further). */
  failure(error: Error): void;
}

/** A batch takes about this long: short against what disturbs a machine, long against waking the ranks for it. */
const BATCH_MS = 20;
const BATCH_LIMIT = 50;
/** Repetitions at the beginning of a batch that don't count: the caches hold the data of another process. */
const LEAD_IN = 5;
/**
 * Batches of ranks that share processors are so many times as long, in all these respects. The kernel has to spread the
 * ranks over the processors again after they were woken, and takes longer for it than 20 ms.
 */
const SHARED_BATCH = 10;
/** How long an implementation runs a new combination before measurements begin. */
const WARM_UP_MS = 100;
const WARM_UP_LIMIT = 1000;
/**
 * How often every operation and mode is repeated before any measurement: optimised code is thrown away when it meets
 * the next mode for the first time, so that the compiler needs more than one look at everything.
 */
const JIT_ROUNDS = 4;
/** In a round. With 300, the methods of operations with counts were not compiled when measurements began. */
const JIT_WARM_UP = 1000;
/**
 * They come in parts, of which none begins after that time, divided among the operations: over an emulated network a
 * repetition takes milliseconds. With 16 ranks on two processors and all operations it is just enough. With a third of
 * the repetitions these ranks were through the common start after 86 µs, and after 58 with all.
 */
const JIT_PART = 100;
const JIT_LIMIT_MS = 8000;
/** The most of it for one operation. */
const JIT_LIMIT_EACH_MS = 1500;

/**
 * How far ahead, in µs, rank 0 sets the common start at first, and at most, where others learn of it too late. A
 * rate-limited link saves up for a later burst what nobody sends meanwhile, so that is no time to be generous with;
 * over Soft-RoCE they learn of it much later.
 */
const FIRST_LEAD = 20;
const MOST_LEAD = 100;
const MOST_LEAD_VERBS = 20_000;
/** So many times the time limit until a combination in which no repetition counted is given up. */
const LATE_PATIENCE = 4;

/** An implementation at work with one number of ranks. */
interface Team {
  implementation: Implementation;
  job: Job;
  /** How far ahead, in µs, rank 0 sets the common start. */
  lead: number;
  /** Whether ranks share processors. */
  shared: boolean;
  alive: boolean;
  /** Repetitions that counted, and those that a rank began late. */
  counted: number;
  late: number;
}

/** What the ranks are told for each batch of a series. */
interface Words {
  mode: Mode;
  op: Op;
  bytes: number;
  buffers: BufferKind;
  form: Form;
  writes: Writes;
  compute: number;
  tests: number;
  start: Start;
}

/** A series of equal repetitions of one team. */
interface Series {
  team: Team;
  words: Words;
  batch: number;
  leadIn: number;
  found: Repetition[];
  seconds: number;
}

export async function measure(
  implementations: readonly Implementation[],
  settings: Settings,
  listener: Listener,
): Promise<Result[]> {
  const results: Result[] = [];
  let step = 0;
  const passes = settings.intervals.length > 0 ? 2 : 1;
  const delays = settings.delays ?? [undefined];
  const combinations = settings.ops.flatMap((op) => sizesOf(op, settings.sizes).map((bytes) => ({ op, bytes })));
  const steps = settings.ranks.length * delays.length * combinations.length * passes;
  for (const ranks of settings.ranks) {
    const placement = settings.placement ?? place(ranks, settings.bind);
    // An instant is named by a message, and what the network delays comes milliseconds late; the gate has no part in
    // it.
    const startWith = (delay = 0) =>
      settings.start !== 'auto' ? settings.start : placement.dedicated && delay === 0 ? 'instant' : 'gate';
    const starts = [...new Set(delays.map(startWith))];
    listener.note(`${placement.text}; common start: ${starts.join(', with a delay ')}`);
    const [load] = loadavg();
    if (load > 0.5)
      listener.note(`the machine is busy (load ${load.toFixed(1)}): expect larger and less steady figures`);
    listener.progress(step / steps, `starting ${ranks} ranks`);
    const teams = await launch(implementations, ranks, placement, listener);
    try {
      if (settings.warmUp) await warmUp(teams, settings.ops, starts, listener);
      await tellEmpty(teams, starts, listener);
      for (const delay of delays) {
        if (delay !== undefined) settings.setDelay?.(delay);
        const start = startWith(delay);
        const network = delay === undefined ? '' : `, ${delay} ms of delay`;
        for (const { op, bytes } of combinations) {
          if (!teams.some(({ alive }) => alive)) break;
          const text = `${op}, ${ranks} ranks, ${formatBytes(bytes)}${network}`;
          const tell = (pass: number) => (fraction: number) =>
            listener.progress((step + fraction) / steps, `${text}, pass ${pass} of ${passes}`);
          const blocking = await passOne(teams, op, bytes, start, settings, tell(1), listener);
          step++;
          if (passes === 2) {
            await passTwo(blocking, start, settings, tell(2), listener);
            step++;
          }
          const found = blocking.filter(({ team }) => team.alive).map(({ result }) => result);
          results.push(...found.map((result) => (delay === undefined ? result : { ...result, delay })));
        }
      }
      for (const { implementation, late, counted } of teams) {
        const share = (100 * late) / (late + counted);
        if (share > 10) listener.note(`${implementation.title}: ${share.toFixed(0)} % of the repetitions began late`);
      }
    } finally {
      await Promise.all(teams.map(({ job }) => job.close()));
    }
  }
  return results;
}

const mostLead = ({ implementation }: Team): number =>
  implementation.transport === 'verbs' ? MOST_LEAD_VERBS : MOST_LEAD;

/** Gives the ranks more time to learn of the common start; much more if none of their repetitions counted. */
function giveTime(team: Team, none: boolean): void {
  team.lead = Math.min(mostLead(team), team.lead * (none ? 2 : 1.25));
}

async function launch(
  implementations: readonly Implementation[],
  ranks: number,
  placement: Placement,
  listener: Listener,
): Promise<Team[]> {
  const teams: Team[] = [];
  for (const implementation of implementations) {
    try {
      const job = await implementation.launch(ranks, placement);
      teams.push({
        implementation,
        job,
        lead: FIRST_LEAD,
        shared: !placement.dedicated,
        alive: true,
        counted: 0,
        late: 0,
      });
      await job.command('calibrate');
    } catch (error) {
      listener.failure(error as Error);
    }
  }
  return teams;
}

/** Gives a team a command. If that fails the team is out, and the others go on. */
async function attempt(team: Team, listener: Listener, words: (string | number)[]): Promise<boolean> {
  if (!team.alive) return false;
  try {
    await team.job.command(...words);
  } catch (error) {
    team.alive = false;
    team.job.kill();
    listener.failure(error as Error);
  }
  return team.alive;
}

/** Repetitions of one kind. */
function run(team: Team, words: Words, repetitions: number, listener: Listener): Promise<boolean> {
  const { mode, op, bytes, buffers, form, writes, compute, tests, start } = words;
  const what = [mode, op, bytes, buffers, form, writes, compute, tests];
  return attempt(team, listener, ['run', ...what, repetitions, start, team.lead]);
}

async function warmUp(
  teams: readonly Team[],
  ops: readonly Op[],
  starts: readonly Start[],
  listener: Listener,
): Promise<void> {
  for (const team of teams) {
    if (isPeer(team.implementation)) continue; // compiled ahead of time
    for (let round = 0; round < JIT_ROUNDS; round++) {
      for (const op of ops) {
        for (const form of team.implementation.forms) {
          for (const mode of MODES) {
            const start = starts[round % starts.length];
            const end = performance.now() + Math.min(JIT_LIMIT_MS / ops.length, JIT_LIMIT_EACH_MS);
            const words = { mode, op, bytes: 8, buffers: 'plain', form, writes: 'same', compute: 1 } as const;
            for (let done = 0; done < JIT_WARM_UP && performance.now() < end; done += JIT_PART) {
              await run(team, { ...words, tests: round, start }, JIT_PART, listener);
            }
          }
        }
      }
    }
  }
}

async function tellEmpty(teams: readonly Team[], starts: readonly Start[], listener: Listener): Promise<void> {
  for (const team of teams) {
    for (const start of starts) {
      const empty = await emptyRepetition(team, start, listener);
      if (team.alive)
        listener.note(`${team.implementation.title}: a repetition of nothing takes ${empty.toFixed(2)} µs`);
    }
  }
}

const NOTHING = {
  ...{ mode: 'compute', op: 'ibcast', bytes: 8, buffers: 'plain', form: 'nonblocking', writes: 'same' },
  ...{ compute: 0, tests: 0 },
} as const satisfies Omit<Words, 'start'>;

/**
 * What is left, in µs, when there is nothing to do. Finds a lead with which ranks do start together, if there is one.
 */
async function emptyRepetition(team: Team, start: Start, listener: Listener): Promise<number> {
  for (;;) {
    if (!(await run(team, { ...NOTHING, start }, 200, listener))) return NaN;
    const found = repetitions(team.job.results(), 0, start === 'osu');
    if (found.length > 0 || team.lead >= mostLead(team)) return median(found.map(({ total }) => total));
    giveTime(team, true);
  }
}

interface Contender {
  team: Team;
  result: Result;
}

/** Pass one: the blocking time of start + wait. Checks the data first. */
async function passOne(
  teams: readonly Team[],
  op: Op,
  bytes: number,
  start: Start,
  settings: Settings,
  tell: (fraction: number) => void,
  listener: Listener,
): Promise<Contender[]> {
  const all: { contender: Contender; series: Series }[] = [];
  const { sameBuffers = false } = settings;
  const writes = sameBuffers ? 'same' : 'fresh';
  for (const team of teams) {
    const { implementation, job } = team;
    const kinds = implementation.buffers.flatMap((buffers) => implementation.forms.map((form) => ({ buffers, form })));
    for (const { buffers, form } of kinds) {
      if (!(await attempt(team, listener, ['check', op, bytes, buffers, form]))) continue;
      const point = { op, bytes, buffers, form };
      const figures = { blocking: NaN, repetitions: 0, overlaps: [] };
      const result = { implementation, ranks: job.ranks, ...point, start, sameBuffers, ...figures };
      const words = { mode: 'blocking', ...point, writes, compute: 0, tests: 0, start } as const;
      all.push({ contender: { team, result }, series: newSeries(team, words) });
    }
  }
  await takeTurns(
    all.map(({ series }) => series),
    settings,
    tell,
    listener,
  );
  for (const { contender, series } of all) {
    contender.result.blocking = median(series.found.map(({ total }) => total));
    contender.result.repetitions = series.found.length;
    if (series.found.length === 0 && contender.team.alive) {
      contender.team.alive = false;
      listener.failure(
        new Error(`${describe(series)}: ranks never started together within ${settings.maxSeconds * LATE_PATIENCE} s`),
      );
    }
  }
  return all.map(({ contender }) => contender);
}

/** Pass two: the same with a computation as long as the blocking time in between, and that computation alone. */
async function passTwo(
  contenders: readonly Contender[],
  start: Start,
  settings: Settings,
  tell: (fraction: number) => void,
  listener: Listener,
): Promise<void> {
  const all = contenders
    .filter(({ team }) => team.alive)
    .map(({ team, result }) => {
      const { op, bytes, buffers, form, blocking } = result;
      const writes = result.sameBuffers ? 'same' : 'fresh';
      const words = { mode: 'compute', op, bytes, buffers, form, writes, compute: blocking, tests: 0, start } as const;
      const alone = newSeries(team, words);
      const overlapped = settings.intervals.map((interval) =>
        newSeries(team, { ...words, mode: 'overlap', tests: testsFor(bytes, interval) }),
      );
      return { result, alone, overlapped };
    });
  await takeTurns(
    all.flatMap(({ alone, overlapped }) => [alone, ...overlapped]),
    settings,
    tell,
    listener,
  );
  for (const { result, alone, overlapped } of all) {
    const compute = median(alone.found.map(({ total }) => total));
    overlapped.forEach(({ found }, i) => {
      const init = median(found.map((repetition) => repetition.init));
      const test = median(found.map((repetition) => repetition.test));
      const wait = median(found.map((repetition) => repetition.wait));
      const total = median(found.map((repetition) => repetition.total));
      result.overlaps.push({
        interval: settings.intervals[i],
        init,
        test,
        wait,
        overhead: init + test + wait,
        percentage: overlapPercentage(total, compute, result.blocking),
      });
    });
  }
}

function newSeries(team: Team, words: Series['words']): Series {
  return { team, words, batch: 1, leadIn: 0, found: [], seconds: 0 };
}

const describe = ({ team, words }: Series): string =>
  `${team.implementation.name}, ${words.op}, ${team.job.ranks} ranks, ${formatBytes(words.bytes)}, ${words.buffers} buffers, ${words.form}`;

/** Runs a batch and returns what it took, in ms. What it measured is left in the job's results. */
async function runBatch(series: Series, count: number, listener: Listener): Promise<number> {
  const began = performance.now();
  await run(series.team, series.words, count, listener);
  return performance.now() - began;
}

/** Warms every series up, then lets them take turns, in an order that changes, until each has its repetitions. */
async function takeTurns(
  all: readonly Series[],
  settings: Settings,
  tell: (fraction: number) => void,
  listener: Listener,
): Promise<void> {
  const clamp = (value: number, low: number, high: number) => Math.max(low, Math.min(high, Math.round(value)));
  tell(0);
  for (const series of all) {
    const each = (await runBatch(series, 3, listener)) / 3;
    const warmUps = settings.warmUp ? clamp(WARM_UP_MS / each, 0, WARM_UP_LIMIT) : 0;
    const pace = warmUps > 0 ? (await runBatch(series, warmUps, listener)) / warmUps : each;
    const longer = series.team.shared || series.words.start === 'gate' ? SHARED_BATCH : 1;
    series.batch = clamp((longer * BATCH_MS) / pace, 1, longer * BATCH_LIMIT);
    series.leadIn = Math.min(longer * LEAD_IN, series.batch);
  }
  // Ranks that never started together get more time to find out how: without a single repetition nothing can be said.
  const limit = (found: readonly Repetition[]) => settings.maxSeconds * (found.length === 0 ? LATE_PATIENCE : 1);
  const unfinished = ({ team, found, seconds }: Series) =>
    team.alive && found.length < settings.repetitions && seconds < limit(found);
  for (let round = 0; all.some(unfinished); round++) {
    for (let i = 0; i < all.length; i++) {
      const series = all[(i + round) % all.length];
      if (!unfinished(series)) continue;
      const { leadIn } = series;
      const count = Math.min(series.batch, settings.repetitions - series.found.length);
      series.seconds += (await runBatch(series, leadIn + count, listener)) / 1000;
      if (!series.team.alive) continue;
      const found = repetitions(series.team.job.results(), leadIn, series.words.start === 'osu');
      series.found.push(...found);
      series.team.counted += found.length;
      series.team.late += count - found.length;
      // Rank 0 has to give the others more time to learn of the common start.
      if (count - found.length > count / 10) giveTime(series.team, false);
    }
    const share = ({ team, found, seconds }: Series) =>
      team.alive ? Math.min(1, Math.max(found.length / settings.repetitions, seconds / settings.maxSeconds)) : 1;
    tell(all.reduce((sum, series) => sum + share(series), 0) / all.length);
  }
  for (const series of all) {
    if (!series.team.alive || series.words.mode === 'compute') continue;
    if (series.found.length < settings.repetitions) {
      listener.note(`${describe(series)}: ${series.found.length} repetitions in ${series.seconds.toFixed(1)} s`);
    }
  }
}
