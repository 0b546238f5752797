/** What a trace says in numbers: how much of the time in which operations were pending the program could use. */
import { type ChromeEvent, Track } from './chrome.js';
import type { RankTrace } from './merge.js';

/** Of one rank; times in microseconds. */
export interface Summary {
  rank: number;
  operations: number;
  messages: number;
  /** Time in which at least one operation was pending. */
  pending: number;
  /** Of that, in which the program was not inside a call of the library. */
  overlapped: number;
  /** Time in which the progress thread worked. */
  progress: number;
  /** Events for which the trace had no room. */
  leftOut: number;
}

type Interval = readonly [from: number, to: number];

export function summarize({ events, metadata: { rank, leftOut } }: RankTrace): Summary {
  const calls = slices(events, Track.PROGRAM);
  const operations = pendingOperations(events);
  const pending = union(operations.map(({ from, to }) => [from, to]));
  return {
    rank,
    operations: operations.length,
    messages: events.filter(({ ph, cat }) => ph === 'b' && cat === 'message').length,
    pending: total(pending),
    overlapped: total(pending) - total(intersection(pending, union(calls))),
    progress: total(slices(events, Track.PROGRESS)),
    leftOut,
  };
}

/** On one track. */
export function slices(events: readonly ChromeEvent[], track: number): Interval[] {
  return events.filter(({ ph, tid }) => ph === 'X' && tid === track).map(({ ts, dur }) => [ts!, ts! + dur!]);
}

/** Those that have ended. Rounds of an operation lie inside it. */
export function pendingOperations(events: readonly ChromeEvent[]): { from: number; to: number; name: string }[] {
  const begun = new Map<string, { ts: number; depth: number }>();
  const found: { from: number; to: number; name: string }[] = [];
  for (const { ph, cat, id2, ts, name } of events) {
    if (cat !== 'operation' || id2 === undefined) continue;
    const open = begun.get(id2.local);
    if (ph === 'b') {
      if (open === undefined) begun.set(id2.local, { ts: ts!, depth: 1 });
      else open.depth++;
    } else if (open !== undefined && --open.depth === 0) {
      begun.delete(id2.local);
      found.push({ from: open.ts, to: ts!, name });
    }
  }
  return found;
}

/** In ascending order, and apart. */
function union(intervals: readonly Interval[]): Interval[] {
  const result: [number, number][] = [];
  for (const [from, to] of [...intervals].sort(([a], [b]) => a - b)) {
    const last = result.at(-1);
    if (last !== undefined && from <= last[1]) last[1] = Math.max(last[1], to);
    else result.push([from, to]);
  }
  return result;
}

/** Of two lists that are ascending and apart. */
function intersection(a: readonly Interval[], b: readonly Interval[]): Interval[] {
  const result: Interval[] = [];
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    const from = Math.max(a[i][0], b[j][0]);
    const to = Math.min(a[i][1], b[j][1]);
    if (from < to) result.push([from, to]);
    if (a[i][1] < b[j][1]) i++;
    else j++;
  }
  return result;
}

function total(intervals: readonly Interval[]): number {
  return intervals.reduce((sum, [from, to]) => sum + to - from, 0);
}
