/** Rows of the second table: figures that are no ratios of nbcbench's. */
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { table } from '#library/bench/nbcbench/report.js';

export interface Limits {
  must: number;
  aim: number;
  /** The figure should be as large as that, and not as small. */
  more?: boolean;
}

export interface Row extends Partial<Limits> {
  what: string;
  /** Undefined: it could not be measured. */
  figure?: number;
  /** Digits behind the point; default 2. */
  digits?: number;
  /** What it is of, or why it could not be measured. */
  note?: string;
  /** In place of the verdict. */
  reached?: string;
}

/** What was asked for, and how to measure it. All rows that it should have, so that none can be missing. */
export interface Measurement {
  rows: readonly Row[];
  /** Figures in the order of the rows. @throws {Error} saying why they cannot be measured */
  measure: () => Promise<Partial<Row>[]> | Partial<Row>[];
}

/** Measures; where that fails, the rows say why. */
export async function rowsOf(measurement: Measurement): Promise<Row[]> {
  const { rows } = measurement;
  try {
    const found = await measurement.measure();
    return rows.map((row, index) => ({ ...row, ...found[index] }));
  } catch (error) {
    const [why] = (error as Error).message.trim().split('\n');
    return rows.map((row) => ({ ...row, note: why }));
  }
}

/** A figure against its two limits, in a word. */
export function verdictOf(figure: number | undefined, { must, aim, more = false }: Limits): string {
  if (figure === undefined || Number.isNaN(figure)) return 'not measured';
  const reaches = (limit: number) => (more ? figure >= limit : figure <= limit);
  return reaches(aim) ? 'aim' : reaches(must) ? 'must' : 'short';
}

export function rowTable(rows: readonly Row[]): string {
  const body = rows.map(({ what, figure, digits = 2, note = '', reached, must, aim, more = false }) => {
    const sign = more ? '≥' : '≤';
    const limit = (value: number | undefined) => (value === undefined ? '' : `${sign} ${value}`);
    const verdict = reached ?? (must === undefined ? '' : verdictOf(figure, { must, aim: aim ?? NaN, more }));
    const shown = figure === undefined ? '–' : figure.toFixed(digits);
    return [what, shown, limit(must), limit(aim), figure === undefined ? 'not measured' : verdict, note];
  });
  return table(['', 'figure', 'must', 'aim', 'reached', ''], body, 1);
}

/** A file of the repository, from its root. */
export const at = (path: string): string => fileURLToPath(new URL(`../../../${path}`, import.meta.url));

/** What a program prints, as JSON. @throws {Error} with its standard error, if it fails */
export function jsonOf(file: string, args: readonly string[]): unknown {
  try {
    return JSON.parse(execFileSync(file, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }));
  } catch (error) {
    const { stderr, message } = error as { stderr?: string; message: string };
    const said = (stderr ?? '').trim();
    throw new Error(said === '' ? message : said, { cause: error });
  }
}
