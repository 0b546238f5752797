/**
 * `transport: 'auto'` where ranks are on different hosts, by NBC_HOST: shared memory and a network, verbs or TCP, in
 * one job; and what happens without either. NBC_TEST_DEVICE=1 says that there is one (scripts/test-verbs.mjs).
 */
import assert from 'node:assert/strict';
import type { Network, PeerNetwork } from 'node-nbc';
import { describeJob, type JobOptions, type RankResult, reports, runJob, runRanks } from './helpers.js';

const DEVICE = process.env['NBC_TEST_DEVICE'] === '1';
/** Nobody's device has this name. */
const NO_DEVICE = { NBC_VERBS_DEVICE: 'there-is-none' };

/** Ranks 0 and 1 on host a, 2 and 3 on host b. */
function twoHosts(scenario: string, more: (rank: number) => Environment = () => ({})): JobOptions {
  const env = (rank: number) => ({ NBC_TRANSPORT: 'auto', NBC_HOST: rank < 2 ? 'a' : 'b', ...more(rank) });
  return { size: 4, args: [scenario], env };
}

type Environment = Record<string, string | undefined>;
type Counters = Record<string, number> & { peers: number[]; networks: PeerNetwork[] };

interface Networks {
  name: string;
  /** What each of four ranks counts, of which it has much. */
  moved: string[][];
  /** How many each of four ranks reaches by shared memory, verbs and TCP. */
  peers: number[][];
  more: (rank: number) => Environment;
}

/** Without a shared file of the whole job ranks find each other through the store, and hosts by TCP. */
const THROUGH_STORE = { NBC_JOB_FD: undefined };
const VERBS = 'workRequests';
const TCP = 'framesReceived';
const each = <T>(one: T): T[] => Array.from({ length: 4 }, () => one);

const NETWORKS: Networks[] = [
  { name: 'tcp', moved: each([TCP]), peers: each([1, 0, 2]), more: () => THROUGH_STORE },
  ...(DEVICE
    ? [
        { name: 'verbs', moved: each([VERBS]), peers: each([1, 2, 0]), more: () => ({}) },
        {
          name: 'verbs to all but one rank',
          moved: [[VERBS, TCP], [VERBS, TCP], [VERBS], [TCP]],
          peers: [
            [1, 1, 1],
            [1, 1, 1],
            [1, 2, 0],
            [1, 0, 2],
          ],
          more: (rank: number) => ({ ...THROUGH_STORE, ...(rank === 3 ? NO_DEVICE : {}) }),
        },
      ]
    : []),
];

for (const { name, moved, peers, more } of NETWORKS) {
  describe(`transport 'auto' on two hosts, ${name} between them`, () => {
    it('takes shared memory to the ranks of a host, and the network to the others', async () => {
      const counters = reports<Counters>(await runRanks('mixed', twoHosts('collectives', more)));
      assert.deepEqual(
        counters.map((one) => one.peers),
        peers,
      );
      for (const [rank, { networks }] of counters.entries()) {
        const others = networks.filter((_, other) => other !== rank);
        const by = (name: Network) => others.filter(({ network }) => network === name).length;
        assert.deepEqual([by('shm'), by('verbs'), by('tcp')], peers[rank], JSON.stringify(networks));
        for (const { network, why } of others) assert.equal(network === 'tcp', why?.includes('device') === true, why);
      }
      for (const host of [counters.slice(0, 2), counters.slice(2)]) {
        // Between the two of a host at least 300 001 bytes each way, from alloc() memory and from other; either of them
        // may copy.
        for (const way of ['mappedBytes', 'crossMemoryBytes']) {
          const bytes = host[0][way] + host[1][way];
          assert(bytes >= 600_002, `${bytes} ${way} between the ranks of a host`);
        }
      }
      for (const [rank, names] of moved.entries())
        for (const name of names) assert(counters[rank][name] > 5, `rank ${rank}: ${counters[rank][name]} ${name}`);
    });

    it('sleeps for both, and is woken by both', async () => {
      const [spent] = reports<Record<string, number>>(await runRanks('mixed', twoHosts('waking', more)));
      assert.equal(Object.keys(spent).length, 4);
      // A rank that nobody wakes looks after a second by itself. Eight sleeps, of 20 ms each.
      for (const [what, milliseconds] of Object.entries(spent)) {
        assert(milliseconds < 5_000, `${what}: ${milliseconds} ms`);
      }
    });

    it('runs every algorithm of every operation, on hosts that have ranks in turns', async () => {
      const env = (rank: number) => ({ NBC_TRANSPORT: 'auto', NBC_HOST: rank % 2 === 0 ? 'a' : 'b', ...more(rank) });
      const results = await runRanks('mixed', { size: 5, args: ['algorithms'], env });
      for (const { cases } of reports<{ cases: number }>(results)) assert(cases > 200, `${cases} cases`);
    });

    it('goes on without a rank of the other host that was killed', async () => {
      const results = await runJob('mixed', { ...twoHosts('killed', more), stopOnFailure: false });
      assert.equal(results[2].signal, 'SIGKILL', describeJob(results));
      const others = results.filter(({ rank }) => rank !== 2);
      assertAllEnded(others);
      for (const codes of reports<string[]>(others.slice(0, 2))) {
        assert.deepEqual(codes, Array(5).fill('ERR_NBC_PEER_CLOSED'));
      }
    });
  });
}

