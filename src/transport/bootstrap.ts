/**
 * How a process learns which rank it is. The launcher (nbcrun) hands it three environment variables:
 *
 *     NBC_RANK     its rank
 *     NBC_SIZE     how many ranks there are
 *     NBC_JOB_FD   an inherited descriptor: the anonymous shared file of the job
 *
 * A program that was started without a launcher is a job of one rank.
 *
 * Ranks that share no file find each other through a store (store/), which two more variables name; nbcrun sets them, too:
 *
 *     NBC_STORE    host:port where the store of the job is, or where rank 0 is to open it
 *     NBC_SECRET   what only ranks of this job know; any text, the longer the better
 *
 * Other launchers have names of their own for the rank and the number of ranks, which are as good beside NBC_STORE: see LAUNCHERS. What torchrun
 * and its like set (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT) needs nothing but NBC_SECRET.
 *
 * Under MPICH's mpirun, PMI_RANK, PMI_SIZE and PMI_FD say the same (directory/pmi.ts); under Open MPI's, and Slurm's srun
 * with --mpi=pmix, PMIx does (directory/pmix.ts).
 *
 * And one says where it is: NBC_HOST, the name of its host, for transport 'auto'. Ranks with different values are treated
 * as if on different hosts. It is not set where all ranks are on one machine, which is what nbcrun starts; a program or a
 * container may set it before init() is called.
 */
import { OptionError } from '../errors.js';
import { findPmi, type PmiPlace } from './directory/pmi.js';
import { offersPmix } from './directory/pmix.js';

export interface Bootstrap {
  rank: number;
  size: number;
  /** Descriptor of the job's shared file; -1: there is none. */
  jobFd: number;
  /** How ranks find each other that share no file. */
  store: StoreAddress | undefined;
  /** The same by MPICH's process manager. */
  pmi: PmiPlace | undefined;
  /** PMIx says which rank this is, and how ranks find each other. */
  pmix: boolean;
  /** Ranks with equal ones are on one host. Empty: the machine. */
  host: string;
}

/** Bytes; RankLine of native/fabric/shm/segment.h holds one more. */
const MAX_HOST = 127;

export interface StoreAddress {
  host: string;
  port: number;
  secret: string;
}

type Environment = Record<string, string | undefined>;

/** The variables that say which rank this is, and of how many. */
interface Launcher {
  rank: string;
  size: string;
}

const NBCRUN: Launcher = { rank: 'NBC_RANK', size: 'NBC_SIZE' };
const TORCHRUN: Launcher = { rank: 'RANK', size: 'WORLD_SIZE' };
/** Used where NBC_STORE is set; the first whose rank is there. */
const LAUNCHERS: Launcher[] = [
  NBCRUN,
  { rank: 'JOB_COMPLETION_INDEX', size: 'NBC_SIZE' }, // an indexed job of Kubernetes
  { rank: 'SLURM_PROCID', size: 'SLURM_STEP_NUM_TASKS' }, // srun
  TORCHRUN,
];
const OURS = [NBCRUN.rank, NBCRUN.size, 'NBC_JOB_FD', 'NBC_STORE'];

/** @throws {OptionError} naming the variable that is missing or makes no sense */
export function readBootstrap(environment: Environment = process.env): Bootstrap {
  const host = readHost(environment);
  const has = (name: string): boolean => environment[name] !== undefined;
  const nothing = { jobFd: -1, store: undefined, pmi: undefined, pmix: false, host };
  if (OURS.some(has)) return { ...nothing, ...readOurs(environment, has) };
  const pmi = findPmi(environment);
  if (pmi !== undefined) return { ...nothing, rank: pmi.rank, size: pmi.size, pmi };
  // Who this is, is asked later.
  if (offersPmix(environment)) return { ...nothing, rank: 0, size: 1, pmix: true };
  if ([TORCHRUN.rank, TORCHRUN.size, 'MASTER_ADDR', 'MASTER_PORT'].every(has)) {
    const address = environment.MASTER_ADDR!;
    const text = `${address.includes(':') ? `[${address}]` : address}:${environment.MASTER_PORT}`;
    return { ...nothing, ...readPlace(environment, TORCHRUN), store: readStore(environment, 'MASTER_ADDR', text) };
  }
  return { ...nothing, rank: 0, size: 1 };
}

function readOurs(
  environment: Environment,
  has: (name: string) => boolean,
): Pick<Bootstrap, 'rank' | 'size' | 'jobFd' | 'store'> {
  const text = environment.NBC_STORE;
  const store = text === undefined || text === '' ? undefined : readStore(environment, 'NBC_STORE', text);
  const launcher = store === undefined ? NBCRUN : (LAUNCHERS.find(({ rank }) => has(rank)) ?? NBCRUN);
  const place = readPlace(environment, launcher);
  const needed = place.size > 1 && store === undefined;
  const jobFd = needed || has('NBC_JOB_FD') ? readInteger(environment, 'NBC_JOB_FD', 0) : -1;
  return { ...place, jobFd, store };
}

function readPlace(environment: Environment, launcher: Launcher): { rank: number; size: number } {
  const size = readInteger(environment, launcher.size, 1);
  const rank = readInteger(environment, launcher.rank, 0);
  if (rank >= size)
    throw new OptionError(launcher.rank, `is ${rank}, but the job has ${size} ranks (${launcher.size})`);
  return { rank, size };
}

function readStore(environment: Environment, variable: string, text: string): StoreAddress {
  const parts = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.exec(text.trim()) as (string | undefined)[] | null;
  const port = Number(parts?.[3]);
  if (parts === null || port < 1 || port > 65535) {
    throw new OptionError(variable, `must be host:port, as in 'node-0:4711' or '[::1]:4711', not '${text}'`);
  }
  const secret = environment.NBC_SECRET;
  if (secret === undefined || secret === '') {
    throw new OptionError('NBC_SECRET', `must be set where ${variable} is, to the same random text on all ranks`);
  }
  return { host: parts[1] ?? parts[2] ?? '', port, secret };
}

function readHost(environment: Environment): string {
  const host = environment.NBC_HOST ?? '';
  if (Buffer.byteLength(host) > MAX_HOST) {
    throw new OptionError('NBC_HOST', `must have at most ${MAX_HOST} bytes, not ${Buffer.byteLength(host)}`);
  }
  return host;
}

function readInteger(environment: Environment, name: string, min: number): number {
  const text = environment[name];
  if (text === undefined) throw new OptionError(name, 'is not set, though others are; start the program with nbcrun');
  const value = /^\d+$/.test(text) ? Number(text) : NaN;
  if (!Number.isInteger(value) || value < min || value > 2 ** 31 - 1) {
    throw new OptionError(name, `must be a whole number from ${min}, not '${text}'; start the program with nbcrun`);
  }
  return value;
}
