/** Errors of requests, as the codes that tests compare. */
import assert from 'node:assert/strict';
import { AbandonedError, NbcError } from 'node-nbc';

/** The code of the error where it began: a collective may hear of the end of a rank from another rank. */
export function codeWhereItBegan(error: unknown): string {
  assert(error instanceof NbcError, String(error));
  return error instanceof AbandonedError ? (error.reason ?? error.code) : error.code;
}
