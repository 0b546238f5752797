/**
 * `nbcbench against-node`: round trips and all-to-alls of node-nbc beside what Node.js itself offers between threads
 * and processes. On a quiet machine, and beside processes that compute.
 */
import { execFile } from 'node:child_process';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import {
  CROWD,
  type Load,
  LOADS,
  type Measured,
  type Mechanism,
  MECHANISMS,
  type Pattern,
} from './against-node/mechanisms.js';
import { startBusy } from './busy.js';
import type { Listener } from './measure.js';
import { formatBytes } from './options.js';
import { formatTime, table } from './report.js';

export interface AgainstNodeSettings {
  sizes: readonly number[];
  /** Round trips that are measured of each case. */
  repetitions: number;
  /** For each case: measured is what fits in. */
  maxSeconds: number;
  /** Processes that compute beside the busy cases. */
  busy: number;
}

/** One case. */
export interface AgainstNodeRow extends Measured {
  mechanism: string;
  waits: Mechanism['waits'];
  bytes: number;
  load: Load;
}

/** What starting the processes may take, to find a hang. */
const START_MS = 60_000;

const path = (url: string): string => fileURLToPath(new URL(url, import.meta.url));
const PROGRAMS: Record<Pattern, string> = {
  'round trip': path('against-node/side.js'),
  'all-to-all': path('against-node/all-to-all.js'),
};
const NBCRUN = path('../../cli/nbcrun.js');

/** Mechanisms that this machine has. */
export function installed(): Mechanism[] {
  const { resolve } = createRequire(import.meta.url);
  return MECHANISMS.filter(({ name }) => {
    if (name !== 'zeromq') return true;
    try {
      return resolve(name) !== '';
    } catch {
      return false;
    }
  });
}

/** Measures all cases, one after the other. A case that fails is reported and left out. */
export async function measureAgainstNode(
  { sizes, repetitions, maxSeconds, busy }: AgainstNodeSettings,
  listener: Listener,
): Promise<AgainstNodeRow[]> {
  const mechanisms = installed();
  const rows: AgainstNodeRow[] = [];
  const cases = LOADS.length * sizes.length * mechanisms.length;
  let done = 0;
  for (const load of LOADS) {
    const others = load === 'busy' ? startBusy(busy) : undefined;
    try {
      for (const bytes of sizes) {
        for (const mechanism of mechanisms) {
          const { name, waits } = mechanism;
          listener.progress(done++ / cases, `${name}, ${formatBytes(bytes)}, ${load}`);
          const args = [...commandOf(mechanism), name, String(bytes), String(repetitions), String(maxSeconds)];
          try {
            const measured = await measureCase(args, maxSeconds);
            rows.push({ mechanism: name, waits, bytes, load, ...measured });
          } catch (error) {
            listener.failure(new Error(`${name}, ${formatBytes(bytes)}, ${load}: ${(error as Error).message}`));
          }
        }
      }
    } finally {
      others?.stop();
    }
  }
  return rows;
}

function commandOf({ pattern, start }: Mechanism): string[] {
  const program = PROGRAMS[pattern];
  if (start === 'node') return [program];
  const ranks = pattern === 'all-to-all' ? CROWD : 2;
  return [NBCRUN, '-n', String(ranks), ...(start === 'threads' ? ['--threads'] : []), program];
}

async function measureCase(args: readonly string[], maxSeconds: number): Promise<Measured> {
  const timeout = maxSeconds * 2000 + START_MS;
  const { stdout } = await promisify(execFile)(process.execPath, [...args], { timeout });
  return JSON.parse(stdout) as Measured;
}

/** A table for each pattern, a row for each mechanism, a column for each size and load: medians in µs. */
export function againstNodeTable(rows: readonly AgainstNodeRow[], markdown: boolean): string {
  const patterns = [...new Set(MECHANISMS.map(({ pattern }) => pattern))];
  return patterns.map((pattern) => tableOf(pattern, rows, markdown)).join('\n\n');
}

function tableOf(pattern: Pattern, rows: readonly AgainstNodeRow[], markdown: boolean): string {
  const sizes = [...new Set(rows.map(({ bytes }) => bytes))];
  const columns = sizes.flatMap((bytes) => LOADS.map((load) => ({ bytes, load })));
  const header = [
    `${pattern}${pattern === 'all-to-all' ? ` of ${CROWD}` : ''}, median in µs`,
    'a waiting thread',
    ...columns.map(({ bytes, load }) => `${formatBytes(bytes)}, ${load}`),
  ];
  const ofPattern = MECHANISMS.filter((each) => each.pattern === pattern);
  const body = ofPattern
    .filter(({ name }) => rows.some(({ mechanism }) => mechanism === name))
    .map(({ name, title, waits }) => [
      title,
      waits === 'blocks' ? 'blocks' : 'returns to its event loop',
      ...columns.map(({ bytes, load }) => {
        const row = rows.find((each) => each.mechanism === name && each.bytes === bytes && each.load === load);
        return row === undefined ? '' : formatTime(row.median_us);
      }),
    ]);
  if (!markdown) return table(header, body, 2);
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  const rule = header.map((_, index) => (index < 2 ? '---' : '--:'));
  return [header, rule, ...body].map(line).join('\n');
}
