/**
 * Which network ranks of several hosts agree on, from what each tells about its device.
 */
import assert from 'node:assert/strict';
import type { VerbsOffer } from '../src/native.js';

const dist = (file: string): string => new URL(`../../dist/transport/${file}`, import.meta.url).href;
const { agreeOnNetwork, describeRoutes } = (await import(
  dist('network.js')
)) as typeof import('../src/transport/network.js');
const { resolveOptions } = (await import(dist('options.js'))) as typeof import('../src/transport/options.js');

type Network = Awaited<ReturnType<typeof agreeOnNetwork>>;

/** What all ranks find. An offer is the name of a network; equal names reach each other. */
async function agreed(hosts: number[], offers: VerbsOffer[]): Promise<{ networks: Network[]; turns: number[] }> {
  const turns: number[] = [];
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
      verbsOffer: (_options: unknown, turn: number) => ((turns[rank] = turn), offers[rank]),
      whyNotByVerbs: (mine: string, theirs: string, peer: string, device: string) =>
        mine === theirs ? '' : `${peer} is in ${theirs}, and ${device} in ${mine}`,
    };
    return agreeOnNetwork(native, directory, hosts, resolveOptions({}, {}));
  });
  return { networks: await Promise.all(networks), turns };
}

const on = (offer: string): VerbsOffer => ({ device: 'mlx5_0', offer });

describe('the network between hosts', () => {
  it('is verbs where every rank reaches all ranks of other hosts', async () => {
    const { networks, turns } = await agreed([0, 1, 0, 1], [on('a'), on('a'), on('a'), on('a')]);
    assert.deepEqual(networks, Array(4).fill({ name: 'verbs', why: '' }));
    assert.deepEqual(turns, [0, 0, 1, 1], 'ranks of a host take devices in turns');
  });

  it('is TCP for all where one rank has no device, which says why', async () => {
    const { networks } = await agreed([0, 0, 1], [on('a'), on('a'), { why: 'port 1 is down' }]);
    assert.deepEqual(networks, Array(3).fill({ name: 'tcp', why: 'rank 2 has no device: port 1 is down' }));
  });

  it('is TCP for all where two hosts do not reach each other; each rank says what concerns it', async () => {
    const { networks } = await agreed([0, 1, 2], [on('a'), on('b'), { why: 'none' }]);
    assert.deepEqual(networks, [
      { name: 'tcp', why: 'rank 1 is in b, and mlx5_0 in a' },
      { name: 'tcp', why: 'rank 0 is in a, and mlx5_0 in b' },
      { name: 'tcp', why: 'rank 2 has no device: none' },
    ]);
  });

  it('does not ask whether ranks of one host reach each other', async () => {
    const { networks } = await agreed([0, 0], [on('a'), on('b')]);
    assert.deepEqual(networks[0], { name: 'verbs', why: '' });
  });

  it('is described for people', () => {
    const tcp = { name: 'tcp', why: 'rank 3 has no device: none' } as const;
    const hosts = [0, 0, 0, 1, 1, 2, 0];
    assert.equal(
      describeRoutes(1, hosts, tcp),
      'rank 1 reaches ranks 0, 2, 6 by shared memory, ranks 3-5 by tcp; not by verbs, because rank 3 has no device: none',
    );
    assert.equal(describeRoutes(5, hosts, { name: 'verbs', why: '' }), 'rank 5 reaches ranks 0-4, 6 by verbs');
    assert.equal(describeRoutes(0, [0, 0], tcp), 'rank 0 reaches rank 1 by shared memory');
  });
});
