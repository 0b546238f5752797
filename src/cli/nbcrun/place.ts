/** What nbcrun and its processes of several ranks (process.ts) share. */
import { constants } from 'node:os';

/** The exit code by which shells report that a process was ended by a signal. */
export const codeOfSignal = (signal: NodeJS.Signals): number => 128 + constants.signals[signal];

/** What such a process is told, as JSON. */
export interface ProcessPlace {
  /** Its first rank; the others follow. */
  first: number;
  count: number;
  /** Ranks of the job. */
  size: number;
  /** Those that ranks are bound to, in turn; none: the system decides. */
  processors: readonly number[];
  label: boolean;
  /** It writes a line for each rank that ends to this descriptor: rank and exit code. */
  endsFd: number;
}
