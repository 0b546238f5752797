/** The directory of a launcher that serves PMIx: Open MPI's mpirun, Slurm's srun with --mpi=pmix, and others. */
import { BootstrapError } from '../../errors.js';
import type { Native } from '../../native.js';
import type { Directory } from './directory.js';

export interface PmixPlace {
  rank: number;
  size: number;
}

/** Whether the launcher that started this process says that it serves PMIx. */
export function offersPmix(environment: Record<string, string | undefined>): boolean {
  return environment.PMIX_RANK !== undefined && environment.PMIX_NAMESPACE !== undefined;
}

/** @throws {BootstrapError} */
export async function openPmix(native: Native, rank: number): Promise<PmixPlace> {
  return failingAs(rank, native.pmixOpen());
}

/** After openPmix(), which stays open. @throws {BootstrapError} */
export async function throughPmix<T>(
  native: Native,
  { rank, size }: PmixPlace,
  timeout: number,
  meet: (directory: Directory) => Promise<T>,
): Promise<T> {
  const seconds = Math.ceil(timeout / 1000);
  const exchange = async (name: string, mine: unknown): Promise<unknown[]> => {
    const all = await failingAs(rank, native.pmixExchange(`nbc.${name}`, JSON.stringify(mine), seconds));
    return all.map((text) => JSON.parse(text) as unknown);
  };
  return meet({ rank, size, secret: undefined, localAddress: undefined, exchange });
}

async function failingAs<T>(rank: number, call: Promise<T>): Promise<T> {
  try {
    return await call;
  } catch (error) {
    throw new BootstrapError(`PMIx: ${(error as Error).message}`, rank);
  }
}
