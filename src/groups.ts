/**
 * How new communicators come into being.
 *
 * The members of a new communicator must agree on its context id, and no other may have the same one. So rank 0 of the
 * parent chooses it: its own world rank (+ 1; the world itself has 0) in the high word, a counter of its own in the low
 * word. No two ids of a job can be equal, without anybody keeping a list.
 *
 * What must be agreed travels on a *control* communicator, which every communicator has for this, in a context next to
 * its own. So dup and split disturb no operation of the user and need not be ordered with them. Among themselves they
 * run one after the other, in the order of the calls, which is the same on all ranks.
 *
 * Source: MPI 3.1, 6.4.2 (MPI_Comm_dup, MPI_Comm_split).
 */
import { ArgumentError, show } from './errors.js';
import type { Compound } from './signatures.js';
import type { Agreeing } from './topologies.js';

/** A 64-bit id, as two words. */
export interface Context {
  high: number;
  low: number;
}

/** What dup and split need of the control communicator. */
interface Control extends Agreeing {
  readonly world: { newContext(): Context };
  begin(compound: Compound): void;
  ibcast(buffer: ArrayBufferView, root: number): PromiseLike<void>;
  igather(send: ArrayBufferView, recv: ArrayBufferView | null, root: number): PromiseLike<void>;
}

/** What dup and split need of the communicator that they divide. */
interface Parent {
  readonly rank: number;
  readonly members: Uint32Array;
  readonly world: { readonly rank: number };
  readonly control: Control;
  /** The last dup or split that was called. */
  lastControl: Promise<unknown>;
}

/** Rank that chooses ids and groups. */
const ROOT = 0;

const INT32_MAX = 2 ** 31 - 1;
const INT32_MIN = -(2 ** 31);

/** Makes a communicator. */
export type Derive<Child> = (members: Uint32Array, rank: number, context: Context) => Child;

export function duplicate<Child>(parent: Parent, derive: Derive<Child>): Promise<Child> {
  return inOrder(parent, 'dup', async (control) => {
    return derive(parent.members, parent.rank, await agreeOnContext(control));
  });
}

/**
 * A communicator of the first `ranks` ranks, with a topology; null for the others.
 *
 * @param disagreement why the ranks cannot make it: on all of them, or on none
 */
export async function connect<Child>(
  parent: Parent,
  operation: Compound,
  ranks: number,
  disagreement: (control: Agreeing) => Promise<ArgumentError | null>,
  derive: Derive<Child>,
): Promise<Child | null> {
  const made = await inOrder(parent, operation, async (control) => {
    const error = await disagreement(control);
    if (error !== null) return error;
    const context = await agreeOnContext(control);
    return parent.rank < ranks ? derive(parent.members.slice(0, ranks), parent.rank, context) : null;
  });
  if (made instanceof ArgumentError) throw made;
  return made;
}

async function agreeOnContext(control: Control): Promise<Context> {
  const id = new Uint32Array(2);
  if (control.rank === ROOT) writeNewContext(control, id);
  await control.ibcast(id, ROOT);
  return { high: id[0], low: id[1] };
}

export async function splitByColor<Child>(
  parent: Parent,
  color: number | undefined,
  key: number,
  derive: Derive<Child>,
): Promise<Child | null> {
  const context = { operation: 'split', rank: parent.world.rank };
  if (color !== undefined && !(Number.isInteger(color) && color >= 0 && color <= INT32_MAX)) {
    const message = `must be undefined or a whole number from 0 to ${INT32_MAX}, not ${show(color)}`;
    throw new ArgumentError('color', message, context);
  }
  if (!(Number.isInteger(key) && key >= INT32_MIN && key <= INT32_MAX)) {
    throw new ArgumentError('key', `must be a 32-bit whole number, not ${show(key)}`, context);
  }
  return inOrder(parent, 'split', async (control) => {
    const wish = Int32Array.of(color ?? NO_COLOR, key);
    const wishes = control.rank === ROOT ? new Int32Array(2 * control.size) : null;
    await control.igather(wish, wishes, ROOT);

    // The id of the new context (groups that have no member in common can share one), then a Place of every rank.
    const answer = new Int32Array(2 + 2 * control.size);
    if (wishes !== null) {
      writeNewContext(control, answer);
      answer.set(assignPlaces(wishes), 2);
    }
    await control.ibcast(answer, ROOT);

    const places = answer.subarray(2);
    const own = places[2 * parent.rank];
    if (own === NO_COLOR) return null;
    const members: number[] = [];
    for (const [rank, worldRank] of parent.members.entries()) {
      if (places[2 * rank] === own) members[places[2 * rank + 1]] = worldRank;
    }
    const id = { high: answer[0] >>> 0, low: answer[1] >>> 0 };
    return derive(Uint32Array.from(members), places[2 * parent.rank + 1], id);
  });
}

/** The color of those that want to be in no group. */
const NO_COLOR = -1;

/** From (color, key) of every rank to (color, rank in the group) of every rank: by key, and then by old rank. */
export function assignPlaces(wishes: Int32Array): Int32Array {
  const places = wishes.slice();
  const ranks = Array.from({ length: wishes.length / 2 }, (_, rank) => rank);
  ranks.sort((a, b) => wishes[2 * a + 1] - wishes[2 * b + 1] || a - b);
  const sizes = new Map<number, number>();
  for (const rank of ranks) {
    const color = wishes[2 * rank];
    const place = sizes.get(color) ?? 0;
    places[2 * rank + 1] = place;
    sizes.set(color, place + 1);
  }
  return places;
}

function writeNewContext(control: Control, target: Int32Array | Uint32Array): void {
  const { high, low } = control.world.newContext();
  target[0] = high;
  target[1] = low;
}

/**
 * Runs a task when all earlier ones of this communicator have ended. One that fails leaves the ranks out of step: later
 * ones fail too, with its error.
 */
function inOrder<T>(parent: Parent, operation: Compound, task: (control: Control) => Promise<T>): Promise<T> {
  const result = parent.lastControl.then(() => {
    parent.control.begin(operation);
    return task(parent.control);
  });
  parent.lastControl = result;
  // The caller has the same promise; this one must not be reported as unhandled as well.
  result.catch(() => undefined);
  return result;
}
