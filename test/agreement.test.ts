/**
 * Ranks that agree while others end: the algorithm by random plays with crashes at every step, in which decisions of
 * ranks that have crashed count, too; then real ranks that are killed.
 */
import assert from 'node:assert/strict';
import { dirname, join } from 'node:path';
import { createRequire } from 'node:module';
import { BRIEF, describeJob, reports, runJob } from './helpers.js';
import { generator } from './support/random.js';
import type { Message, Outcome } from '../src/agreement.js';

const root = dirname(createRequire(import.meta.url).resolve('node-nbc/package.json'));
const { Agreement, Kind, Purpose } = (await import(
  join(root, 'dist/agreement.js')
)) as typeof import('../src/agreement.js');
const { decode, encode } = (await import(join(root, 'dist/survivors.js'))) as typeof import('../src/survivors.js');

const PLAYS = BRIEF ? 4_000 : 30_000;
/** Of one value each, so that the AND says whose values are in it. */
const valueOf = (rank: number): number => ~(1 << rank);

/** One play: ranks, messages in flight from each to each, and crashes in the middle of what a rank sends. */
class Play {
  private readonly random: () => number;
  private readonly size: number;
  private readonly ranks: InstanceType<typeof Agreement>[];
  /** In flight, by sender and receiver, in order; null: the sender has crashed. */
  private readonly flights: (Message | null)[][][];
  private readonly crashed = new Set<number>();
  /** Before anybody began. */
  private readonly absent: number[];
  /** Messages that each rank still sends before it crashes. */
  private readonly sendsLeft: number[];
  private contexts = 0;
  readonly decided = new Map<number, Outcome>();
  crashes = 0;
  /** Of ranks that had decided. */
  lateCrashes = 0;

  constructor(private readonly seed: number) {
    this.random = generator(seed);
    this.size = 1 + this.below(6);
    const each = Array.from({ length: this.size }, (_, rank) => rank);
    // Half of the ranks live: the others crash soon.
    this.sendsLeft = each.map(() => (this.random() < 0.5 ? Infinity : this.below(2 * this.size)));
    this.absent = each.filter(() => this.random() < 0.1);
    this.flights = each.map(() => each.map(() => []));
    const purpose = this.random() < 0.5 ? Purpose.AGREE : Purpose.SHRINK;
    this.ranks = each.map((rank) => {
      const send = (to: number, message: Message): void => this.send(rank, to, message);
      const newContext = (): Outcome['context'] => ({ high: rank + 1, low: ++this.contexts });
      return new Agreement(this.size, rank, purpose, valueOf(rank), { send, newContext });
    });
  }

  run(): void {
    for (const rank of this.absent) this.crash(rank);
    const begin = this.ranks.map((_, rank) => rank).sort(() => this.random() - 0.5);
    const begun = new Set<number>();
    for (;;) {
      // A rank takes part from its call on. What is for it waits.
      if (begin.length > 0 && (this.random() < 0.3 || this.deliverable(begun).length === 0)) {
        const rank = begin.pop()!;
        begun.add(rank);
        this.step(rank, () => this.ranks[rank].begin());
        continue;
      }
      const links = this.deliverable(begun);
      if (links.length === 0) break;
      const [from, to] = links[this.below(links.length)];
      const message = this.flights[from][to].shift()!;
      this.step(to, () => this.take(from, to, message));
    }
    this.check();
  }

  private take(from: number, to: number, message: Message | null): void {
    if (message === null) this.ranks[to].lose(from);
    else this.ranks[to].receive(from, decode(encode(message, this.size)));
  }

  private step(rank: number, action: () => void): void {
    if (this.crashed.has(rank)) return;
    action();
    // The machine goes on in a step in which it has crashed; nobody sees what it does then. What it has decided before
    // its last message left counts.
    const { decision } = this.ranks[rank];
    if (decision !== null && !this.crashed.has(rank)) this.decided.set(rank, decision);
  }

  private send(from: number, to: number, message: Message): void {
    if (this.crashed.has(from)) return;
    const { decision } = this.ranks[from];
    if (decision !== null) this.decided.set(from, decision);
    if (this.sendsLeft[from]-- > 0) this.flights[from][to].push(message);
    else this.crash(from);
  }

  private crash(rank: number): void {
    if (this.crashed.has(rank)) return;
    this.crashed.add(rank);
    this.crashes++;
    if (this.decided.has(rank)) this.lateCrashes++;
    for (const flight of this.flights[rank]) {
      // The last of what was sent may be lost with its sender.
      flight.length = this.below(flight.length + 1);
      flight.push(null);
    }
  }

  private deliverable(begun: Set<number>): [number, number][] {
    const links: [number, number][] = [];
    for (const to of begun) {
      for (let from = 0; from < this.size; from++) {
        if (from === to || this.crashed.has(to) || this.ranks[to].isOver(from)) continue;
        if (this.flights[from][to].length > 0) links.push([from, to]);
      }
    }
    return links;
  }

