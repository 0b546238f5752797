/**
 * How processes end: in the middle of operations, with an open world, in worker threads; and what keeps them alive.
 */
import assert from 'node:assert/strict';
import { BRIEF, describeJob, modes, type RankResult, reports, runJob, runRanks } from './helpers.js';
import { assertLostPeer } from './support/lost-peer.js';

const LEAVER = 1;
/** The moment of an exit is chance: each scenario is played several times. */
const ROUNDS = BRIEF ? 1 : 3;

interface Left {
  codes: string[];
  /** Milliseconds from the first operation that fails until the last one has. */
  elapsed: number;
}

/**
 * Over a network nobody tells that a process was killed: its peers ask, and it has two seconds to answer. With time for
 * a busy machine.
 */
const HEARD_WITHIN_MS = 15_000;

function assertNoSignal(results: readonly RankResult[]): void {
  assert(
    results.every(({ signal, code }) => signal === null && code !== null && code < 128),
    `a rank crashed or hung\n${describeJob(results)}`,
  );
}

describe('a rank that leaves', () => {
  const scenarios = {
    exitOne: { title: 'by process.exit() in the middle of a collective', code: 7, takesPart: true },
    exitBeforeStart: { title: 'by process.exit() before it takes part', code: 7, takesPart: false },
    throwOne: { title: 'by an uncaught exception', code: 1, takesPart: true },
    closeEarly: { title: 'by close() before it takes part', code: 0, takesPart: false },
    closeWithPending: { title: 'by close() with an operation pending', code: 0, takesPart: true },
  };
  for (const [scenario, { title, code, takesPart }] of Object.entries(scenarios)) {
    for (const mode of modes()) {
      it(`${title} fails the operations of the others that need it, and only those ('${mode}')`, async () => {
        for (let round = 0; round < ROUNDS; round++) {
          const env = { NBC_PROGRESS: mode };
          const options = { size: 3, args: [scenario], env, stopOnFailure: false };
          const results = await runJob('exits', options);
          assertNoSignal(results);
          assert.equal(results[LEAVER].code, code, describeJob(results));
          const others = results.filter(({ rank }) => rank !== LEAVER);
          for (const { codes } of reports<Left>(others)) {
            assertLostPeer(codes, takesPart);
          }
          assert(
            others.every((result) => result.code === 0),
            describeJob(results),
          );
        }
      });
    }
  }
});

describe('a rank that is killed', () => {
  // On shared memory nbcrun notices, and ends the others.
  if (!['verbs', 'tcp', 'ucx'].includes(process.env['NBC_TRANSPORT'] ?? '')) return;
  it('fails the operations of the others that need it, within bounded time', async () => {
    const results = await runJob('exits', { size: 3, args: ['killOne'], stopOnFailure: false });
    assert.equal(results[LEAVER].signal, 'SIGKILL', describeJob(results));
    const others = results.filter(({ rank }) => rank !== LEAVER);
    assertNoSignal(others);
    for (const { codes, elapsed } of reports<Left>(others)) {
      assertLostPeer(codes);
      assert(elapsed < HEARD_WITHIN_MS, `${elapsed} ms until all was known to have failed`);
    }
  });
});

describe('a process', () => {
  for (const mode of modes()) {
    const env = { NBC_PROGRESS: mode };
    const titles = {
      exitAll: 'may exit with operations pending',
      exitInCallback: 'may exit in a callback with operations pending',
      endWithoutClose: 'ends by itself with an open world, if nothing is pending',
      completeDoesNot: 'is not kept alive by operations that have ended, seen or not',
    };
    for (const [scenario, title] of Object.entries(titles)) {
      it(`${title} ('${mode}')`, async () => {
        for (let round = 0; round < ROUNDS; round++) await runRanks('exits', { size: 2, args: [scenario], env });
      });
    }

    it(`is kept alive by a pending request that nobody awaits ('${mode}')`, async () => {
      const ready = new Set<number>();
      const results = await runJob('exits', {
        size: 2,
        args: ['pendingKeepsAlive'],
        env,
        onLine(line, rank, child) {
          if (line.startsWith('report')) return;
          ready.add(rank);
          if (rank === 1) sender = child;
          // Time to end for a process that nothing keeps alive; one that is kept alive passes however long this is.
          if (ready.size === 2) setTimeout(() => sender!.kill('SIGUSR2'), 300);
        },
      });
      const [outcome] = reports<{ done: boolean; byte: number }>(results.slice(0, 1));
      assert.deepEqual(outcome, { done: true, byte: 5 });
      assert.deepEqual(
        results.map(({ code }) => code),
        [0, 0],
        describeJob(results),
      );
    });
    let sender: import('node:child_process').ChildProcess | undefined;

    it(`that waits for a peer hears of its end, and ends ('${mode}')`, async () => {
      const results = await runRanks('exits', { size: 2, args: ['endWithPendingReceive'], env });
      assert.deepEqual(reports<string>(results.slice(0, 1)), ['ERR_NBC_PEER_CLOSED']);
    });
  }

  it('may import the library and do nothing', async () => {
    await runRanks('exits', { size: 2, args: ['neverInitialised'] });
  });
});

describe('worker threads', () => {
  it('can have the world of the process', async () => {
    await runRanks('workers', { size: 2, args: ['inWorker'] });
  });
  it('cannot open a second one, nor can a rank come back to a job that it left', async () => {
    const results = await runRanks('workers', { size: 2, args: ['twoWorlds'] });
    for (const code of reports<string>(results)) assert.match(code, /^ERR_NBC_/);
  });
  for (const scenario of ['terminated', 'terminatedWithAlloc', 'terminatedInWait']) {
    it(`may be terminated in the middle of a collective (${scenario})`, async () => {
      for (let round = 0; round < ROUNDS; round++) {
        const results = await runRanks('workers', { size: 2, args: [scenario] });
        assert.deepEqual(reports<string>(results.slice(0, 1)), ['alive']);
      }
    });
  }
  it('may be terminated while native code throws', async () => {
    await runRanks('workers', { size: 1, args: ['terminatedInErrors'] });
  });
  it('do not hold up the end of the process while they wait', async () => {
    await runRanks('workers', { size: 2, args: ['exitPastWait'] });
  });
  it('may exit in the middle of a collective', async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const results = await runRanks('workers', { size: 2, args: ['workerExits'] });
      assert.deepEqual(reports<number>(results.slice(0, 1)), [3]);
    }
  });
});
