/**
 * How a process learns which rank it is. The launcher (nbcrun) hands it three environment variables:
 *
 *     NBC_RANK     its rank
 *     NBC_SIZE     how many ranks there are
 *     NBC_JOB_FD   an inherited descriptor: the anonymous shared file of the job
 *
 * With `nbcrun --threads` each worker that is a rank finds them in its own environment, and
 *
 *     NBC_THREADS    how many ranks the process has
 *     NBC_PROCESSOR  optional: the processor that init() binds the thread to
 *
 * A program that was started without a launcher is a job of one rank; so is one with NBC_RANK=0 and NBC_SIZE=1 under
 * any.
 *
 * Ranks that share no file find each other through a store (store/), which two more variables name; nbcrun sets them,
 * too:
 *
 *     NBC_STORE    host:port where the store of the job is, or where rank 0 is to open it
 *     NBC_SECRET   what only ranks of this job know: random text of at least 16 characters
 *     NBC_JOB      optional: a name for this job, or this attempt at it. A rank with another one is refused
 *
 * Other launchers have names of their own for the rank and the number of ranks, which are as good beside NBC_STORE: see
 * LAUNCHERS. What torchrun and its like set (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT) needs nothing but NBC_SECRET.
 *
 * Under MPICH's mpirun, and srun --mpi=pmi2, PMI_RANK, PMI_SIZE and PMI_FD say the same (directory/pmi.ts); under Open
 * MPI's, and srun --mpi=pmix, PMIx does (directory/pmix.ts). Where a launcher says that there are several ranks but not
 * how they find each other, that is an error: they would each compute alone.
 *
 * And one says where it is: NBC_HOST, the name of its host, for transport 'auto'. Ranks with different values are
 * treated as if on different hosts. It is not set where all ranks are on one machine, which is what nbcrun starts; a
 * program or a container may set it before init() is called.
 */
import { OptionError } from '../errors.js';
import type { PmiPlace } from './directory/pmi.js';
import { offersPmix } from './directory/pmix.js';
import { checkJob, checkSecret } from './store/proof.js';

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
  /** How many ranks the process has, each of which is a thread; 0: the process is the rank. */
  threads: number;
  /** The processor that this thread is to be bound to; -1: none. */
  processor: number;
}

/** Bytes; RankLine of native/job/segment.h holds one more. */
const MAX_HOST = 127;

export interface StoreAddress {
  host: string;
  port: number;
  secret: string;
  /** NBC_JOB; empty: not set. */
  job: string;
}

type Environment = Record<string, string | undefined>;

/** The variables that say which rank this is, and of how many. */
interface Launcher {
  rank: string;
  size: string;
  /** The program that sets them. */
  name: string;
  /** How it also tells ranks how to find each other. */
  way: string;
}

const NBCRUN: Launcher = { rank: 'NBC_RANK', size: 'NBC_SIZE', name: 'nbcrun', way: 'start the program with nbcrun' };
const TORCHRUN: Launcher = {
  rank: 'RANK',
  size: 'WORLD_SIZE',
  name: 'torchrun',
  way: 'set MASTER_ADDR, MASTER_PORT',
};
const MPICH: Launcher = {
  rank: 'PMI_RANK',
  size: 'PMI_SIZE',
  name: 'a process manager (PMI)',
  way: 'let it set PMI_FD',
};
/**
 * Used where NBC_STORE is set; the first whose rank is there. Those that others start stand before these: mpirun uses
 * srun, for example.
 */
const LAUNCHERS: Launcher[] = [
  NBCRUN,
  TORCHRUN,
  {
    rank: 'OMPI_COMM_WORLD_RANK',
    size: 'OMPI_COMM_WORLD_SIZE',
    name: "Open MPI's mpirun",
    way: 'let it set PMIX_RANK and PMIX_NAMESPACE',
  },
  MPICH,
  {
    rank: 'JOB_COMPLETION_INDEX',
    size: 'NBC_SIZE',
    name: 'an indexed job of Kubernetes',
    way: 'see docs/jobs/kubernetes.md',
  },
  { rank: 'SLURM_PROCID', size: 'SLURM_STEP_NUM_TASKS', name: 'srun', way: 'use srun --mpi=pmix' },
];
const OURS = [NBCRUN.rank, NBCRUN.size, 'NBC_JOB_FD', 'NBC_STORE'];

/** @throws {OptionError} naming the variable that is missing or makes no sense */
export function readBootstrap(environment: Environment = process.env): Bootstrap {
  const host = readHost(environment);
  const has = (name: string): boolean => environment[name] !== undefined;
  const nothing = { jobFd: -1, store: undefined, pmi: undefined, pmix: false, host, threads: 0, processor: -1 };
  if (OURS.some(has)) return { ...nothing, ...readOurs(environment, has) };
  if (has('PMI_FD')) {
    const place = readPlace(environment, MPICH);
    return { ...nothing, ...place, pmi: { ...place, fd: readInteger(environment, 'PMI_FD', 0, MPICH) } };
  }
  if (offersPmix(environment)) {
    // Only the error of a rank that cannot ask needs it: who this is, PMIx says.
    const rank = readInteger(environment, 'PMIX_RANK', 0, { name: 'the launcher (PMIx)' });
    return { ...nothing, rank, size: 1, pmix: true };
  }
  if ([TORCHRUN.rank, TORCHRUN.size, 'MASTER_ADDR', 'MASTER_PORT'].every(has)) {
    const address = environment.MASTER_ADDR!;
    const text = `${address.includes(':') ? `[${address}]` : address}:${environment.MASTER_PORT}`;
    const store = readStore(environment, 'MASTER_ADDR:MASTER_PORT', text);
    return { ...nothing, ...readPlace(environment, TORCHRUN), store };
  }
  mustBeAlone(environment, has);
  return { ...nothing, rank: 0, size: 1 };
}

