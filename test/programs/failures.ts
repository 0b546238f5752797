/**
 * Operations that fail on one rank, all collectives with all of their algorithms at once: see failures.test.ts.
 * Arguments: what happens on that rank, and which rank it is.
 */
import assert from 'node:assert/strict';
import {
  AbandonedError,
  type Communicator,
  createOp,
  ExhaustedError,
  init,
  MismatchError,
  NbcError,
  type Op,
  OperatorError,
  PeerLostError,
  type Request,
  RevokedError,
  SUM,
  SystemError,
  TimeoutError,
} from 'node-nbc';
import { type Algorithm, OPERATIONS, Role, type Schedule } from 'node-nbc/schedules';
import { arrange, callOperation, type Case, contribution, ORACLES } from '../oracle.js';
import { assertBytes, piece } from './noise.js';
import { report } from './scenario.js';

export type Cause = 'killed' | 'memory' | 'mismatch' | 'operator' | 'revoked' | 'temporary';
const cause = process.argv[2] as Cause;
const victim = Number(process.argv[3]);

/** A failure must not hang; this is what a very busy machine may need. */
const LIMIT_MS = Number(process.env['NBC_TEST_LIMIT_MS'] ?? 30_000);
const COUNTS = [8, 20_000, 300_000];
/** Neighbours are not all ranks: topologies.test.ts has those. */
const COLLECTIVES = OPERATIONS.filter(({ name }) => !name.includes('eighbor'));
/** Those whose schedules depend on nothing but the rank, the root and the size of a block. */
const SIMPLE = ['ibarrier', 'ibcast', 'iscatter', 'igather', 'iallgather', 'ialltoall'];
/** More bytes than a process has addresses. */
const TOO_MUCH = 2 ** 47;

const world = await init();
const { rank, size } = world;
const isVictim = rank === victim;

/** On the rank where it fails, the function throws when it is first called; elsewhere it computes what SUM does. */
const failing = createOp(
  (a: Uint8Array, b: Uint8Array) => {
    if (isVictim) throw new Error('thrown on purpose');
    for (let i = 0; i < b.length; i++) b[i] += a[i];
  },
  { commutative: true },
);

/** What no other rank calls. */
function callOther(comm: Communicator, name: string): Request {
  return name === 'ibarrier' ? comm.ibcast(new Uint8Array(8), victim) : comm.ibarrier();
}

/** The schedule of an algorithm, which on the rank where it fails needs more temporary memory than there is. */
function scheduleOf(algorithm: Algorithm, { root, count }: Case): Schedule {
  const schedule = algorithm.build({ rank, size, root, bytes: count, inPlace: false });
  return isVictim ? schedule.round().copy(Role.TEMP, 0, Role.TEMP, TOO_MUCH, 8) : schedule;
}

