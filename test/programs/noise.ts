/**
 * Contents for buffers: bytes that depend on position, ranks and operation, the same on every rank, and cheap to make
 * and to compare.
 *
 * They are cut from one long stretch of random bytes, at a place that depends on what they are for. So data that
 * arrives at the wrong place, from the wrong rank or from another operation differs from what is expected nearly
 * everywhere.
 */
import assert from 'node:assert/strict';

/** Bytes of the longest piece. */
export const LONGEST_PIECE = 3 * 1024 * 1024;
const PLACES = 1 << 20;

const stretch = makeStretch(LONGEST_PIECE + PLACES);

function makeStretch(bytes: number): Uint8Array {
  const words = new Uint32Array(bytes / 4);
  let state = 0x9e3779b9;
  for (let index = 0; index < words.length; index++) {
    // xorshift32, Marsaglia 2003
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    words[index] = state;
  }
  return new Uint8Array(words.buffer);
}

/** What rank `from` sends to rank `to` in operation number `operation`. Broadcasts and gathers leave `to` at 0. */
export function piece(operation: number, from: number, to: number, bytes: number): Uint8Array {
  const place = (operation * 7919 + from * 104_729 + to * 364_979 + 17) % PLACES;
  return stretch.subarray(place, place + bytes);
}

/** Compares bytes, and tells the first difference. */
export function assertBytes(actual: Uint8Array, expected: Uint8Array, what: string): void {
  assert.equal(actual.length, expected.length, `${what}: length`);
  if (Buffer.compare(actual, expected) === 0) return;
  const at = actual.findIndex((byte, index) => byte !== expected[index]);
  const wrong = actual.reduce((count, byte, index) => count + (byte === expected[index] ? 0 : 1), 0);
  assert.fail(
    `${what}: byte ${at} of ${actual.length} is ${actual[at]}, not ${expected[at]}; ${wrong} bytes are wrong`,
  );
}

const CANARY_BYTES = 64;
const CANARY = 0xc5;

/**
 * A stretch of memory with guards on both sides, used again and again for regions of different sizes and alignments.
 */
export class GuardedPool {
  private readonly memory: Uint8Array;

  /** @param memory at least {@link GuardedPool.roomFor} the largest region */
  constructor(memory: Uint8Array) {
    this.memory = memory;
  }

  static roomFor(bytes: number): number {
    return bytes + 2 * CANARY_BYTES + 64;
  }

  /** A region that begins `shift` (0 to 63) bytes further, with fresh guards around it. */
  region(bytes: number, shift = 0): Guarded {
    const start = CANARY_BYTES + shift;
    const before = this.memory.subarray(start - CANARY_BYTES, start).fill(CANARY);
    const after = this.memory.subarray(start + bytes, start + bytes + CANARY_BYTES).fill(CANARY);
    return new Guarded(this.memory.subarray(start, start + bytes), before, after);
  }
}

export class Guarded {
  constructor(
    readonly bytes: Uint8Array,
    private readonly before: Uint8Array,
    private readonly after: Uint8Array,
  ) {}

  assertGuards(what: string): void {
    const intact = (guard: Uint8Array): boolean => guard.every((byte) => byte === CANARY);
    assert(intact(this.before), `${what}: bytes in front of the buffer were overwritten`);
    assert(intact(this.after), `${what}: bytes behind the buffer were overwritten`);
  }
}
