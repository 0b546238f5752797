/** How the operations of the others end when a rank is lost: what program `exits` reports. */
import assert from 'node:assert/strict';

/** Operations that need the lost rank. */
const NEEDED = 6;
/** A rank may hear first from another one, whose operation failed and which gave its message up. */
const LOST = /^ERR_NBC_(PEER_CLOSED|ABANDONED)$/;

/**
 * Checks the report of a rank that lives: first the end of the operation that the lost rank may have completed, and
 * then the ends of those that needed it.
 */
export function assertLostPeer([first, ...rest]: readonly string[], firstMayComplete = true): void {
  assert.equal(rest.length, NEEDED);
  for (const code of rest) assert.match(code, LOST);
  if (!firstMayComplete || first !== 'fulfilled') assert.match(first, LOST);
}
