/** The look-up of plans, where shapes have large numbers. */
import assert from 'node:assert/strict';
import { type Data, strided } from 'node-nbc';
import { Role, Schedule, type Shape } from 'node-nbc/schedules';
import { playEach, runRanks } from './helpers.js';

const { OwnPlans, PlanCache } = (await import(
  new URL('../../dist/plans.js', import.meta.url).href
)) as typeof import('../src/plans.js');

const { RecentParts } = (await import(
  new URL('../../dist/operations/recent-parts.js', import.meta.url).href
)) as typeof import('../src/operations/recent-parts.js');

/** The communicator that plans belong to. */
const ownerOf = (native: object, size = 2) => ({
  ...{ rank: 0, size, hosts: undefined, crowded: false, handle: 0, world: { rank: 0, native } },
  requireOpen() {},
});

const dataOf = ({ buffer, byteOffset, byteLength }: Uint8Array): DataView =>
  new DataView(buffer, byteOffset, byteLength);

describe('plans', () => {
  it('of shapes that a number below 2^53 cannot tell apart are apart, and each is kept', () => {
    let plans = 0;
    const native = { compile: () => plans++, releasePlan: () => undefined };
    // Many ranks instead of large buffers.
    const owner = ownerOf(native, 2 ** 50);
    const shape = (call: { root: number; shape(bytes: number): Shape }): Shape => call.shape(64);
    const algorithms = [{ name: 'one', build: () => new Schedule() }];
    const operation = { name: 'itest', parameters: ['buffer', 'root'], algorithms, shape, choose: () => 'one' };
    const cache = new PlanCache(owner as never, operation as never);
    const planOf = (root: number): number => cache.find(null, new Uint8Array(64), root, [], undefined);
    const roots = [0, 1, 2, 3, 1000];
    const found = roots.map(planOf);
    assert.equal(new Set(found).size, roots.length);
    assert.deepEqual(roots.map(planOf), found);
  });

  it('are bound to small views that come again, and each handle is given back once', () => {
    const alive = new Set<number>();
    let made = 0;
    const add = (): number => {
      alive.add(++made);
      return made;
    };
    const native = {
      compile: add,
      bindPlan: (plan: number) => (assert(alive.has(plan)), add()),
      releasePlan: (plan: number) => assert(alive.delete(plan), `plan ${plan} is given back once`),
    };
    const owner = ownerOf(native);
    const algorithms = [{ name: 'one', build: () => new Schedule() }];
    const shape = (call: { recv: Uint8Array; shape(bytes: number): Shape }): Shape => call.shape(call.recv.length);
    const operation = { name: 'itest', parameters: ['buffer'], algorithms, shape, choose: () => 'one' };
    const cache = new PlanCache(owner as never, operation as never);
    const find = (recv: Uint8Array): number => cache.find(null, recv, 0, [], undefined);
    const times = (count: number, recv: () => Uint8Array): Set<number> =>
      new Set(Array.from({ length: count }, () => find(recv())));

    assert.equal(times(50, () => new Uint8Array(8)).size, 1, 'new views each time');
    assert.equal(alive.size, 1);
    const turns = Array.from({ length: 4 }, () => new Uint8Array(8));
    for (const view of turns) times(30, () => view);
    assert.deepEqual(
      turns.map(find).map((plan) => alive.has(plan)),
      [true, true, true, true],
    );
    assert.equal(new Set(turns.map(find)).size, 4);
    assert.equal(alive.size, 5);
    let next = 0;
    times(200, () => turns[next++ % 3]);
    assert.equal(alive.size, 5);
    // A fifth one takes the place of the first.
    const fifth = new Uint8Array(8);
    assert.equal(times(30, () => fifth).size, 2);
    assert.equal(alive.size, 5);
    // In large memory they are not held, however small they are.
    const part = new Uint8Array(100_000).subarray(0, 8);
    assert.equal(times(50, () => part).size, 1);
    // A new plan may need the place of another one: all are bound anew.
    find(new Uint8Array(16));
    assert.equal(alive.size, 2);
    const [plan] = times(1, () => fifth);
    times(30, () => fifth);
    assert.notEqual(find(fifth), plan);
    structuredClone(fifth.buffer, { transfer: [fifth.buffer] });
    find(fifth);
    cache.release();
    assert.equal(alive.size, 0);
  });

  it('of calls that name an algorithm are remembered, each for its name', () => {
    let plans = 0;
    let looked = 0;
    const native = { compile: () => plans++, releasePlan: () => undefined, bindPlan: () => -1 };
    const owner = ownerOf(native);
    const algorithms = ['one', 'other'].map((name) => ({ name, build: () => new Schedule() }));
    const shape = (call: { shape(bytes: number): Shape }): Shape => (looked++, call.shape(8));
    const operation = { name: 'itest', parameters: ['buffer'], algorithms, shape, choose: () => 'one' };
    const cache = new PlanCache(owner as never, operation as never);
    const recv = new Uint8Array(8);
    const names = [undefined, 'one', 'other'];
    const planOf = (algorithm: string | undefined): number => cache.find(null, recv, 0, [], { algorithm });
    for (const name of names) planOf(name); // a plan that is compiled makes the cache forget
    const found = names.map(planOf);
    assert.equal(new Set(found).size, names.length);
    looked = 0;
    for (let i = 0; i < 20; i++) assert.deepEqual(names.map(planOf), found);
    assert.equal(looked, 0);
    assert.throws(() => planOf('none'), { code: 'ERR_NBC_ARGUMENT' });
  });

  it('of exchanges of parts, too', () => {
    const parts = new RecentParts({ bindPlan: () => -1, releasePlan: () => undefined });
    const lists = [0, 1].map(() => [new Uint8Array(new ArrayBuffer(8), 0, 8)]);
    const [sends, recvs] = lists;
    const placement = { send: dataOf(sends[0]), recv: dataOf(recvs[0]), copied: null };
    for (const [plan, name] of [undefined, 'one', 'other'].entries())
      parts.remember(sends, recvs, placement as never, name, plan);
    // Once by form, then by the very views.
    for (let i = 0; i < 4; i++) {
      const found = [undefined, 'one', 'other', 'none'].map((name) => parts.find(sends, recvs, name)?.plan);
      assert.deepEqual(found, [0, 1, 2, undefined]);
    }
  });

  it('of own schedules are apart where layouts differ, and those of no use any more are forgotten', () => {
    const alive = new Set<number>();
    let made = 0;
    const native = {
      compile() {
        alive.add(++made);
        return made;
      },
      releasePlan: (plan: number) => assert(alive.delete(plan), `plan ${plan} is given back once`),
    };
    const owner = ownerOf(native);
    const plans = new OwnPlans(owner as never);
    const find = (schedule: Schedule, send: Data, recv: Data): number =>
      plans.find(schedule as never, send as never, recv as never);
    const [grows, stays] = [0, 1].map(() => new Schedule().copy(Role.SEND, 0, Role.RECEIVE, 0, 8).round());
    const recv = new Uint8Array(8);
    const layout = (stride: number) => strided(new Uint8Array(4000), { shape: [8], strides: [stride] });
    const all = (schedule: Schedule): number[] => [
      find(schedule, recv, recv),
      find(schedule, layout(2), recv),
      find(schedule, recv, layout(2)),
      find(schedule, layout(3), recv),
      find(schedule, layout(3), layout(2)),
    ];
    const [first, other] = [all(grows), all(stays)];
    assert.deepEqual(new Set([...first, ...other]), alive);
    assert.equal(alive.size, 10);
    assert.deepEqual([all(grows), all(stays)], [first, other], 'each is kept');
    // A layout without gaps needs no packing.
    assert.equal(find(grows, layout(1), recv), first[0]);

    grows.copy(Role.SEND, 0, Role.TEMP, 0, 8).round();
    const plain = find(grows, recv, recv);
    assert.deepEqual(alive, new Set([plain, ...other]), 'of the shorter schedule none is left');
    const longer = all(grows);
    assert.deepEqual(alive, new Set([...longer, ...other]));
    assert.equal(longer[0], plain);
    assert.throws(() => find(grows, layout(2), strided(recv, { shape: [4], strides: [2] })));
    assert.deepEqual(alive, new Set([...longer, ...other]), 'nothing is left of what was refused');

    // Room for 256: those of the oldest schedule go first.
    const many = Array.from({ length: 250 }, (_, i) => find(grows, layout(4 + i), recv));
    assert.deepEqual(alive, new Set([...longer, ...many, other[4]]));
    const again = find(stays, recv, recv);
    assert.deepEqual(alive, new Set([...longer, ...many, again]));
    plans.release();
    assert.equal(alive.size, 0);
    assert(find(stays, recv, recv) > again, 'it is compiled again');
  });

  describe('a call that is remembered', () =>
    playEach(
      [
        [
          'notices counts and displacements that changed, and takes more shapes in turns than it remembers',
          'counts',
          3,
        ],
        ['refuses wrong counts after right ones, naming them', 'refused', 3],
        ['notices parts that moved, in their memory or to another one', 'parts', 3],
        ['notices parts of another form: strides, no part, in place', 'forms', 3],
        ['notices parts that moved where nothing is exchanged', 'alone', 3],
        ['refuses memory that is detached, resizable or overlaps, after a call that was right', 'memory', 3],
        ['notices changes in lists of the very same views, and memory that went away', 'same', 3],
        ['is told from others with the very same views', 'views', 3],
        ['notices that the memory of the very same views has gone away', 'gone', 3],
        ['is forgotten when the communicator is closed', 'closed', 3],
      ],
      (args, size) => runRanks('remembered', { size, args: [args], nodeOptions: ['--expose-gc'] }),
    ));
});
