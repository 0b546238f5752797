/**
 * The trace of one rank in the JSON format of Chrome's trace viewer, which Perfetto reads, too. A rank is a process
 * with three tracks: what the program called, when the progress thread worked, and where messages begin and end.
 * Operations with their rounds, and messages, are asynchronous slices, because they overlap. An arrow leads from each
 * send to its receive.
 *
 * Source: "Trace Event Format", Google.
 */
import { eventsOf, type MessageEvent, type TraceEvent } from './events.js';
import type { NativeTrace } from '../native.js';

/** An event as viewers read it. */
export interface ChromeEvent {
  name: string;
  ph: 'X' | 'b' | 'e' | 'n' | 's' | 'f' | 'M';
  pid: number;
  tid: number;
  /** Microseconds. */
  ts?: number;
  dur?: number;
  cat?: string;
  id?: string;
  /** Of this rank only. */
  id2?: { local: string };
  /** Of an arrow: it ends at the slice around it. */
  bp?: 'e';
  args?: Record<string, unknown>;
}

/** What a file says of its rank. */
export interface TraceMetadata {
  rank: number;
  size: number;
  /** Of the machine's kernel: ranks with equal ones have one clock. */
  boot: string;
  /** Microseconds from the epoch to the zero of the clock. */
  epoch: number;
  /** Events for which there was no room. */
  leftOut: number;
}

/** A file. */
export interface ChromeTrace {
  traceEvents: ChromeEvent[];
  displayTimeUnit: 'ns';
  metadata: TraceMetadata | TraceMetadata[];
}

/** Numbers of a rank's tracks. */
export const Track = { PROGRAM: 1, PROGRESS: 2, MESSAGES: 3 } as const;

export function* chromeEvents(rank: number, { calls, events, names }: NativeTrace): Generator<ChromeEvent> {
  yield* tracks(rank);
  const writer = new Writer(rank);
  for (const event of eventsOf(calls, names)) yield* writer.write(event);
  for (const event of eventsOf(events, names)) yield* writer.write(event);
}

function* tracks(rank: number): Generator<ChromeEvent> {
  yield { name: 'process_name', ph: 'M', pid: rank, tid: 0, args: { name: `rank ${rank}` } };
  yield { name: 'process_sort_index', ph: 'M', pid: rank, tid: 0, args: { sort_index: rank } };
  for (const [name, tid] of [
    ['program', Track.PROGRAM],
    ['progress thread', Track.PROGRESS],
    ['messages', Track.MESSAGES],
  ] as const) {
    yield { name: 'thread_name', ph: 'M', pid: rank, tid, args: { name } };
  }
}

/** An operation that has begun. */
interface Operation {
  name: string;
  /** 0: none has begun. */
  round: number;
}

/** A message that has begun. */
interface Message {
  serial: string;
  name: string;
  sends: boolean;
  begun: number;
  /** States that it went through, with the time since its beginning. */
  states: Record<string, number>;
}

class Writer {
  private readonly operations = new Map<number, Operation>();
  private readonly messages = new Map<number, Message>();
  private serial = 0;

  constructor(private readonly rank: number) {}

  write(event: TraceEvent): ChromeEvent[] {
    switch (event.kind) {
      case 'call': {
        const { time: ts, duration: dur, call, count, operation } = event;
        const args = { ...(count > 1 ? { count } : {}), ...(operation > 0 ? { operation } : {}) };
        return [{ name: call, ph: 'X', ts, dur, pid: this.rank, tid: Track.PROGRAM, args }];
      }
      case 'driving': {
        const { time: ts, duration: dur } = event;
        return [{ name: 'progress', ph: 'X', ts, dur, pid: this.rank, tid: Track.PROGRESS }];
      }
      case 'operation':
        this.operations.set(event.operation, { name: event.name, round: 0 });
        return [this.slice('b', 'operation', event.operation, event.name, event.time)];
      case 'round':
        return this.round(event.operation, event.round, event.time);
      case 'end':
        return this.end(event.operation, event.failed, event.time);
      case 'message':
        return this.message(event);
    }
  }

  private round(number: number, round: number, time: number): ChromeEvent[] {
    const operation = this.operations.get(number);
    if (operation === undefined) return [];
    const events = this.endOfRound(number, operation, time);
    operation.round = round;
    return [...events, this.slice('b', 'operation', number, `round ${round}`, time)];
  }

  private end(number: number, failed: boolean, time: number): ChromeEvent[] {
    const operation = this.operations.get(number);
    if (operation === undefined) return [];
    this.operations.delete(number);
    const last = this.slice('e', 'operation', number, operation.name, time, failed ? { failed } : {});
    return [...this.endOfRound(number, operation, time), last];
  }

  private endOfRound(number: number, { round }: Operation, time: number): ChromeEvent[] {
    return round === 0 ? [] : [this.slice('e', 'operation', number, `round ${round}`, time)];
  }

  private message(event: MessageEvent): ChromeEvent[] {
    const known = this.messages.get(event.id);
    if (known === undefined) return event.state === 'done' ? [] : this.beginMessage(event);
    known.states[event.state] = event.time - known.begun;
    if (event.state !== 'done') return [];
    this.messages.delete(event.id);
    const end = this.slice('e', 'message', known.serial, known.name, event.time, known.states);
    return known.sends ? [end] : [end, ...this.arrow(event, known)];
  }

  private beginMessage(event: MessageEvent): ChromeEvent[] {
    const { id, state, peer, bytes, time } = event;
    const sends = state.includes('send_');
    const name = `${sends ? 'send to' : 'receive from'} ${peer}`;
    const message = { serial: `m${++this.serial}`, name, sends, begun: time, states: { [state]: 0 } };
    this.messages.set(id, message);
    const begin = this.slice('b', 'message', message.serial, name, time, { bytes });
    return sends ? [begin, ...this.arrow(event, message)] : [begin];
  }

  /** The end of an arrow, which needs a slice on a track to lead to. */
  private arrow({ peer, key, time: ts, bytes }: MessageEvent, { name, sends }: Message): ChromeEvent[] {
    const common = { pid: this.rank, tid: Track.MESSAGES, ts };
    const id = `${sends ? `${this.rank}>${peer}` : `${peer}>${this.rank}`} ${key}`;
    return [
      { ...common, name, ph: 'X', dur: 0, args: { bytes } },
      sends
        ? { ...common, name: 'message', cat: 'message', ph: 's', id }
        : { ...common, name: 'message', cat: 'message', ph: 'f', bp: 'e', id },
    ];
  }

  private slice(
    ph: 'b' | 'e',
    cat: string,
    id: number | string,
    name: string,
    ts: number,
    args: Record<string, unknown> = {},
  ): ChromeEvent {
    return { name, ph, cat, id2: { local: `${id}` }, pid: this.rank, tid: Track.PROGRAM, ts, args };
  }
}
