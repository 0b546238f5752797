/**
 * The events of a trace as native code has them (native/engine/trace.h): eight numbers each, of which the first two are
 * a kind and a time.
 */

/** Numbers of an event. */
const WORDS = 8;

/** As Trace::Kind has them. */
export const Kind = { CALL: 0, OPERATION: 1, ROUND: 2, END: 3, DRIVING: 4, MESSAGE: 5 } as const;

/** As Trace::Call has them. */
export const CALLS = ['start', 'test', 'wait', 'look', 'startall'] as const;

/** States of a message, as libof::State has them. */
export const MESSAGE_STATES = [
  'eager_send_init',
  'eager_sending',
  'recv_waiting_eager',
  'rndv_recv_init',
  'recv_sending_rtr',
  'send_waiting_rtr',
  'send_sending_data',
  'done',
] as const;

export type MessageState = (typeof MESSAGE_STATES)[number];

/** Times are microseconds, of the clock that all processes of a machine share. */
interface Timed {
  time: number;
}

export interface CallEvent extends Timed {
  kind: 'call';
  duration: number;
  call: (typeof CALLS)[number];
  /** Calls without a pause between them. */
  count: number;
  /** Of the operation that it started; 0: none. */
  operation: number;
}

export interface OperationEvent extends Timed {
  kind: 'operation';
  operation: number;
  name: string;
}

export interface RoundEvent extends Timed {
  kind: 'round';
  operation: number;
  /** From 1 on. */
  round: number;
}

export interface EndEvent extends Timed {
  kind: 'end';
  operation: number;
  failed: boolean;
}

export interface DrivingEvent extends Timed {
  kind: 'driving';
  duration: number;
}

export interface MessageEvent extends Timed {
  kind: 'message';
  state: MessageState;
  /** While it lives no other message has it; or -1 for one whose states follow each other. */
  id: number;
  peer: number;
  /** Equal on both ends of a message, and on no other message between the two ranks. */
  key: string;
  bytes: number;
}

export type TraceEvent = CallEvent | OperationEvent | RoundEvent | EndEvent | DrivingEvent | MessageEvent;

/** Decodes a list. @param names of operations */
export function* eventsOf(list: Float64Array, names: readonly string[]): Generator<TraceEvent> {
  for (let at = 0; at < list.length; at += WORDS) yield eventAt(list.subarray(at, at + WORDS), names);
}

function eventAt([kind, time, a, b, c, d, e, f]: Float64Array, names: readonly string[]): TraceEvent {
  switch (kind) {
    case Kind.CALL:
      return { kind: 'call', time, duration: a, call: CALLS[b], count: c, operation: d };
    case Kind.OPERATION:
      return { kind: 'operation', time, operation: a, name: names[b] };
    case Kind.ROUND:
      return { kind: 'round', time, operation: a, round: b };
    case Kind.END:
      return { kind: 'end', time, operation: a, failed: b !== 0 };
    case Kind.DRIVING:
      return { kind: 'driving', time, duration: a };
    default:
      return {
        kind: 'message',
        time,
        state: MESSAGE_STATES[kind - Kind.MESSAGE],
        id: a,
        peer: b,
        key: `${c}/${d}/${e}`,
        bytes: f,
      };
  }
}
