/**
 * How ranks tell each other something before they are connected. The launcher offers one of these: a store (store.ts),
 * a process manager that speaks PMI-1, as MPICH's and Slurm's do (pmi.ts), or PMIx (pmix.ts).
 */
export interface Directory {
  readonly rank: number;
  readonly size: number;
  /** What all ranks tell, by rank. All call it, each once for a name. @throws {BootstrapError} */
  exchange(name: string, mine: unknown): Promise<unknown[]>;
  /** The address of this machine from which others can be reached, if that is known; numeric. */
  readonly localAddress: string | undefined;
  /** What data connections prove that they know, new for each job. Undefined: the ranks have to agree on one. */
  readonly key: string | undefined;
}
