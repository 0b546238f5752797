/** Results as tables for people and as JSON rows. */
import { isPeer } from './implementations.js';
import type { Overlap, Result } from './measure.js';
import { formatBytes } from './options.js';

export interface Row {
  implementation: string;
  op: string;
  ranks: number;
  bytes: number;
  transport: string;
  progress: string;
  buffers: string;
  form: string;
  /** How ranks started together. */
  start: string;
  /** Only where buffers were not written before each repetition. */
  same_buffers?: true;
  /** The paper's mode; only where one was asked for. */
  way?: string;
  /** Only where it was set. */
  delay_ms?: number;
  interval: number;
  blocking_us: number;
  init_us: number;
  test_us: number;
  wait_us: number;
  overhead_us: number;
  overlap_pct: number;
}

/** What tells settings of one implementation apart. */
export const SETTINGS = ['transport', 'progress', 'way', 'buffers', 'form'] as const satisfies (keyof Row)[];

/** One row for each test interval of each result. Times to the nanosecond, which is more than they are good for. */
export function toRows(results: readonly Result[]): Row[] {
  const us = (value: number) => Math.round(value * 1000) / 1000;
  return results.flatMap((result) =>
    result.overlaps.map((overlap) => ({
      implementation: result.implementation.name,
      op: result.op,
      ranks: result.ranks,
      bytes: result.bytes,
      transport: result.implementation.transport,
      progress: result.implementation.progress,
      buffers: result.buffers,
      form: result.form,
      start: result.start,
      ...(result.sameBuffers ? { same_buffers: true as const } : {}),
      ...(result.implementation.way === undefined ? {} : { way: result.implementation.way }),
      ...(result.delay === undefined ? {} : { delay_ms: result.delay }),
      interval: overlap.interval,
      blocking_us: us(result.blocking),
      init_us: us(overlap.init),
      test_us: us(overlap.test),
      wait_us: us(overlap.wait),
      overhead_us: us(us(overlap.init) + us(overlap.test) + us(overlap.wait)),
      overlap_pct: Math.round(overlap.percentage * 100) / 100,
    })),
  );
}

/** Text columns: the first `left` of them flush left, the others flush right. */
export function table(header: readonly string[], body: readonly (readonly string[])[], left: number): string {
  const widths = header.map((title, i) => Math.max(title.length, ...body.map((cells) => cells[i].length)));
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, i) => (i < left ? cell.padEnd(widths[i]) : cell.padStart(widths[i])))
      .join('  ')
      .trimEnd();
  return [line(header), widths.map((width) => '─'.repeat(width)).join('  '), ...body.map(line)].join('\n');
}

/** 0.213, 4.21, 87.3, 18713: three digits that mean something. */
export function formatTime(us: number): string {
  if (Number.isNaN(us)) return '–';
  return us < 10 ? us.toFixed(2) : us < 100 ? us.toFixed(1) : us.toFixed(0);
}

export const formatRatio = (ratio: number): string => (Number.isNaN(ratio) ? '–' : `${ratio.toFixed(2)}×`);

const samePoint = (a: Result) => (b: Result) =>
  a.op === b.op && a.ranks === b.ranks && a.bytes === b.bytes && a.delay === b.delay && a.sameBuffers === b.sameBuffers;

/** The peers' results for the same operation, number of ranks and size. */
export function peersOf(result: Result, results: readonly Result[]): Result[] {
  return results.filter((other) => isPeer(other.implementation)).filter(samePoint(result));
}

/** Columns that tell our results apart, if there is more than one kind of them. */
function distinguishing(results: readonly Result[]): { title: string; of: (result: Result) => string }[] {
  const columns = [
    { title: 'transport', of: (result: Result) => result.implementation.transport },
    { title: 'progress', of: (result: Result) => result.implementation.progress },
    { title: 'mode', of: (result: Result) => result.implementation.way ?? 'default' },
    { title: 'buffers', of: (result: Result) => result.buffers as string },
    { title: 'form', of: (result: Result) => result.form as string },
    { title: 'delay', of: (result: Result) => `${result.delay ?? 0} ms` },
  ];
  return columns.filter(({ of }) => new Set(results.map(of)).size > 1);
}

/** Pass one: what start + wait take. Ratios are ours over theirs: below one we are faster. */
export function blockingTable(results: readonly Result[]): string {
  return compare(results, (result) => result.blocking, []);
}

/** Pass two, for one interval: the overhead, and how much of the communication was hidden. */
export function overheadTable(results: readonly Result[], interval: number): string {
  const at = (result: Result): Overlap | undefined => result.overlaps.find((overlap) => overlap.interval === interval);
  const details = [
    { title: 'init', of: (result: Result) => formatTime(at(result)?.init ?? NaN) },
    ...(interval > 0 ? [{ title: 'test', of: (result: Result) => formatTime(at(result)?.test ?? NaN) }] : []),
    { title: 'wait', of: (result: Result) => formatTime(at(result)?.wait ?? NaN) },
    { title: 'overlap', of: (result: Result) => `${(at(result)?.percentage ?? NaN).toFixed(0)} %` },
  ];
  return compare(results, (result) => at(result)?.overhead ?? NaN, details);
}

/**
 * One line for each result of ours, or of the peers if there is none, with the peers' figures and the ratios beside it.
 */
function compare(
  results: readonly Result[],
  figure: (result: Result) => number,
  details: { title: string; of: (result: Result) => string }[],
): string {
  const ours = results.filter(({ implementation }) => !isPeer(implementation));
  const subjects = ours.length > 0 ? ours : results;
  const peers =
    ours.length > 0
      ? [...new Map(results.map(({ implementation }) => [implementation.name, implementation])).values()].filter(isPeer)
      : [];
  const kinds = distinguishing(ours);
  const header = [
    'op',
    ...(ours.length === 0 ? ['implementation'] : kinds.map(({ title }) => title)),
    'ranks',
    'size',
    ...(ours.length === 0 ? ['µs'] : ['node-nbc']),
    ...details.map(({ title }) => title),
    ...peers.map(({ name }) => name),
    ...peers.map(({ name }) => `/${name}`),
    ...(peers.length > 1 ? ['/better'] : []),
  ];
  const body = subjects.map((result) => {
    const own = figure(result);
    const theirs = peers.map(({ name }) => {
      const found = peersOf(result, results).find(({ implementation }) => implementation.name === name);
      return found ? figure(found) : NaN;
    });
    const better = Math.min(...theirs.filter((value) => !Number.isNaN(value)));
    return [
      result.op,
      ...(ours.length === 0 ? [result.implementation.name] : kinds.map(({ of }) => of(result))),
      String(result.ranks),
      formatBytes(result.bytes),
      formatTime(own),
      ...details.map(({ of }) => of(result)),
      ...theirs.map(formatTime),
      ...theirs.map((value) => formatRatio(own / value)),
      ...(peers.length > 1 ? [formatRatio(Number.isFinite(better) ? own / better : NaN)] : []),
    ];
  });
  return table(header, body, 1 + (ours.length === 0 ? 1 : kinds.length));
}
