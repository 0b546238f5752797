/**
 * What a network can do in the middle of a large message: the other end is killed, or the link is interrupted. Only
 * over verbs.
 *
 * The middle is observed, not hoped for: the receiver sees the first byte of a message in its buffer, and not yet the
 * last one.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate, setTimeout } from 'node:timers/promises';
import { init, NbcError, type Request, UnreachableError } from 'node-nbc';
import { until } from '../support/until.js';
import { assertBytes, piece } from './noise.js';
import { play, report, say } from './scenario.js';

const BYTES = 64 << 20;
const LINK_BYTES = 16 << 20;
const GUARD = 64 << 10;
/** What a receive buffer and its guards hold before, and what is sent. */
const UNTOUCHED = 0x77;
const SENT = 0x11;
/** Tags. */
const DATA = 1;
const OTHER = 2;
const MORE = 3;

const world = await init();

/** A receive buffer between two guards. */
class Target {
  readonly view: Uint8Array;
  private readonly whole: Uint8Array;

  constructor(bytes: number) {
    this.whole = new Uint8Array(bytes + 2 * GUARD).fill(UNTOUCHED);
    this.view = this.whole.subarray(GUARD, GUARD + bytes);
  }

  /** Resolves when some of the message is here; checks that not all of it is. */
  async middle(): Promise<void> {
    while (Atomics.load(this.view, 0) === UNTOUCHED) await setImmediate();
    this.assertIncomplete();
  }

  assertIncomplete(): void {
    assert.equal(Atomics.load(this.view, this.view.length - 1), UNTOUCHED, 'all of the message has come already');
  }

  assertGuards(): void {
    const guard = new Uint8Array(GUARD).fill(UNTOUCHED);
    assertBytes(this.whole.subarray(0, GUARD), guard, 'memory before the receive buffer');
    assertBytes(this.whole.subarray(this.whole.length - GUARD), guard, 'memory behind the receive buffer');
  }
}

const large = (bytes: number): Uint8Array => new Uint8Array(bytes).fill(SENT);

/** Both ways with a rank that lives. */
async function exchange(other: number, number: number): Promise<void> {
  const received = new Uint8Array(200_000);
  const requests = [
    world.irecv(received, other, OTHER),
    world.isend(Uint8Array.from(piece(number, world.rank, other, received.length)), other, OTHER),
  ];
  for (const request of requests) await request;
  assertBytes(received, piece(number, other, world.rank, received.length), `exchange ${number} with rank ${other}`);
}

/** The codes of requests that are to fail, and how long the last of them took. */
async function failures(requests: readonly Request[]): Promise<{ codes: string[]; elapsed: number }> {
  const begin = performance.now();
  const codes: string[] = [];
  for (const request of requests) {
    codes.push(
      await request.then(
        () => 'fulfilled',
        (error: unknown) => {
          assert(error instanceof NbcError, String(error));
          return error.code;
        },
      ),
    );
  }
  return { codes, elapsed: performance.now() - begin };
}

/**
 * Four ranks. 1 sends to 0 and is killed by it; 2 sends to 3, which kills itself. 0 and 2 have messages for each other
 * meanwhile.
 */
async function killed(): Promise<void> {
  const pids = new Uint32Array(world.size);
  await world.igather(Uint32Array.of(process.pid), world.rank === 0 ? pids : null, 0);
  await world.ialltoall(new Uint8Array(world.size), new Uint8Array(world.size));

  const { rank } = world;
  if (rank === 1) {
    await world.isend(large(BYTES), 0, DATA);
    assert.fail('all of the message has been sent');
  }
  if (rank === 3) {
    const target = new Target(BYTES);
    world.irecv(target.view, 2, DATA);
    await target.middle();
    say('in the middle');
    process.kill(process.pid, 'SIGKILL');
  }
  const [victim, other] = rank === 0 ? [1, 2] : [3, 0];
  const target = new Target(BYTES);
  const requests = [
    rank === 0 ? world.irecv(target.view, victim, DATA) : world.isend(large(BYTES), victim, DATA),
    world.irecv(new Uint8Array(8), victim, OTHER),
    world.isend(large(300_000), victim, MORE),
  ];
  if (rank === 0) {
    await target.middle();
    process.kill(pids[1], 'SIGKILL');
  }
  for (let number = 0; number < 5; number++) await exchange(other, number);
  const end = await failures(requests);
  if (rank === 0) target.assertIncomplete();
  target.assertGuards();
  // What is started now fails as well; what needs nobody who is gone does not.
  const later = await failures([
    world.irecv(new Uint8Array(8), victim, MORE),
    world.isend(large(300_000), victim, MORE),
  ]);
  for (let number = 5; number < 10; number++) await exchange(other, number);
  report({ codes: [...end.codes, ...later.codes], elapsed: end.elapsed + later.elapsed });
}

/** Two ranks on two devices. First the link loses everything for a moment, which nobody hears of; then it goes down. */
async function interrupted(): Promise<void> {
  const other = 1 - world.rank;
  await exchange(other, 0);

  const target = new Target(LINK_BYTES);
  const content = piece(7, 1, 0, 1 << 20);
  if (world.rank === 0) {
    interrupt('slow');
    const receive = world.irecv(target.view, 1, DATA);
    await target.middle();
    interrupt('mute');
    try {
      target.assertIncomplete();
      await setTimeout(300); // as long as the interruption lasts: less than the transport tries
      target.assertIncomplete();
    } finally {
      interrupt('free');
    }
    await receive;
    for (let at = 0; at < LINK_BYTES; at += content.length) {
      assertBytes(target.view.subarray(at, at + content.length), content, `from byte ${at}`);
    }
    target.assertGuards();
  } else {
    const message = new Uint8Array(LINK_BYTES);
    for (let at = 0; at < LINK_BYTES; at += content.length) message.set(content, at);
    await world.isend(message, 0, DATA);
  }
  await exchange(other, 1);

  // Where the data come to is told only when the link is slow.
  const again = new Target(LINK_BYTES);
  if (world.rank === 0) interrupt('slow');
  const requests = [
    world.rank === 0 ? world.irecv(again.view, 1, DATA) : world.isend(large(LINK_BYTES), 0, DATA),
    world.irecv(new Uint8Array(8), other, OTHER),
    world.isend(large(300_000), other, MORE),
  ];
  if (world.rank === 0) {
    await again.middle();
    interrupt('down');
  }
  let end: Awaited<ReturnType<typeof failures>>;
  try {
    end = await failures(requests);
  } finally {
    if (world.rank === 0) for (const how of ['up', 'free']) interrupt(how);
  }
  if (world.rank === 0) again.assertIncomplete();
  again.assertGuards();
  // A connection that broke is not made again.
  const receive = world.irecv(new Uint8Array(8), other, OTHER);
  await assert.rejects(async () => receive, UnreachableError);
  report(end);
  // The rank that ends first has closed its world, and the other would hear of that instead.
  const board = process.env['TEST_BOARD']!;
  writeFileSync(join(board, `${world.rank}`), '');
  await until('the other rank has heard of it, too', () => existsSync(join(board, `${other}`)));
}

/** scripts/guest/link */
function interrupt(how: string): void {
  execFileSync(process.env['NBC_TEST_LINK']!, [how]);
}

await play({ killed, interrupted });
await world.close();
