/**
 * How ranks tell each other something before they are connected. Whatever started the job offers one: a store
 * (store.ts), a process manager that speaks PMI-1, as MPICH's and Slurm's do (pmi.ts), or PMIx (pmix.ts).
 */
export interface Directory {
  readonly rank: number;
  readonly size: number;
  /** What all ranks tell, by rank. All call it, each once for a name. @throws {BootstrapError} */
  exchange(name: string, mine: unknown): Promise<unknown[]>;
  /** The address of this machine from which others can be reached, if that is known; numeric. */
  readonly localAddress: string | undefined;
  /** What only ranks of this job know, if they do already. */
  readonly secret: string | undefined;
}