describe('collectives on two hosts', () => {
  const run = async (how: string): Promise<[rank: number, { calls: number; framesReceived: number }][]> => {
    const job = { ...twoHosts('leaders', () => THROUGH_STORE), args: ['leaders', how] };
    return [...reports<{ calls: number; framesReceived: number }>(await runRanks('mixed', job)).entries()];
  };

  for (const how of ['all', 'split']) {
    it(`cross the network between leaders only, ${how === 'all' ? 'of all ranks' : 'of a part of the ranks'}`, async () => {
      for (const [rank, { calls, framesReceived }] of await run(how)) {
        // A barrier is a message to each leader.
        if (rank % 2 === 0) assert(framesReceived >= calls / 2, `leader ${rank}: ${framesReceived} frames`);
        else assert(framesReceived < calls / 4, `rank ${rank}: ${framesReceived} frames of ${calls} calls`);
      }
    });
  }

  it('cross it from every rank where the caller says so', async () => {
    for (const [rank, { calls, framesReceived }] of await run('linear')) {
      if (rank > 1) assert(framesReceived >= calls, `rank ${rank}: ${framesReceived} frames of ${calls} calls`);
    }
  });
});

describe("transport 'auto' where no host has a name", () => {
  it('opens nothing of verbs', async () => {
    const env = { NBC_TRANSPORT: 'auto', NBC_HOST: undefined };
    for (const found of reports(await runRanks('mixed', { size: 2, args: ['alone'], env }))) {
      assert.deepEqual(found, { loaded: false, counts: false });
    }
  });
});

describe("transport 'auto' on two hosts without a device", () => {
  if (DEVICE) return;

  for (const progress of ['thread', 'manual']) {
    it(`reaches the ranks of its host, and says why not the others ('${progress}')`, async () => {
      const results = await runRanks(
        'mixed',
        twoHosts('elsewhere', () => ({ ...NO_DEVICE, NBC_PROGRESS: progress })),
      );
      for (const [rank, errors] of reports<{ code: string; message: string }[]>(results).entries()) {
        assert.equal(errors.length, 3);
        for (const { code, message } of errors) {
          // Of the collective a rank may hear from the other one of its host.
          if (code === 'ERR_NBC_ABANDONED' && message.includes('ialltoall')) continue;
          assert.equal(code, 'ERR_NBC_UNREACHABLE');
          const [here, there] = rank < 2 ? ['a', 'b'] : ['b', 'a'];
          const hosts = `is on host '${there}', this rank on host '${here}'`;
          for (const part of [hosts, 'this rank has none (', 'has none. ', 'ibv_devinfo', "transport 'shm'"]) {
            assert(message.includes(part), `no ${part} in: ${message}`);
          }
        }
      }
    });
  }

  it("with 'shm' all ranks are reached whatever their hosts", async () => {
    const results = await runRanks(
      'fallback',
      twoHosts('', () => ({ NBC_TRANSPORT: 'shm' })),
    );
    assert.equal(results.length, 4);
  });

  it('tells both of two ranks whose transports do not agree about their hosts', async () => {
    const env = (rank: number) => ({ ...NO_DEVICE, NBC_HOST: `host ${rank}` });
    const results = await runRanks('mixed', { size: 2, args: ['twoWays'], env });
    assert.deepEqual(reports<string>(results), ['ERR_NBC_UNREACHABLE', 'ERR_NBC_UNREACHABLE']);
  });

  it('refuses a name of a host that is too long', async () => {
    const env = { NBC_HOST: 'h'.repeat(128) };
    const [result] = await runJob('mixed', { size: 1, args: ['alone'], env });
    assert.equal(result.code, 1);
    assert.match(result.stderr, /OptionError: NBC_HOST: must have at most 127 bytes, not 128/);
  });
});

function assertAllEnded(results: readonly RankResult[]): void {
  assert(
    results.every(({ code }) => code === 0),
    describeJob(results),
  );
}
