/** What nbctop shows of a rank: rates between two samples, as numbers for machines and as rows for people. */
import type { Place, Sample, Silent } from './sample.js';

/** A rank in one line of `--json`. */
export interface Row extends Place {
  /** `stopped`: the process does not answer. */
  caller: Sample['caller'] | Silent['caller'] | 'stopped';
  /** The rest is missing where the rank does not answer. */
  pending?: number;
  operations?: Sample['operations'];
  /** Ranks that it waits for. */
  peers?: number[];
  /** Between this sample and the one before. Undefined: there is none before. */
  rates?: Rates | undefined;
  counters?: Sample['counters'];
}

export interface Rates {
  seconds: number;
  /** The part of the time in `wait()`, from 0 to 1. */
  waiting: number;
  /** Each second. */
  operations: number;
  bytesSent: number;
  bytesReceived: number;
  wakeups: number;
}

function rates(now: Sample, before: Sample): Rates | undefined {
  const microseconds = now.time - before.time;
  if (!(microseconds > 0)) return undefined;
  const each = (value: (sample: Sample) => number): number => ((value(now) - value(before)) / microseconds) * 1e6;
  return {
    seconds: microseconds / 1e6,
    waiting: Math.min(1, (now.waited - before.waited) / microseconds),
    operations: each(({ counters }) => counters.started),
    bytesSent: each(({ sent }) => sent),
    bytesReceived: each(({ received }) => received),
    wakeups: each(({ counters }) => counters.parks + counters.loopWakeups + counters.progressWakeups),
  };
}

export function rowOf(now: Sample | Silent, before: Sample | Silent | undefined): Row {
  const { job, process, rank, size, caller } = now;
  const place = { job, process, rank, size };
  if (caller === 'silent') return { ...place, caller };
  const { pending, operations, peers, counters } = now;
  const known = before === undefined || before.caller === 'silent' ? undefined : rates(now, before);
  return { ...place, caller, pending, operations, peers, rates: known, counters };
}

const CALLERS: Record<Row['caller'], string> = {
  program: 'program',
  waits: 'wait()',
  awaits: 'event loop',
  silent: 'no answer from its threads',
  stopped: 'no answer from its process',
};

const HEAD = ['rank', 'process', 'is in', 'waits', 'ops/s', 'sent/s', 'received/s', 'wake-ups/s', 'waits for'];

/** The table, line by line. */
export function tableOf(rows: readonly Row[]): string[] {
  const cells = [HEAD, ...rows.map(cellsOf)];
  const widths = HEAD.map((_, column) => Math.max(...cells.map((row) => row[column].length)));
  const last = HEAD.length - 1;
  return cells.map((row) =>
    row
      .map((cell, column) =>
        column === last ? cell : column === 2 ? cell.padEnd(widths[2]) : cell.padStart(widths[column]),
      )
      .join('  ')
      .trimEnd(),
  );
}

function cellsOf({ rank, process, caller, rates: known, peers = [], operations = [], pending = 0 }: Row): string[] {
  const [first] = operations as (Sample['operations'][number] | undefined)[];
  const more = pending > 1 ? `, and ${pending - 1} more` : '';
  const what = first === undefined ? '' : `${first.title}, for ${(first.milliseconds / 1000).toFixed(1)} s${more}`;
  const whom = peers.length === 0 ? '' : `rank ${peers.slice(0, 6).join(' ')}${peers.length > 6 ? ' …' : ''}: `;
  const numbers =
    known === undefined
      ? ['', '', '', '', '']
      : [
          `${Math.round(known.waiting * 100)} %`,
          short(known.operations),
          short(known.bytesSent),
          short(known.bytesReceived),
          short(known.wakeups),
        ];
  return [`${rank}`, `${process}`, CALLERS[caller], ...numbers, printable(whom + what)];
}

/** 12, 3.4k, 56M */
function short(value: number): string {
  const units = ['', 'k', 'M', 'G', 'T'];
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${value.toFixed(value < 9.95 && (unit > 0 || value % 1 !== 0) ? 1 : 0)}${units[unit]}`;
}

/** Operations have names that programs give them. */
function printable(text: string): string {
  return text.replaceAll(/\p{Cc}/gu, '?');
}
