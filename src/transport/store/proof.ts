/**
 * How both sides of the store prove that they know the secret, without showing it: an HMAC over the nonces of both and
 * what they say. A store that only pretends to be one gets the proof of a client, and can try secrets until one fits;
 * so a secret has to be long and random.
 */
import { crypto } from '../../builtins.js';
import { OptionError } from '../../errors.js';

/** Characters. `openssl rand -hex 32` makes 64. */
const SHORTEST_SECRET = 16;
/** Bytes of NBC_JOB: a client says it before it has proven itself. */
const LONGEST_JOB = 128;

export interface Introduction {
  serverNonce: string;
  clientNonce: string;
  rank: number;
  size: number;
  /** NBC_JOB of the client; empty if it is not set. */
  job: string;
}

/** @throws {OptionError} */
export function checkSecret(secret: string): string {
  if (secret.length >= SHORTEST_SECRET) return secret;
  throw new OptionError(
    'NBC_SECRET',
    `has ${secret.length} characters, and needs at least ${SHORTEST_SECRET}, so that nobody guesses it: take what 'openssl rand -hex 32' prints, the same on all ranks`,
  );
}

/** @throws {OptionError} */
export function checkJob(job: string): string {
  if (Buffer.byteLength(job) <= LONGEST_JOB) return job;
  throw new OptionError('NBC_JOB', `must have at most ${LONGEST_JOB} bytes, not ${Buffer.byteLength(job)}`);
}

export function newNonce(): string {
  return crypto().randomBytes(16).toString('hex');
}

/** @param id what the server says: the number of the job */
export function proofOf(side: 'client' | 'server', secret: string, said: Introduction, id = ''): string {
  const { serverNonce, clientNonce, rank, size, job } = said;
  const text = JSON.stringify(['node-nbc store', side, serverNonce, clientNonce, rank, size, job, id]);
  return crypto().createHmac('sha256', secret).update(text).digest('hex');
}

/**
 * What data connections prove that they know. Each store has a number of its own, so processes of another job, or of an
 * earlier attempt at this one, have another key although they have the same secret.
 */
export function keyOf(secret: string, id: string): string {
  return crypto()
    .createHmac('sha256', secret)
    .update(JSON.stringify(['node-nbc job', id]))
    .digest('hex');
}

export function proves(
  side: 'client' | 'server',
  secret: string,
  said: Introduction,
  proof: unknown,
  id?: string,
): boolean {
  const expected = Buffer.from(proofOf(side, secret, said, id));
  const given = Buffer.from(typeof proof === 'string' ? proof : '');
  return given.length === expected.length && crypto().timingSafeEqual(given, expected);
}
