/** What is particular to TCP: its counters, and what many peers cost. */
import assert from 'node:assert/strict';
import { reports, runRanks } from './helpers.js';

const MANY = 32;

interface Report {
  threads: number;
  stats: Record<string, number>;
}

async function star(size: number): Promise<Report[]> {
  return reports(await runRanks('tcp', { size, env: { NBC_TRANSPORT: 'tcp' } }));
}

describe('over TCP', () => {
  let pair: Report[];
  before(async () => {
    pair = await star(2);
  });

  it('stats() counts frames, bytes and connections', () => {
    const [zero, one] = pair.map(({ stats }) => stats);
    assert.equal(zero['connectionsAccepted'] + one['connectionsAccepted'], 1);
    for (const stats of [zero, one]) {
      assert.equal(stats['connections'], 1);
      assert.equal(stats['connectionsRefused'], 0);
      for (const name of ['framesSent', 'framesReceived', 'socketWrites', 'socketReads']) assert(stats[name] > 0, name);
      for (const name of ['bytesSent', 'bytesReceived']) assert(stats[name] > 100_000, name);
      assert(stats['bytesCopied'] < 100_000);
    }
  });

  it(`a rank with ${MANY - 1} peers has as many threads as one with one, and connections to those that it talks to`, async () => {
    const [zero, ...others] = await star(MANY);
    assert.equal(zero.threads, pair[0].threads);
    assert.equal(zero.stats['connections'], MANY - 1);
    for (const { threads, stats } of others) {
      assert.equal(threads, pair[1].threads);
      assert.equal(stats['connections'], 1);
    }
  });
});
