/**
 * Which networks ranks of several hosts choose, from what each tells about its device.
 */
import assert from 'node:assert/strict';
import type { VerbsOffer } from '../src/native.js';

const dist = (file: string): string => new URL(`../../dist/transport/${file}`, import.meta.url).href;
const { chooseNetworks, describeWays } = (await import(
  dist('network.js')
)) as typeof import('../src/transport/network.js');
const { resolveOptions } = (await import(dist('options.js'))) as typeof import('../src/transport/options.js');

type Ways = Awaited<ReturnType<typeof chooseNetworks>>;

/** What all ranks find. An offer is the name of a network; equal names reach each other. */
async function agreed(
  hosts: number[],
  offers: VerbsOffer[],
  environment: Record<string, string> = {},
): Promise<{ networks: Ways[]; turns: number[]; devices: unknown[] }> {
  const turns: number[] = [];
  const devices: unknown[] = [];
  const told = new Map<string, { values: unknown[]; all: Promise<void>; done: () => void; count: number }>();
  const exchange = async (rank: number, name: string, mine: unknown): Promise<unknown[]> => {
    if (!told.has(name)) {
      let done!: () => void;
      const all = new Promise<void>((resolve) => (done = resolve));
      told.set(name, { values: [], all, done, count: 0 });
    }
    const entry = told.get(name)!;
    entry.values[rank] = mine;
    if (++entry.count === hosts.length) entry.done();
    await entry.all;
    return entry.values;
  };
  const networks = hosts.map((_, rank) => {
    const directory = {
      rank,
      size: hosts.length,
      localAddress: undefined,
      key: undefined,
      exchange: (name: string, mine: unknown) => exchange(rank, name, mine),
    };
    const native = {
      verbsOffer: (options: Record<string, unknown>, turn: number) => {
        turns[rank] = turn;
        devices[rank] = options['verbs.device'];
        return offers[rank];
      },
      whyNotByVerbs: (mine: string, theirs: string, peer: string, device: string) =>
        mine === theirs ? '' : `${peer} is in ${theirs}, and ${device} in ${mine}`,
    };
    return chooseNetworks(native, directory, hosts, resolveOptions({}, environment));
  });
  return { networks: await Promise.all(networks), turns, devices };
}

const on = (offer: string): VerbsOffer => ({ device: 'mlx5_0', offer });

describe('the networks between hosts', () => {
  it('are verbs where all reach each other by them', async () => {
    const { networks, turns } = await agreed([0, 1, 0, 1], [on('a'), on('a'), on('a'), on('a')]);
    assert.deepEqual(networks[0], { ways: ['none', 'verbs', 'none', 'verbs'], reasons: ['', '', '', ''] });
    assert.deepEqual(turns, [0, 0, 1, 1], 'ranks of a host take devices in turns');
  });

  it('are of the devices that are named, which the ranks of each host take in turns', async () => {
    const offers = Array.from({ length: 4 }, () => on('a'));
    const { devices } = await agreed([0, 1, 0, 1], offers, { NBC_VERBS_DEVICE: 'mlx5_0,mlx5_1' });
    assert.deepEqual(devices, ['mlx5_0', 'mlx5_0', 'mlx5_1', 'mlx5_1']);
  });

  it('are TCP to a rank that has no device, which says why, and verbs between the others', async () => {
    const { networks } = await agreed([0, 1, 2], [on('a'), on('a'), { why: 'port 1 is down' }]);
    const why = 'rank 2 has no device: port 1 is down';
    assert.deepEqual(networks, [
      { ways: ['none', 'verbs', 'tcp'], reasons: ['', '', why] },
      { ways: ['verbs', 'none', 'tcp'], reasons: ['', '', why] },
      { ways: ['tcp', 'tcp', 'none'], reasons: [why, why, ''] },
    ]);
  });

  it('are TCP between two hosts that do not reach each other', async () => {
    const { networks } = await agreed([0, 1, 2, 3], [on('a'), on('b'), on('a'), on('b')]);
    assert.deepEqual(networks[1], {
      ways: ['tcp', 'none', 'tcp', 'verbs'],
      reasons: ['rank 0 is in a, and mlx5_0 in b', '', 'rank 2 is in a, and mlx5_0 in b', ''],
    });
    for (const [rank, { ways }] of networks.entries())
      for (const [other, way] of ways.entries()) assert.equal(networks[other].ways[rank], way, 'both find the same');
  });

  it('are not asked about between ranks of one host', async () => {
    const { networks } = await agreed([0, 0, 1], [on('a'), on('b'), on('a')]);
    assert.deepEqual(networks[0].ways, ['none', 'none', 'verbs']);
  });

  it('are described for people', () => {
    const why = 'rank 3 has no device: none';
    const ways = ['none', 'none', 'none', 'tcp', 'verbs', 'verbs', 'none', 'tcp', 'tcp'] as const;
    const reasons = ['', '', '', why, '', '', '', 'they are apart', 'they are apart'];
    assert.equal(
      describeWays(1, { ways: [...ways], reasons }),
      'rank 1 reaches ranks 0, 2, 6 by shared memory, ranks 4-5 by verbs, ranks 3, 7-8 by tcp; ' +
        `rank 3 not by verbs, because ${why}; ranks 7-8 not by verbs, because they are apart`,
    );
    assert.equal(
      describeWays(0, { ways: ['none', 'verbs', 'verbs'], reasons: ['', '', ''] }),
      'rank 0 reaches ranks 1-2 by verbs',
    );
  });
});
