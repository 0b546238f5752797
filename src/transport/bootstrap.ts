/**
 * How a process learns which rank it is. The launcher (nbcrun) hands it three environment variables:
 *
 *     NBC_RANK     its rank
 *     NBC_SIZE     how many ranks there are
 *     NBC_JOB_FD   an inherited descriptor: the anonymous shared file of the job
 *
 * A program that was started without a launcher is a job of one rank.
 *
 * And one says where it is: NBC_HOST, the name of its host, for transport 'auto'. Ranks with different values are treated
 * as if on different hosts. It is not set where all ranks are on one machine, which is what nbcrun starts; a program or a
 * container may set it before init() is called.
 */
import { OptionError } from '../errors.js';

export interface Bootstrap {
  rank: number;
  size: number;
  /** Descriptor of the job's shared file; -1 in a job of one rank, which needs none. */
  jobFd: number;
  /** Ranks with equal ones are on one host. Empty: the machine. */
  host: string;
}

/** Bytes; RankLine of native/fabric/shm/segment.h holds one more. */
const MAX_HOST = 127;

const VARIABLES = ['NBC_RANK', 'NBC_SIZE', 'NBC_JOB_FD'] as const;

/** @throws {OptionError} naming the variable that is missing or makes no sense */
export function readBootstrap(environment: Record<string, string | undefined> = process.env): Bootstrap {
  const host = readHost(environment);
  if (VARIABLES.every((name) => environment[name] === undefined)) return { rank: 0, size: 1, jobFd: -1, host };

  const size = readInteger(environment, 'NBC_SIZE', 1);
  const rank = readInteger(environment, 'NBC_RANK', 0);
  if (rank >= size) throw new OptionError('NBC_RANK', `is ${rank}, but the job has ${size} ranks (NBC_SIZE)`);
  if (size === 1 && environment.NBC_JOB_FD === undefined) return { rank, size, jobFd: -1, host };
  return { rank, size, jobFd: readInteger(environment, 'NBC_JOB_FD', 0), host };
}

function readHost(environment: Record<string, string | undefined>): string {
  const host = environment.NBC_HOST ?? '';
  if (Buffer.byteLength(host) > MAX_HOST) {
    throw new OptionError('NBC_HOST', `must have at most ${MAX_HOST} bytes, not ${Buffer.byteLength(host)}`);
  }
  return host;
}

function readInteger(environment: Record<string, string | undefined>, name: string, min: number): number {
  const text = environment[name];
  if (text === undefined) throw new OptionError(name, 'is not set, though others are; start the program with nbcrun');
  const value = /^\d+$/.test(text) ? Number(text) : NaN;
  if (!Number.isInteger(value) || value < min || value > 2 ** 31 - 1) {
    throw new OptionError(name, `must be a whole number from ${min}, not '${text}'; start the program with nbcrun`);
  }
  return value;
}
