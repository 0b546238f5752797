/** What a process of several ranks (process.ts) is told, as JSON. */
export interface ProcessPlace {
  /** Its first rank; the others follow. */
  first: number;
  count: number;
  /** Ranks of the job. */
  size: number;
  label: boolean;
  /** It writes a line for each rank that ends to this descriptor: rank and exit code. */
  endsFd: number;
}
