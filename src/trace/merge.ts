/**
 * Makes one trace of those of all ranks: brings their times to the clock of the first rank's machine.
 *
 * Ranks of one machine have one clock. Those of machines differ, and the clocks of the day, which files name, agree to
 * milliseconds at best. So the messages between two machines decide. The shortest one there and the shortest one back
 * take equal time, as NTP has it.
 */
import { readFileSync } from 'node:fs';
import type { ChromeEvent, ChromeTrace, TraceMetadata } from './chrome.js';

/** The trace of one rank. */
export interface RankTrace {
  events: ChromeEvent[];
  metadata: TraceMetadata;
}

/** @throws {Error} if it is not the trace of one rank */
export function readTrace(file: string): RankTrace {
  const text = readFileSync(file, 'utf8');
  let trace: Partial<ChromeTrace> | null;
  try {
    trace = JSON.parse(text) as Partial<ChromeTrace> | null;
  } catch (error) {
    throw new Error(`${file} is no trace: ${(error as Error).message}`, { cause: error });
  }
  const { traceEvents, metadata } = trace ?? {};
  if (!Array.isArray(traceEvents) || metadata === undefined || !('boot' in metadata)) {
    throw new Error(`${file} is no trace of one rank`);
  }
  return { events: traceEvents, metadata };
}

/** Events of all ranks, on one clock. */
export function* mergeTraces(traces: readonly RankTrace[]): Generator<ChromeEvent> {
  for (const { events } of onOneClock(traces)) yield* events;
}

/** The same traces, with the times of the first rank's machine. */
export function onOneClock(traces: readonly RankTrace[]): RankTrace[] {
  const offsets = alignClocks(traces);
  return traces.map(({ events, metadata }) => {
    const offset = offsets.get(metadata.boot) ?? 0;
    return {
      metadata,
      events: events.map((event) => (event.ts === undefined ? event : { ...event, ts: event.ts + offset })),
    };
  });
}

/** What is added to the times of each machine, by its boot. */
export function alignClocks(traces: readonly RankTrace[]): Map<string, number> {
  const machines = [...new Set(traces.map(({ metadata }) => metadata.boot))];
  const epochs = machines.map((boot) => traces.find(({ metadata }) => metadata.boot === boot)!.metadata.epoch);
  const shortest = shortestMessages(traces);
  const offsets = new Map<string, number>();
  // From a machine that is known to those that have exchanged messages with it.
  const goOn = (known: string): void => {
    for (const other of machines) {
      const there = shortest.get(`${known} ${other}`);
      const back = shortest.get(`${other} ${known}`);
      if (offsets.has(other) || there === undefined || back === undefined) continue;
      offsets.set(other, offsets.get(known)! + (back - there) / 2);
      goOn(other);
    }
  };
  machines.forEach((boot, index) => {
    if (offsets.has(boot)) return;
    offsets.set(boot, epochs[index] - epochs[0]);
    goOn(boot);
  });
  return offsets;
}

/** From machine to machine: the least time from a send to its receive, by their own clocks. */
function shortestMessages(traces: readonly RankTrace[]): Map<string, number> {
  const sends = new Map<string, { boot: string; ts: number }>();
  for (const { events, metadata } of traces) {
    for (const { ph, id, ts } of events) if (ph === 's') sends.set(id!, { boot: metadata.boot, ts: ts! });
  }
  const shortest = new Map<string, number>();
  for (const { events, metadata } of traces) {
    for (const { ph, id, ts } of events) {
      if (ph !== 'f') continue;
      const send = sends.get(id!);
      if (send === undefined || send.boot === metadata.boot) continue;
      const way = `${send.boot} ${metadata.boot}`;
      shortest.set(way, Math.min(shortest.get(way) ?? Infinity, ts! - send.ts));
    }
  }
  return shortest;
}
