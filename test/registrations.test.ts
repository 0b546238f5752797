/**
 * Over verbs, memory is registered with the network card: what the cache serves, what stats() says about it, and what a
 * rank hears that may not lock as much memory as it needs.
 */
import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { reports, runRanks } from './helpers.js';

describe('registered memory', () => {
  if (process.env['NBC_TRANSPORT'] !== 'verbs') return;
  const nodeOptions = ['--expose-gc'];

  it('is never taken for that of a buffer that was freed, transferred or grown; stats() counts the writes', async () => {
    await runRanks('registrations', { size: 2, args: ['freed', 'transferred', 'grown', 'counters'], nodeOptions });
  });

  it('is bounded: with more buffers than fit, those used least recently leave', async () => {
    await runRanks('registrations', { size: 2, args: ['bounded'], nodeOptions });
  });

  /** Root ignores the limit as long as it has the capability. */
  const mayLock = (kib: number): readonly string[] => [
    ...['prlimit', `--memlock=${kib * 1024}:${kib * 1024}`],
    ...['setpriv', '--bounding-set=-ipc_lock', '--inh-caps=-ipc_lock'],
  ];
  const onlyRankZero = (kib: number) => (rank: number) => (rank === 0 ? mayLock(kib) : []);

  /** How much was wanted (if the test knows it), how much there may be, and what to do. */
  function assertAdvice(text: string, bytes: number | undefined, kib: number): void {
    assert.match(text, new RegExp(`registering ${bytes ?? '\\d+'} bytes .* failed: .* may lock ${kib} KiB`));
    for (const remedy of ['ulimit -l', 'limits.conf', 'LimitMEMLOCK', '--ulimit memlock']) {
      assert(text.includes(remedy), `${remedy}: ${text}`);
    }
  }

  it('that is more than the rank may lock fails what needs it, on both sides, and says how to raise the limit', async () => {
    const results = await runRanks('locked', { size: 2, args: ['buffers'], wrapper: onlyRankZero(2048) });
    const [[exposed, ...plain]] = reports<string[]>(results);
    assertAdvice(exposed, 8 << 20, 2048);
    assert.equal(plain.length, 3);
    for (const text of plain) assertAdvice(text, 8 << 20, 2048);
  });

  for (const { eager, each } of [
    { eager: 'write', each: 128 },
    { eager: 'send', each: 396 },
  ]) {
    it(`grows with the peers that a rank talks with, not with the ranks of the job: ${each} KiB each, eager '${eager}'`, async () => {
      const ready: ChildProcess[] = [];
      let measured = false;
      const results = await runRanks('locked', {
        size: 5,
        args: ['peers'],
        env: { NBC_VERBS_EAGER: eager },
        onLine(line, _rank, child) {
          if (line === 'ready') ready.push(child);
          else if (line === 'measured') measured = true;
          else return;
          if (measured && ready.length === 5) for (const rank of ready) rank.kill('SIGUSR2');
        },
      });
      const [first, ...others] = reports<number[]>(results);
      const withFour = first.at(-1)!;
      // Memory comes in blocks for one peer or more; the first one is there before any.
      assert(first[0] < 2 * each, `${first[0]} KiB without a peer`);
      assert(withFour > 3 * each && withFour <= 5 * each, `${withFour} KiB with four peers`);
      for (const [, one] of others) assert(one < 2 * each, `${one} KiB with one peer`);
    });
  }

  it('that is too little for any connection fails init(), and nobody waits for that rank', async () => {
    const children: ChildProcess[] = [];
    const results = await runRanks('locked', {
      size: 2,
      args: ['opening'],
      wrapper: onlyRankZero(64),
      onLine(line, rank, child) {
        children[rank] = child;
        // Rank 1 reports when all of its requests have failed, with rank 0 still there.
        if (rank === 1 && line.startsWith('report')) children[0].kill('SIGUSR2');
      },
    });
    const [[text]] = reports<string[]>(results);
    // Which part of a connection the card refuses first is the engine's business.
    assertAdvice(text, undefined, 64);
  });
});