  private check(): void {
    const what = `seed ${this.seed}, ${this.size} ranks`;
    const [first] = this.decided.values();
    for (const decision of this.decided.values()) assert.deepEqual(decision, first, what);
    for (const [rank, agreement] of this.ranks.entries()) {
      if (this.crashed.has(rank)) continue;
      assert(this.decided.has(rank), `${what}: rank ${rank} waits for ever`);
      const peers = this.ranks.map((_, peer) => peer).filter((peer) => peer !== rank);
      assert(
        peers.every((peer) => agreement.isOver(peer)),
        `${what}: rank ${rank} does not end`,
      );
    }
    if (this.decided.size === 0) return;
    assert(
      first.lost.every((rank) => this.crashed.has(rank)),
      `${what}: a rank that lives counts as lost`,
    );
    assert(
      this.absent.every((rank) => first.lost.includes(rank)),
      `${what}: a rank that is lost is missing`,
    );
    const living = this.ranks.map((_, rank) => rank).filter((rank) => !first.lost.includes(rank));
    assert.equal(
      first.value,
      living.reduce((all, rank) => all & valueOf(rank), -1),
      what,
    );
  }

  private below(limit: number): number {
    return Math.floor(this.random() * limit);
  }
}

describe('the algorithm of an agreement', () => {
  it(`decides the same everywhere, on ranks that crash later, too (${PLAYS} plays)`, () => {
    let [withCrashes, decidedAndCrashed] = [0, 0];
    for (let seed = 1; seed <= PLAYS; seed++) {
      const play = new Play(seed);
      play.run();
      if (play.crashes > 0) withCrashes++;
      if (play.lateCrashes > 0) decidedAndCrashed++;
    }
    assert(withCrashes > PLAYS / 2, `${withCrashes} plays have crashes`);
    assert(decidedAndCrashed > PLAYS / 20, `in ${decidedAndCrashed} plays a rank decides and crashes`);
  });
});

describe('the outcome of an agreement', () => {
  it('leaves out a rank that any rank has lost, and what it wanted', () => {
    const sent: [number, Message][] = [];
    const newContext = (): never => assert.fail('nobody shrinks');
    const coordinator = new Agreement(3, 0, Purpose.AGREE, 0b111, {
      send: (to, message) => void sent.push([to, message]),
      newContext,
    });
    coordinator.begin();
    const wish = { purpose: Purpose.AGREE, context: { high: 0, low: 0 } };
    coordinator.receive(2, { kind: Kind.REPORT, round: 0, outcome: { ...wish, value: 0b001, lost: [] } });
    coordinator.receive(1, { kind: Kind.REPORT, round: 0, outcome: { ...wish, value: 0b110, lost: [2] } });
    const outcome = { ...wish, value: 0b110, lost: [2] };
    const proposal = { kind: Kind.PROPOSE, round: 1, outcome };
    assert.deepEqual(sent, [
      [1, proposal],
      [2, proposal],
    ]);
  });

  it('travels as words, with a bit for each of many ranks', () => {
    const outcome = {
      purpose: Purpose.SHRINK,
      value: -5,
      context: { high: 7, low: 4294967280 },
      lost: [0, 31, 32, 99],
    };
    const message = { kind: Kind.DECIDE, round: 100, outcome };
    assert.deepEqual(decode(encode(message, 100)), message);
  });
});

describe('ranks that are left', function () {
  this.timeout(240_000);

  for (const transport of BRIEF ? ['shm'] : ['shm', 'tcp']) {
    it(`agree, shrink and go on, while others are killed at any point (${transport})`, async () => {
      const size = 6;
      const results = await runJob('agreement', {
        size,
        args: ['killed'],
        env: { NBC_TRANSPORT: transport },
        stopOnFailure: false,
        tellEnds: true,
      });
      const left = results.filter(({ signal }) => signal !== 'SIGKILL');
      assert.equal(left.length, 2, describeJob(results));
      for (const { code } of left) assert.equal(code, 0, describeJob(results));
      const [one, other] = reports<unknown[]>(left);
      assert.deepEqual(one, other);
    });

    it(`agree on a communicator that is revoked, and learn that calls differ (${transport})`, async () => {
      const env = { NBC_TRANSPORT: transport };
      const results = await runJob('agreement', { size: 3, args: ['revoked,different,arguments'], env });
      for (const { code } of results) assert.equal(code, 0, describeJob(results));
    });

    for (const [scenario, title] of [
      ['closed', 'complete what was called before the communicator was closed'],
      ['stuck', 'are not stuck when they close their world'],
    ]) {
      it(`${title} (${transport})`, async () => {
        const results = await runJob('agreement', { size: 3, args: [scenario], env: { NBC_TRANSPORT: transport } });
        for (const { code } of results) assert.equal(code, 0, describeJob(results));
      });
    }
  }
});
