/** Names of the files that ranks write their traces to. */
import { join, parse } from 'node:path';

/** What `nbcrun --trace` gives ranks as their option `trace`, in its folder. */
export const FILE_IN_FOLDER = 'rank-{rank}.json';

/** Whether a file of that folder is the trace of a rank. */
export const isTraceOfRank = (name: string): boolean => /^rank-\d+\.json$/.test(name);

/** The file of a rank: see the option `trace`. */
export function traceFile(name: string, rank: number, size: number): string {
  if (name.includes('{rank}')) return name.replaceAll('{rank}', `${rank}`);
  if (size === 1) return name;
  const { dir, name: stem, ext } = parse(name);
  return join(dir, `${stem}.${rank}${ext}`);
}
