/** What is measured: for each sweep the cases that it is made of. */
import type { Row } from './row.js';

export const TRANSPORTS = ['shm', 'verbs'] as const;
export type Transport = (typeof TRANSPORTS)[number];

export const SWEEPS = ['size', 'clients', 'empty', 'inline', 'signal'] as const;
export type Sweep = (typeof SWEEPS)[number];

/**
 * What a case can say, as the native program takes it (native/main.cc); what it does not say is the program's default.
 */
export type Case = Partial<
  Pick<
    Row,
    | 'transport'
    | 'request'
    | 'response'
    | 'design'
    | 'clients'
    | 'request_bytes'
    | 'response_bytes'
    | 'empty_pct'
    | 'inline_bytes'
    | 'signal_every'
  >
>;

export interface Planned {
  sweep: Sweep;
  case: Case;
}

interface Points {
  /** Bytes of responses; requests have 64. */
  sizes: number[];
  clients: number[];
  /** Per cent of the polled mailboxes. */
  empty: number[];
  /** Up to so many bytes go with the work request, as far as the device allows; what it allows is one more. */
  inline: number[];
  /** Bytes of requests and of responses. */
  messages: number[];
  signal: number[];
}

const FULL: Points = {
  sizes: [64, 256, 1024, 4096, 16384],
  clients: [1, 2, 4, 7],
  // The paper stops at 95 with its ninety clients; seven clients need more mailboxes of nobody before a scan takes as
  // long as there.
  empty: [0, 50, 80, 90, 95, 99],
  inline: [0, 64, 128, 256],
  messages: [8, 16, 32, 64, 128, 256, 512, 1024],
  signal: [1, 2, 4, 8, 16, 32, 64],
};
const QUICK: Points = {
  sizes: [64, 4096],
  clients: [1, 2],
  empty: [0, 95],
  inline: [0],
  messages: [8, 1024],
  signal: [1, 64],
};

const VERBS = ['write', 'send'] as const;
const COMBINATIONS = VERBS.flatMap((request) => VERBS.map((response) => ({ request, response })));
const WRITES = COMBINATIONS.filter(({ request, response }) => request === 'write' && response === 'write');
/** The two in which both directions are alike. */
const SAME = COMBINATIONS.filter(({ request, response }) => request === response);
const DESIGNS = ['private', 'dispatcher'] as const;

/** `mostInline`: of the device. */
export function plan(transport: Transport, sweep: Sweep, quick: boolean, mostInline: number): Planned[] {
  const points = quick ? QUICK : FULL;
  const verbs = transport === 'verbs';
  const combinations = verbs ? COMBINATIONS : WRITES;
  const designs = DESIGNS.flatMap((design) => combinations.map((combination) => ({ design, ...combination })));
  const cases = (): Case[] => {
    switch (sweep) {
      case 'size':
        return combinations.flatMap((each) => points.sizes.map((response_bytes) => ({ ...each, response_bytes })));
      case 'clients':
        return designs.flatMap((each) => points.clients.map((clients) => ({ ...each, clients })));
      case 'empty': {
        const clients = Math.max(...points.clients);
        return designs
          .filter(({ request }) => request === 'write') // sends have no mailboxes
          .flatMap((each) => points.empty.map((empty_pct) => ({ ...each, clients, empty_pct })));
      }
      case 'inline': {
        const limits = [...points.inline.filter((bytes) => bytes < mostInline), mostInline];
        return SAME.flatMap((each) =>
          limits.flatMap((inline_bytes) =>
            points.messages.map((bytes) => ({ ...each, inline_bytes, request_bytes: bytes, response_bytes: bytes })),
          ),
        );
      }
      case 'signal':
        return combinations.flatMap((each) => points.signal.map((signal_every) => ({ ...each, signal_every })));
    }
  };
  // Shared memory has neither work requests that could take data along, nor completions that could be left out.
  if (!verbs && (sweep === 'inline' || sweep === 'signal')) return [];
  return cases().map((each) => ({ sweep, case: { transport, ...each } }));
}