/** Milliseconds, on the same clock in all processes of the machine. */
function now(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/** Whether an error says what has happened, and where. */
function names(error: unknown, what: string): boolean {
  assert(error instanceof NbcError && !(error instanceof TimeoutError), `${what}: ${String(error)}`);
  const own: Record<Cause, boolean> = {
    killed: error instanceof PeerLostError && error.peer === victim,
    // Where it has none for the data on their way, both ends fail.
    memory:
      (isVictim && error instanceof ExhaustedError) ||
      (error instanceof SystemError && (isVictim || error.peer === victim)) ||
      (error instanceof AbandonedError && error.reason === 'ERR_NBC_SYSTEM'),
    mismatch: error instanceof MismatchError,
    operator: isVictim && error instanceof OperatorError,
    revoked: error instanceof RevokedError,
    temporary: isVictim && error instanceof ExhaustedError,
  };
  // Every rank learns which calls differ.
  if (own[cause] || cause === 'mismatch') return own[cause];
  return error instanceof AbandonedError && error.origin === victim && !isVictim;
}

/** What a rank contributes to an operation, where one of them has something else. */
const input =
  (number: number, changed = -1) =>
  (from: number, length: number): Uint8Array =>
    piece(number, from, from === changed ? 1 : 0, length);

const operations = [];
for (const row of COLLECTIVES) {
  const reduces = row.parameters.includes('op');
  if (cause === 'operator' && !reduces) continue;
  if (cause === 'temporary' && !SIMPLE.includes(row.name)) continue;
  for (const algorithm of [undefined, ...row.algorithms]) {
    if (cause === 'temporary' && algorithm === undefined) continue;
    for (const count of row.name === 'ibarrier' ? [0] : COUNTS) {
      const number = operations.length;
      // The computed result of a function of the program's own is that of SUM.
      const c: Case = { size, root: number % size, count, inPlace: false, gaps: false, op: SUM };
      const oracle = ORACLES[row.name];
      const lengthOf = (from: number): number => oracle.send(c, from) ?? oracle.recv(c, from) ?? 0;
      const resultWith = (changed?: number): Uint8Array | null => {
        const { recv } = arrange(oracle, c, rank, (length) => new Uint8Array(length).fill(0xee));
        if (recv !== null) oracle.result(c, rank, (from) => input(number, changed)(from, lengthOf(from)), recv);
        return recv;
      };
      const callOf = (op: Op): { start: (comm: Communicator) => Request; recv: Uint8Array | null } => {
        const part = arrange(oracle, { ...c, op }, rank, (length) => new Uint8Array(length).fill(0xee));
        const own = contribution(oracle, c, rank, part);
        own?.set(input(number)(rank, own.length));
        const { send, recv } = part;
        if (cause === 'temporary') {
          const schedule = scheduleOf(algorithm as Algorithm, c);
          return { start: (comm) => comm.start(schedule, send, recv), recv };
        }
        const args = [...part.args, ...(algorithm === undefined ? [] : [{ algorithm: algorithm.name }])];
        return { start: (comm) => callOperation(comm, row.name, args), recv };
      };
      const expected = resultWith();
      const changed = resultWith(victim);
      const needs = row.name === 'ibarrier' || (expected !== null && Buffer.compare(expected, changed!) !== 0);
      const what = `${row.name} ${algorithm?.name ?? 'chosen'} ${count}, root ${c.root}, on rank ${rank}`;
      operations.push({ name: row.name, ...callOf(cause === 'operator' ? failing : SUM), expected, needs, what });
    }
  }
}
const comms = await Promise.all(operations.map(() => world.dup()));
world.ibarrier().wait();

if (isVictim && cause === 'killed') {
  report({ ended: now() });
  process.kill(process.pid, 'SIGKILL');
}
const differs = isVictim && cause === 'mismatch';
const started: { request?: Request; error?: Error }[] = operations.map(({ name, start }, i) => {
  try {
    if (differs) return { request: callOther(comms[i], name) };
    return { request: start(comms[i]) };
  } catch (error) {
    return { error: error as Error };
  }
});
if (isVictim && cause === 'revoked') for (const comm of comms) comm.revoke();

let [failed, completed, ended] = [0, 0, 0];
for (const [i, { what, needs, expected, recv }] of operations.entries()) {
  const { request } = started[i];
  let { error } = started[i];
  try {
    request?.wait(LIMIT_MS);
  } catch (thrown) {
    error = thrown as Error;
  }
  if (error === undefined) {
    completed++;
    // Where another thing happened, the victim's part may have left before it.
    assert(cause !== 'killed' || !needs, `${what} completed without rank ${victim}`);
    if (expected !== null && !differs) assertBytes(recv!, expected, what);
  } else {
    failed++;
    ended = now();
    assert(names(error, what), `${what}: ${String(error)}`);
  }
}
// A rank that ends is lost to those that are not done.
const rest = cause === 'killed' ? await world.shrink() : world;
rest.ibarrier().wait();
// Some calls that differ need nothing of each other.
await world
  .close()
  .catch((error: unknown) => assert(cause === 'mismatch' && error instanceof MismatchError, String(error)));
report({ failed, completed, ended });
