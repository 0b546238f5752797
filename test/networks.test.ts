/**
 * A job across two network stacks with a link between them, as two machines have: ranks 0 and 1 on one side, 2 and 3 on
 * the other, and nothing tells them so. Then the link goes.
 */
import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { inFull, type JobOptions, type RankResult, reports, runRanks, skip } from './helpers.js';
import { TwoNetworks } from './support/networks.js';

const SIZE = 4;
const STORE_PORT = 4711;
/**
 * A machine is given up after 10 s of silence, and connections that are being made after as long; a failed operation
 * follows another.
 */
const NOTICED_S = 60;

interface Failure {
  what: string;
  code: string;
  message: string;
}

describe('a job across two network stacks', () => {
  let networks: TwoNetworks | undefined;

  beforeEach(async function () {
    const made = await TwoNetworks.make();
    if (typeof made === 'string') skip(this, made);
    networks = made;
  });
  afterEach(() => networks?.remove());

  const sideOf = (rank: number): number => rank >> 1;

  function run(scenario: string, more: Partial<JobOptions> = {}): Promise<RankResult[]> {
    const env = {
      NBC_TRANSPORT: 'auto',
      NBC_STORE: `${networks!.addresses[0]}:${STORE_PORT}`,
      NBC_JOB_FD: undefined,
      NBC_HOST: undefined,
      NBC_TCP_ADDRESS: undefined,
    };
    const wrapper = (rank: number): string[] => networks!.wrapper(sideOf(rank));
    return runRanks('networks', { size: SIZE, args: [scenario], env, wrapper, ...more });
  }

  /** Cuts the link as soon as all ranks are ready, and tells those that have asked for it. */
  async function runAndCut(scenario: string, signal?: NodeJS.Signals): Promise<Failure[][]> {
    const ready: ChildProcess[] = [];
    const onLine = (line: string, _: number, child: ChildProcess): void => {
      if (line !== 'ready' || ready.push(child) < SIZE) return;
      networks!.cut();
      if (signal !== undefined) for (const each of ready) each.kill(signal);
    };
    return reports(await run(scenario, { onLine, limitS: NOTICED_S }));
  }

  function assertUnreachable(failures: Failure[], expected: string[], rank: number): void {
    assert.deepEqual(
      failures.map(({ what, code }) => `${what}: ${code}`),
      expected.map((what) => `${what}: ERR_NBC_UNREACHABLE`),
      `rank ${rank}: ${JSON.stringify(failures)}`,
    );
    for (const { what, message } of failures) assert.match(message, /rank \d/, `${what} says which rank: ${message}`);
  }

  it('shares memory on each side, and crosses by TCP', async () => {
    const found = reports<{ stats: Record<string, number>; listeners: string[] }>(await run('together'));
    for (const [rank, { stats, listeners }] of found.entries()) {
      assert(stats['framesReceived'] > 20, `rank ${rank}: ${stats['framesReceived']} frames`);
      assert(stats['bytesReceived'] > 2 * 2 * 300_001, `rank ${rank}: ${stats['bytesReceived']} bytes`);
      const own = networks!.addresses[sideOf(rank)];
      assert(listeners.length >= 2, `rank ${rank} sees ${listeners.length} listeners of two ranks`);
      assert.deepEqual([...new Set(listeners)], [own], `rank ${rank}: who listens where`);
    }
    for (const side of [found.slice(0, 2), found.slice(2)]) {
      const [zero, one] = side.map(({ stats }) => stats);
      // Either of two may copy what goes between them.
      for (const way of ['mappedBytes', 'crossMemoryBytes']) {
        const bytes = zero[way] + one[way];
        assert(bytes >= 600_002, `${bytes} ${way} between the ranks of a side`);
      }
    }
  });

  inFull('fails what needs the other side when the link goes, and goes on within each', async () => {
    networks!.limit('200mbit');
    const failures = await runAndCut('cut');
    const after = ['irecv of 8 bytes', 'isend of 100 kB', 'ialltoall'];
    const bulk = ['irecv of 64 MiB', 'isend of 64 MiB'];
    for (const [rank, own] of failures.entries()) {
      assertUnreachable(own, [...(rank % 2 === 0 ? ['irecv of 8 bytes'] : bulk), ...after], rank);
    }
  });

  inFull('fails what needs the other side if the link goes before ranks have connected', async () => {
    const failures = await runAndCut('cutBeforeTheFirst', 'SIGUSR2');
    for (const [rank, own] of failures.entries()) {
      assertUnreachable(own, ['irecv of 8 bytes', 'isend of 100 kB', 'ialltoall'], rank);
    }
  });
});