/** Several ranks that do not know of each other would each compute alone, and nobody would notice. */
function mustBeAlone(environment: Environment, has: (name: string) => boolean): void {
  for (const launcher of LAUNCHERS.filter(({ rank, size }) => has(rank) && has(size))) {
    const { size } = readPlace(environment, launcher);
    if (size === 1) continue;
    throw new OptionError(
      'NBC_STORE',
      `is not set, and ${launcher.name} started ${size} ranks (${launcher.size}) without saying how they find each other: ` +
        `${launcher.way}, or set NBC_STORE and NBC_SECRET (docs/jobs.md); or NBC_RANK=0 and NBC_SIZE=1 if each is a job of its own`,
    );
  }
}

function readOurs(
  environment: Environment,
  has: (name: string) => boolean,
): Pick<Bootstrap, 'rank' | 'size' | 'jobFd' | 'store' | 'threads' | 'processor'> {
  const text = environment.NBC_STORE;
  const store = text === undefined || text === '' ? undefined : readStore(environment, 'NBC_STORE', text);
  const launcher = store === undefined ? NBCRUN : (LAUNCHERS.find(({ rank }) => has(rank)) ?? NBCRUN);
  const place = readPlace(environment, launcher);
  const jobFd = has('NBC_JOB_FD') ? readInteger(environment, 'NBC_JOB_FD', 0, NBCRUN) : -1;
  if (place.size > 1 && store === undefined && jobFd < 0) {
    throw new OptionError(
      'NBC_STORE',
      `is not set, and ${place.size} ranks find each other by it (NBC_SIZE): set NBC_STORE to host:port of rank 0 and ` +
        'NBC_SECRET to the same random text on all ranks (docs/jobs.md), or start the program with nbcrun',
    );
  }
  const threads = has('NBC_THREADS') ? readInteger(environment, 'NBC_THREADS', 1, NBCRUN) : 0;
  const bound = threads > 0 && (environment.NBC_PROCESSOR ?? '') !== '';
  const processor = bound ? readInteger(environment, 'NBC_PROCESSOR', 0, NBCRUN) : -1;
  return { ...place, jobFd, store, threads, processor };
}

function readPlace(environment: Environment, launcher: Launcher): { rank: number; size: number } {
  const size = readInteger(environment, launcher.size, 1, launcher);
  const rank = readInteger(environment, launcher.rank, 0, launcher);
  if (rank >= size)
    throw new OptionError(launcher.rank, `is ${rank}, but the job has ${size} ranks (${launcher.size})`);
  return { rank, size };
}

/** The parts of host:port. @throws {OptionError} */
export function parseStore(variable: string, text: string): { host: string; port: number } {
  const parts = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.exec(text.trim()) as (string | undefined)[] | null;
  const port = Number(parts?.[3]);
  if (parts === null || port < 1 || port > 65535) {
    throw new OptionError(variable, `must be host:port, as in 'node-0:4711' or '[::1]:4711', not '${text}'`);
  }
  return { host: parts[1] ?? parts[2] ?? '', port };
}

function readStore(environment: Environment, variable: string, text: string): StoreAddress {
  const place = parseStore(variable, text);
  const secret = environment.NBC_SECRET;
  if (secret === undefined || secret === '') {
    throw new OptionError('NBC_SECRET', `must be set where ${variable} is, to the same random text on all ranks`);
  }
  return { ...place, secret: checkSecret(secret), job: checkJob(environment.NBC_JOB ?? '') };
}

function readHost(environment: Environment): string {
  const host = environment.NBC_HOST ?? '';
  if (Buffer.byteLength(host) > MAX_HOST) {
    throw new OptionError('NBC_HOST', `must have at most ${MAX_HOST} bytes, not ${Buffer.byteLength(host)}`);
  }
  return host;
}

function readInteger(environment: Environment, name: string, min: number, setBy: { name: string }): number {
  const text = environment[name];
  const advice = `let ${setBy.name} set it, or see docs/jobs.md for what to set by hand`;
  if (text === undefined) throw new OptionError(name, `is not set, though others are; ${advice}`);
  const value = /^\d+$/.test(text) ? Number(text) : NaN;
  if (!Number.isInteger(value) || value < min || value > 2 ** 31 - 1) {
    throw new OptionError(name, `must be a whole number from ${min}, not '${text}'; ${advice}`);
  }
  return value;
}
