#!/usr/bin/env node
/**
 * How long a small message takes while a large one is on its way between the same two ranks: acknowledgements and
 * requests to send travel as small messages do. Ranks ping-pong, alone and beside 64 MiB; the time that these take is
 * how long a message would wait that is stuck behind them.
 *
 *     nbcrun -n 2 out/bench/tcp/delay.js                           (as root: scripts/slow-link -- nbcrun … for a link
 *                                                                  of 1 Gbit/s)
 */
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { init, testAll, waitAll, type Communicator, type Request } from 'node-nbc';

const HELP = `nbcrun -n 2 out/bench/tcp/delay.js [--seconds N] [--json FILE]

Round trips of 8 bytes alone, while 64 MiB go the same way, and while they go both ways, each for N seconds (5); over TCP, unless NBC_TRANSPORT says otherwise.
`;
const SMALL = 8;
const LARGE = 64 * 2 ** 20;
const WARM_UP = 500;
/** Of the small messages, and of the large ones. */
const TAG = 1;
const LARGE_TAG = 2;

/** Which rank sends the large message: none, the one that pings, both. */
const SITUATIONS = { alone: [], 'same direction': [0], 'both directions': [0, 1] } as const;
type Situation = keyof typeof SITUATIONS;

interface Row {
  transport: string;
  situation: Situation;
  round_trips: number;
  median_us: number;
  p99_us: number;
  longest_us: number;
  /** Of the large messages: how many, and how long one takes. Not beside them: null. */
  large: number;
  large_us: number | null;
}

/** What rank 0 says in a ping. */
const GO_ON = 0;
const BEGIN = 1;
const STOP = 2;

class Ranks {
  readonly #out = new Uint8Array(SMALL);
  readonly #into = new Uint8Array(SMALL);
  readonly #large = [0, 1].map(() => new Uint8Array(LARGE).fill(1));

  constructor(readonly world: Communicator) {}

  /** Rank 0: a round trip, in µs. */
  ping(word: number): number {
    this.#out[0] = word;
    const begin = performance.now();
    const back = this.world.irecv(this.#into, 1, TAG);
    const sent = this.world.isend(this.#out, 1, TAG);
    back.wait();
    const microseconds = (performance.now() - begin) * 1000;
    sent.wait();
    return microseconds;
  }

  /** Rank 1: answers one, and returns what it said. */
  pong(): number {
    this.world.irecv(this.#into, 0, TAG).wait();
    const [word] = this.#into;
    this.world.isend(this.#out, 0, TAG).wait();
    return word;
  }

  /** This rank's part in the large messages of a situation. */
  startLarge(senders: readonly number[]): Request[] {
    const { rank } = this.world;
    return senders.map((sender) =>
      sender === rank
        ? this.world.isend(this.#large[0], 1 - rank, LARGE_TAG)
        : this.world.irecv(this.#large[1], sender, LARGE_TAG),
    );
  }
}

/** Rank 0's side of a situation. */
function measure(ranks: Ranks, transport: string, situation: Situation, seconds: number): Row {
  const senders = SITUATIONS[situation];
  const trips: number[] = [];
  const large: number[] = [];
  const end = performance.now() + seconds * 1000;
  while (performance.now() < end) {
    if (senders.length === 0) {
      trips.push(ranks.ping(GO_ON));
      continue;
    }
    ranks.ping(BEGIN);
    const begin = performance.now();
    const requests = ranks.startLarge(senders);
    // Also the last one, which may have waited until they were through.
    while (!testAll(requests)) trips.push(ranks.ping(GO_ON));
    large.push((performance.now() - begin) * 1000);
  }
  ranks.ping(STOP);
  trips.sort((a, b) => a - b);
  return {
    transport,
    situation,
    round_trips: trips.length,
    median_us: at(trips, 0.5),
    p99_us: at(trips, 0.99),
    longest_us: at(trips, 1),
    large: large.length,
    large_us:
      large.length === 0
        ? null
        : at(
            large.sort((a, b) => a - b),
            0.5,
          ),
  };
}

/** Rank 1's. */
function answer(ranks: Ranks, situation: Situation): void {
  let requests: Request[] = [];
  for (;;) {
    const word = ranks.pong();
    if (word === GO_ON) continue;
    waitAll(requests);
    if (word === STOP) return;
    requests = ranks.startLarge(SITUATIONS[situation]);
  }
}

const at = (sorted: readonly number[], share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN;

function print(rows: readonly Row[]): void {
  const head = [
    'transport',
    '8 bytes beside 64 MiB',
    'round trips',
    'median, µs',
    'p99, µs',
    'longest, µs',
    '64 MiB take, µs',
  ];
  const body = rows.map((row) => [
    row.transport,
    row.situation,
    String(row.round_trips),
    ...[row.median_us, row.p99_us, row.longest_us].map((value) => value.toFixed(1)),
    row.large_us === null ? '–' : row.large_us.toFixed(0),
  ]);
  const widths = head.map((name, i) => Math.max(name.length, ...body.map((cells) => cells[i].length)));
  for (const cells of [head, ...body]) console.log(cells.map((cell, i) => cell.padStart(widths[i])).join('  '));
}

const { values } = parseArgs({
  options: { seconds: { type: 'string', default: '5' }, json: { type: 'string' }, help: { type: 'boolean' } },
});
if (values.help) {
  process.stdout.write(HELP);
  process.exit(0);
}
const seconds = Number(values.seconds);
if (!(seconds > 0)) throw new Error(`--seconds ${values.seconds}: not a number of seconds`);
process.env.NBC_TRANSPORT ??= 'tcp';
const world = await init();
if (world.size !== 2) throw new Error('it takes two ranks: nbcrun -n 2');
const ranks = new Ranks(world);
for (let i = 0; i < WARM_UP; i++) {
  if (world.rank === 0) ranks.ping(GO_ON);
  else ranks.pong();
}
const rows: Row[] = [];
for (const situation of Object.keys(SITUATIONS) as Situation[]) {
  if (world.rank === 0) rows.push(measure(ranks, process.env.NBC_TRANSPORT, situation, seconds));
  else answer(ranks, situation);
}
if (world.rank === 0) {
  print(rows);
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(rows, null, 2)}\n`);
}
await world.close();
