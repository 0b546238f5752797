/** Traces: what ranks write with the option `trace`, and what nbctrace makes of it. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ChromeEvent, ChromeTrace } from '#library/trace/chrome.js';
import { alignClocks, type RankTrace, readTrace } from '#library/trace/merge.js';
import { summarize } from '#library/trace/summary.js';
import { program } from './helpers.js';
import { run } from './support/commands.js';
import { type End, ROOT } from './support/launch.js';

const NBCRUN = join(ROOT, 'dist/cli/nbcrun.js');
const NBCTRACE = join(ROOT, 'dist/cli/nbctrace.js');

describe('traces', () => {
  let folder: string;
  beforeEach(() => (folder = mkdtempSync(join(tmpdir(), 'nbc-test-'))));
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  async function traced(args: string[], env: Record<string, string> = {}): Promise<End> {
    const ended = await run(process.execPath, [NBCRUN, '-n', '2', '--trace', folder, program('trace'), ...args], env);
    assert.equal(ended.code, 0, ended.stderr);
    return ended;
  }
  const traceOf = (rank: number): RankTrace => readTrace(join(folder, `rank-${rank}.json`));

  it('show that an exchange goes on while the program computes', async () => {
    await traced(['overlap', folder]);
    const [first, second] = [traceOf(0), traceOf(1)];
    const calls = first.events.filter(({ ph, tid }) => ph === 'X' && tid === 1);
    const [start, barrier] = calls.filter(({ name }) => name === 'start');
    // Both ranks are on one machine, whose clock they have.
    const [own, ended] = [first, second].map(
      ({ events }) => events.find(({ ph, name }) => ph === 'e' && name.startsWith('ialltoall'))!.ts!,
    );
    const started = start.ts! + start.dur!;
    assert(started < ended, 'it ends after the start');
    assert(ended < barrier.ts!, 'it ends before the next call');
    const { pending, overlapped, operations } = summarize(first);
    assert.equal(operations, 2);
    const least = Math.min(own, barrier.ts!) - started;
    assert(overlapped > least - 1, `${overlapped} of ${pending} µs`);
    assert(overlapped <= pending);
  });

  it('have operations, rounds and messages that begin and end', async () => {
    await traced(['kinds']);
    const traces = [traceOf(0), traceOf(1)];
    for (const { events, metadata } of traces) {
      assert.equal(metadata.leftOut, 0);
      assertBalanced(events);
      const operations = events.filter(({ ph, cat }) => ph === 'b' && cat === 'operation').map(({ name }) => name);
      for (const name of [/^iallreduce \(/, /^ibcast \(/, /^isend$/, /^irecv$/, /^ibarrier \(/, /^schedule$/]) {
        assert(
          operations.some((found) => name.test(found)),
          `${name} in ${operations.join(', ')}`,
        );
      }
      assert.equal(operations.filter((name) => name.startsWith('ibarrier')).length, 3);
      assert(operations.includes('round 1'));
      const failed = events.filter(({ ph, args }) => ph === 'e' && args?.['failed'] === true);
      assert.deepEqual(
        failed.map(({ name }) => name),
        ['irecv'],
      );
    }
    assertArrows(traces);
  });

  it('are written where the process exits with its world open', async () => {
    await traced(['exits']);
    for (const rank of [0, 1]) {
      const barriers = traceOf(rank).events.filter(({ ph, name }) => ph === 'e' && name.startsWith('ibarrier'));
      assert.equal(barriers.length, 1);
    }
  });

  it('leave out what there is no room for, and say so', async () => {
    const { stderr } = await traced(['kinds'], { NBC_TRACE_EVENTS: '5' });
    const { metadata, events } = traceOf(0);
    assert(metadata.leftOut > 0);
    assert(events.length < 30);
    assert.match(stderr, /nbctrace/);
    const { stdout } = await run(process.execPath, [NBCTRACE, folder]);
    assert.match(stdout, new RegExp(`rank 0: no room for ${metadata.leftOut} events more`));
  });

  it('are joined by nbctrace', async () => {
    await traced(['kinds']);
    const { code, stdout, stderr } = await run(process.execPath, [NBCTRACE, folder]);
    assert.equal(code, 0, stderr);
    assert.match(stdout, /^rank +operations +messages +pending +outside calls +progress\n +0 .*\n +1 .*\n/);
    const merged = JSON.parse(readFileSync(join(folder, 'trace.json'), 'utf8')) as ChromeTrace;
    const all = [traceOf(0), traceOf(1)].flatMap(({ events }) => events);
    assert.deepEqual(merged.traceEvents, all);
  });

  it('are drawn by nbctrace', async () => {
    await traced(['overlap', folder]);
    const picture = join(folder, 'picture.svg');
    const { code, stdout, stderr } = await run(process.execPath, [NBCTRACE, folder, '--svg', picture]);
    assert.equal(code, 0, stderr);
    assert.match(stdout, /picture\.svg: the picture$/m);
    const text = readFileSync(picture, 'utf8');
    const bars = (kind: string): { x: number; width: number }[] =>
      [...text.matchAll(new RegExp(`<rect class="${kind}" x="([\\d.]+)" y="\\d+" width="([\\d.]+)"`, 'g'))]
        .map(([, x, width]) => ({ x: Number(x), width: Number(width) }))
        .slice(0, -1); // the last one is in the legend
    const { operations } = summarize(traceOf(0));
    assert.equal(bars('operation').length, operations + summarize(traceOf(1)).operations);
    assert.equal(bars('computes').length, 2);
    // The exchange is pending where no call is.
    const exchange = bars('operation').toSorted((a, b) => b.width - a.width)[0];
    const covered = bars('call').filter(({ x, width }) => x <= exchange.x && x + width >= exchange.x + exchange.width);
    assert.deepEqual(covered, []);
    for (const { x, width } of bars('operation')) assert(x >= 130 && x + width <= 900);
  });

  it('are not drawn where the window has nothing, or is none', async () => {
    await traced(['overlap', folder]);
    for (const [window, error] of [
      ['100000:100001', /there is nothing in this window/],
      ['5:3', /Give two times in milliseconds/],
      ['now', /Give two times in milliseconds/],
    ] as const) {
      const args = [NBCTRACE, folder, '--svg', join(folder, 'none.svg'), '--window', window];
      const { code, stderr } = await run(process.execPath, args);
      assert.equal(code, 1);
      assert.match(stderr, error);
    }
  });

  it('have the rank in their name', async () => {
    const env = { NBC_TRACE: join(folder, 'a.json') };
    const { code, stderr } = await run(process.execPath, [NBCRUN, '-n', '2', program('trace'), 'exits'], env);
    assert.equal(code, 0, stderr);
    for (const rank of [0, 1]) assert.equal(readTrace(join(folder, `a.${rank}.json`)).metadata.rank, rank);
  });

  it('are refused at once where they cannot be written', async () => {
    const env = { NBC_TRACE: join(folder, 'none/a.json') };
    const { code, stderr } = await run(process.execPath, [NBCRUN, '-n', '2', program('trace'), 'exits'], env);
    assert.notEqual(code, 0);
    assert.match(stderr, /OptionError: trace: cannot be written: ENOENT/);
  });

  it('of another run are not mixed with new ones', async () => {
    writeFileSync(join(folder, 'rank-3.json'), '');
    const { code, stderr } = await run(process.execPath, [NBCRUN, '--trace', folder, program('trace'), 'exits']);
    assert.equal(code, 125);
    assert.match(stderr, /--trace .* has traces of another run \(rank-3\.json\)/);
  });

  it('that are none are named by nbctrace', async () => {
    const file = join(folder, 'rank-0.json');
    for (const [text, error] of [
      ['', /rank-0\.json is no trace: /],
      ['null', /rank-0\.json is no trace of one rank/],
      ['{"traceEvents":[]}', /rank-0\.json is no trace of one rank/],
    ] as const) {
      writeFileSync(file, text);
      const { code, stderr } = await run(process.execPath, [NBCTRACE, folder]);
      assert.equal(code, 1);
      assert.match(stderr, error);
    }
    rmSync(file);
    const { code, stderr } = await run(process.execPath, [NBCTRACE, folder]);
    assert.equal(code, 1);
    assert.match(stderr, /has no rank-0\.json/);
  });
});

describe('clocks of machines', () => {
  const metadata = (rank: number, boot: string, epoch = 0): RankTrace['metadata'] => ({
    rank,
    size: 4,
    boot,
    epoch,
    leftOut: 0,
  });
  const end = (ph: 's' | 'f', id: string, ts: number): ChromeEvent => ({ name: '', ph, id, ts, pid: 0, tid: 3 });

  it('are brought together by the shortest messages', () => {
    // The clock of `b` is 1000 ahead of that of `a`, that of `c` 500 behind that of `b`; messages take 10 at least.
    const traces: RankTrace[] = [
      { metadata: metadata(0, 'a'), events: [end('s', '0>1', 100), end('f', '1>0', 330), end('s', '0>1 slow', 150)] },
      {
        metadata: metadata(1, 'b'),
        events: [end('f', '0>1', 1110), end('f', '0>1 slow', 1999), end('s', '1>0', 1320)],
      },
      { metadata: metadata(2, 'b'), events: [end('s', '2>3', 1400), end('f', '3>2', 1510)] },
      { metadata: metadata(3, 'c'), events: [end('f', '2>3', 910), end('s', '3>2', 1000)] },
    ];
    assert.deepEqual(Object.fromEntries(alignClocks(traces)), { a: 0, b: -1000, c: -500 });
  });

  it('that no messages compare are those of the day', () => {
    const traces: RankTrace[] = [
      { metadata: metadata(0, 'a', 5000), events: [end('s', '0>1', 100)] },
      { metadata: metadata(1, 'b', 4000), events: [end('f', '0>1', 1110)] },
    ];
    assert.deepEqual(Object.fromEntries(alignClocks(traces)), { a: 0, b: -1000 });
  });
});

/** Every asynchronous slice ends once, after its beginning; no call lies in another. */
function assertBalanced(events: readonly ChromeEvent[]): void {
  const open = new Map<string, number[]>();
  for (const { ph, cat, id2, name, ts } of events) {
    if (ph !== 'b' && ph !== 'e') continue;
    const key = `${cat} ${id2!.local} ${name}`;
    const begun = open.get(key) ?? [];
    open.set(key, begun);
    if (ph === 'b') begun.push(ts!);
    else assert(begun.pop()! <= ts!, `${key} ends before it begins`);
  }
  for (const [key, begun] of open) assert.deepEqual(begun, [], `${key} does not end`);
  const calls = events.filter(({ ph, tid }) => ph === 'X' && tid === 1);
  calls.slice(1).forEach(({ ts, name }, index) => {
    const before = calls[index];
    assert(ts! >= before.ts! + before.dur!, `${name} in ${before.name}`);
  });
}

/** From every send of one rank an arrow leads to a receive of the other. */
function assertArrows([{ events: a }, { events: b }]: readonly RankTrace[]): void {
  for (const [from, to] of [
    [a, b],
    [b, a],
  ]) {
    const sends = from.filter(({ ph }) => ph === 's');
    assert(sends.length > 0);
    assert.equal(new Set(sends.map(({ id }) => id)).size, sends.length);
    const ends = new Map(to.filter(({ ph }) => ph === 'f').map(({ id, ts }) => [id, ts!]));
    for (const { id, ts } of sends) assert(ts! <= ends.get(id)!, `${id}: ${ts} to ${ends.get(id)}`);
    assert.equal(ends.size, sends.length);
  }
}
