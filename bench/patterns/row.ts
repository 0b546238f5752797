/** What the native program says about a case, and whether that can be true. */

export interface Row {
  transport: string;
  request: string;
  response: string;
  design: string;
  clients: number;
  /** Of a dispatcher. */
  workers: number | null;
  processors: string;
  request_bytes: number;
  response_bytes: number;
  empty_pct: number;
  /** That the responder polls; null where requests are sent. */
  mailboxes: number | null;
  /** These two: null without work requests. */
  inline_bytes: number | null;
  signal_every: number | null;
  requests: number;
  /** Of the client with the fewest. */
  requests_least: number;
  requests_per_s: number;
  median_us: number;
  p99_us: number;
  /** Of the responder: at a mailbox, or into the completion queue. */
  looks: number;
  empty_looks_pct: number;
  /** Messages whose end was there before their front. */
  torn: number;
  /** Of both sides, warm-up included; null without work requests. */
  work_requests: number | null;
  inlined: number | null;
  signalled: number | null;
}

const FIELDS: Record<keyof Row, 'string' | 'number' | 'number or null'> = {
  transport: 'string',
  request: 'string',
  response: 'string',
  design: 'string',
  clients: 'number',
  workers: 'number or null',
  processors: 'string',
  request_bytes: 'number',
  response_bytes: 'number',
  empty_pct: 'number',
  mailboxes: 'number or null',
  inline_bytes: 'number or null',
  signal_every: 'number or null',
  requests: 'number',
  requests_least: 'number',
  requests_per_s: 'number',
  median_us: 'number',
  p99_us: 'number',
  looks: 'number',
  empty_looks_pct: 'number',
  torn: 'number',
  work_requests: 'number or null',
  inlined: 'number or null',
  signalled: 'number or null',
};

/**
 * What is wrong with a row for this case: nothing, or a text for each thing. No time is checked, only what must hold at
 * any speed.
 */
export function faults(row: Row, wanted: Readonly<Record<string, string | number | null>>): string[] {
  const found: string[] = [];
  const must = (holds: boolean, text: string): void => {
    if (!holds) found.push(text);
  };
  for (const [name, kind] of Object.entries(FIELDS)) {
    const value: unknown = row[name as keyof Row];
    const fits = kind === 'number or null' ? value === null || Number.isFinite(value) : typeof value === kind;
    must(fits, `${name} is ${String(value)}`);
  }
  for (const name of Object.keys(row)) must(name in FIELDS, `nobody knows ${name}`);
  for (const [name, value] of Object.entries(wanted)) {
    must(row[name as keyof Row] === value, `${name} is ${row[name as keyof Row]}, not ${value}`);
  }
  must(row.requests_least > 0, 'a client has no request');
  must(row.requests >= row.clients * row.requests_least, 'requests are missing');
  must(row.requests_per_s > 0, 'no throughput');
  must(row.median_us > 0 && row.median_us <= row.p99_us, 'the median and the 99th percentile are not in order');
  // A look may find several completions; a mailbox holds one message.
  if (row.mailboxes !== null) {
    must(row.looks >= row.requests, 'more requests than looks');
    must(row.mailboxes === Math.round((row.clients * 100) / (100 - row.empty_pct)), `${row.mailboxes} mailboxes`);
    // All are looked at in turn, so those of nobody have their share, but for the beginning and the end.
    must(row.empty_looks_pct >= row.empty_pct - 2, 'fewer looks at empty mailboxes than there are of these');
  }
  if (row.work_requests !== null) {
    const { work_requests: posted, inlined, signalled, inline_bytes: limit, signal_every: every } = row;
    must(posted >= 2 * row.requests, 'a request or a response without a work request');
    const inlines = [row.request_bytes, row.response_bytes].filter((bytes) => bytes <= limit!).length;
    must(inlined === (posted / 2) * inlines, `${inlined} of ${posted} work requests inlined`);
    // On each of the two ends of each connection the last ones may not have come to their signal.
    const most = Math.floor(posted / every!);
    must(signalled! <= most && signalled! > most - 2 * row.clients - 1, `${signalled} of ${posted} signalled`);
  }
  return found;
}

/** Of several runs of one case the fastest: whatever else the machine does can only take time away. */
export function best(rows: readonly Row[]): Row {
  return rows.reduce((most, row) => (row.requests_per_s > most.requests_per_s ? row : most));
}
