/**
 * How both sides of the store prove that they know the secret of the job, without showing it: an HMAC over the nonces
 * of both and what the client says of itself.
 */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';

export interface Introduction {
  serverNonce: string;
  clientNonce: string;
  rank: number;
  size: number;
}

export function newNonce(): string {
  return randomBytes(16).toString('hex');
}

export function proofOf(side: 'client' | 'server', secret: string, said: Introduction): string {
  const text = ['node-nbc store', side, said.serverNonce, said.clientNonce, said.rank, said.size].join(' ');
  return createHmac('sha256', secret).update(text).digest('hex');
}

export function proves(side: 'client' | 'server', secret: string, said: Introduction, proof: unknown): boolean {
  const expected = Buffer.from(proofOf(side, secret, said));
  const given = Buffer.from(typeof proof === 'string' ? proof : '');
  return given.length === expected.length && timingSafeEqual(given, expected);
}
