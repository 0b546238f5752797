/** The rows as text, one sweep below the other, with only those columns in which its rows differ. */
import { table as columns } from '#library/bench/nbcbench/report.js';
import type { Row } from './row.js';

const SETTINGS = [
  'request',
  'response',
  'design',
  'clients',
  'request_bytes',
  'response_bytes',
  'empty_pct',
  'mailboxes',
  'inline_bytes',
  'signal_every',
] as const satisfies readonly (keyof Row)[];

const FIGURES: Record<string, (row: Row) => string> = {
  'requests/s': (row) => row.requests_per_s.toFixed(0),
  'median, µs': (row) => row.median_us.toPrecision(3),
  'p99, µs': (row) => row.p99_us.toPrecision(3),
  'looks per request': (row) => (row.looks / row.requests).toFixed(1),
};

export function table(rows: readonly ({ sweep: string } & Row)[]): string {
  const parts = [...new Set(rows.map(({ transport, sweep }) => `${transport}, ${sweep}`))];
  return parts
    .map((part) => {
      const own = rows.filter(({ transport, sweep }) => `${transport}, ${sweep}` === part);
      const differing = SETTINGS.filter((name) => new Set(own.map((row) => row[name])).size > 1);
      const head = [...differing, ...Object.keys(FIGURES)];
      const body = own.map((row) => [
        ...differing.map((name) => String(row[name] ?? '–')),
        ...Object.values(FIGURES).map((figure) => figure(row)),
      ]);
      const title = `${part}; processors: ${own[0].processors}`;
      return `\n${title}\n${columns(head, body, 0)}`;
    })
    .join('\n')
    .concat('\n');
}
