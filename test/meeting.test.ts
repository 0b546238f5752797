/**
 * How ranks meet, and where they listen over TCP: at the interface asked for, and at loopback if nobody elsewhere has
 * to reach them.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { closeSync, fstatSync, openSync, readdirSync, readlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { type AddressInfo, createConnection, createServer } from 'node:net';
import { networkInterfaces, type NetworkInterfaceInfo } from 'node:os';
import { join } from 'node:path';
import { BootstrapError, type InitOptions, OptionError } from 'node-nbc';
import type { Native, NativeJob, VerbsOffer } from '../src/native.js';
import { reports, runRanks, skip } from './helpers.js';
import { run } from './support/commands.js';
import { ROOT } from './support/launch.js';

const dist = (file: string): string => new URL(`../../dist/transport/${file}`, import.meta.url).href;
const { meet } = (await import(dist('meeting.js'))) as typeof import('../src/transport/meeting.js');
const { candidatesOf, chooseAddress, findAddress, sourceTo } = (await import(
  dist('address.js')
)) as typeof import('../src/transport/address.js');
const { nativeOptions, resolveOptions } = (await import(
  dist('options.js')
)) as typeof import('../src/transport/options.js');
const { readBootstrap } = (await import(dist('bootstrap.js'))) as typeof import('../src/transport/bootstrap.js');
const { StoreServer } = (await import(dist('store/server.js'))) as typeof import('../src/transport/store/server.js');

const native = createRequire(import.meta.url)(join(ROOT, 'build/Release/nbc.node')) as Native;

/** What a native part is asked for that does not listen. */
class Listener {
  readonly asked: string[] = [];
  listenTcp(address: string): { fd: number; port: number } {
    this.asked.push(address);
    return { fd: openSync('/dev/null', 'r'), port: 4711 };
  }
  verbsOffer(): VerbsOffer {
    return { why: 'there is none' };
  }
  allowedProcessors(): number[] {
    return [0];
  }
  createJob(..._: unknown[]): number {
    return openSync('/dev/null', 'r+');
  }
  closeDescriptor(fd: number): void {
    closeSync(fd);
  }
}

/**
 * A machine with these interfaces, each with its addresses and the beginning of those that the system reaches from
 * there.
 */
function machine(network: string, interfaces: Record<string, Record<string, string>>) {
  const infos = Object.entries(interfaces).map(([name, addresses]) => [
    name,
    Object.keys(addresses).map((address) => {
      const family = address.includes(':') ? 'IPv6' : 'IPv4';
      return { address, family, internal: name === 'lo' } as NetworkInterfaceInfo;
    }),
  ]);
  const ways = Object.values(interfaces).flatMap((addresses) => Object.entries(addresses));
  return {
    network: () => network,
    interfaces: () => Object.fromEntries(infos) as Record<string, NetworkInterfaceInfo[]>,
    sourceTo: (to: string) => Promise.resolve(ways.find(([, prefix]) => prefix !== '' && to.startsWith(prefix))?.[0]),
  };
}

const lo = { '127.0.0.1': '127.', '::1': '::1' };
const docker0 = { '172.17.0.1': '172.17.' };
const BRIDGED = machine('a', { lo, docker0, eth0: { '10.1.0.1': '10.1.', 'fe80::1': '', 'fd00::1': 'fd00:' } });
const OTHER = machine('b', { lo, docker0, eth0: { '10.1.0.2': '10.1.', 'fd00::2': 'fd00:' } });

/** Two ranks, which may be on different hosts, meet by a store at this address; returns where they listen. */
async function listening(
  address: string,
  hosts: [string, string],
  given = '',
  machines: [ReturnType<typeof machine>, ReturnType<typeof machine>] | [] = [],
): Promise<string[]> {
  const [secret, size] = ['a secret of this test', 2];
  const server = await StoreServer.open({ host: address, port: 0, secret, size, timeout: 10_000 });
  try {
    const settings = resolveOptions({}, { NBC_TRANSPORT: 'tcp', NBC_TCP_ADDRESS: given, NBC_JOIN_TIMEOUT: '10000' });
    const ranks = hosts.map(async (host, rank) => {
      const bootstrap = readBootstrap({
        NBC_RANK: `${rank}`,
        NBC_SIZE: `${size}`,
        NBC_STORE: `${address}:${server.port}`,
        NBC_SECRET: secret,
        NBC_HOST: host,
      });
      const listener = new Listener();
      const { tcp } = await meet(listener as never, bootstrap, settings, machines[rank]);
      closeSync(tcp!.listener);
      assert.deepEqual(tcp!.addresses[rank], listener.asked[0]);
      return listener.asked;
    });
    return (await Promise.all(ranks)).flat();
  } finally {
    server.close();
  }
}

const TWICE = `
  import { init } from 'node-nbc';
  const results = await Promise.allSettled([init(), init()]);
  console.log(JSON.stringify(results.map(({ reason }) => reason?.code)));
`;

describe('the eager limit', () => {
  it('of TCP is the general one, if that is given and it is not', () => {
    const limits = (options: InitOptions, environment = {}): number[] => {
      const { eagerLimit, tcp } = resolveOptions(options, environment);
      return [eagerLimit, tcp.eagerLimit];
    };
    assert.deepEqual(limits({}), [4096, -1]);
    assert.deepEqual(limits({ eagerLimit: 255 }), [255, 255]);
    assert.deepEqual(limits({}, { NBC_EAGER_LIMIT: '0' }), [0, 0]);
    assert.deepEqual(limits({ eagerLimit: 255, tcp: { eagerLimit: 65535 } }), [255, 65535]);
    assert.deepEqual(limits({ eagerLimit: 255 }, { NBC_TCP_EAGER_LIMIT: '0' }), [255, 0]);
    assert.throws(() => limits({ tcp: { eagerLimit: 65536 } }), { code: 'ERR_NBC_OPTION' });
  });
});

describe('init() while another is under way', () => {
  it('is refused, and the other goes on', async () => {
    const store = { NBC_STORE: '127.0.0.1:1', NBC_SECRET: 'a secret of this test', NBC_RANK: '1', NBC_SIZE: '2' };
    const env = { ...store, NBC_TRANSPORT: 'tcp', NBC_JOIN_TIMEOUT: '300' };
    const { stdout } = await run(process.execPath, ['--input-type=module', '-e', TWICE], env, { cwd: ROOT });
    assert.deepEqual(JSON.parse(stdout), ['ERR_NBC_BOOTSTRAP', 'ERR_NBC_ALREADY_OPEN']);
  });
});

describe('where ranks listen over TCP', () => {
  it('loopback, if all are on this machine, although the store is at another address', async function () {
    const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
    const outside = all.find(({ internal, family }) => !internal && family === 'IPv4')?.address;
    if (outside === undefined) skip(this, 'this machine has no address but loopback');
    assert.deepEqual(await listening(outside, ['', '']), ['127.0.0.1', '127.0.0.1']);
    assert.deepEqual(await listening(outside, ['a', 'b']), [outside, outside]);
  });

  it('the address that is asked for', async () => {
    assert.deepEqual(await listening('127.0.0.1', ['', ''], '127.0.0.3'), ['127.0.0.3', '127.0.0.3']);
  });

  it('several addresses, in turns', async () => {
    const places = await listening('127.0.0.1', ['', ''], '127.0.0.2, 127.0.0.3');
    assert.deepEqual(places.sort(), ['127.0.0.2', '127.0.0.3']);
  });

  it('the interface or the network that is asked for, on each machine its own address', async () => {
    for (const place of ['eth0', '10.1.0.0/16', '10.1.9.9/16']) {
      assert.deepEqual(await listening('127.0.0.1', ['', ''], place, [BRIDGED, OTHER]), ['10.1.0.1', '10.1.0.2']);
    }
    assert.deepEqual(await listening('127.0.0.1', ['', ''], 'fd00::/8', [BRIDGED, OTHER]), ['fd00::1', 'fd00::2']);
    assert.equal(findAddress('lo', networkInterfaces()), '127.0.0.1');
    assert.equal(findAddress('127.0.0.0/8', networkInterfaces()), '127.0.0.1');
    for (const place of ['eth1', '10.2.0.0/16', 'fe80::/10', 'fd01::/16', 'localhost']) {
      assert.throws(() => findAddress(place, BRIDGED.interfaces()), {
        name: 'OptionError',
        argument: 'NBC_TCP_ADDRESS',
        message: new RegExp(
          `'?${place}.* it has lo \\(127.0.0.1, ::1\\), docker0 \\(172.17.0.1\\), eth0 \\(10.1.0.1, fd00::1\\)`,
        ),
      });
    }
  });

  it('on two machines without being asked, the address from which the system reaches the other, never a bridge or loopback', async () => {
    // The ranks reach the store by loopback, which tells them nothing.
    assert.deepEqual(await listening('127.0.0.1', ['', ''], '', [BRIDGED, OTHER]), ['10.1.0.1', '10.1.0.2']);
    const six = machine('c', { lo, docker0, eth0: { 'fe80::3': '', 'fd00::3': 'fd00:' } });
    assert.deepEqual(await listening('127.0.0.1', ['', ''], '', [BRIDGED, six]), ['fd00::1', 'fd00::3']);
    const only = machine('d', { lo, eth0: { '10.1.0.4': '' } });
    assert.deepEqual(await listening('127.0.0.1', ['', ''], '', [BRIDGED, only]), ['10.1.0.1', '10.1.0.4']);
  });

  it('in one network if machines have two in common, in whatever order they have them', async () => {
    const [a, b, c] = [1, 2, 3].map((i) => ({ [`10.1.0.${i}`]: '10.1.' }));
    const [x, y, z] = [1, 2, 3].map((i) => ({ [`10.2.0.${i}`]: '10.2.' }));
    const machines = [
      machine('a', { ib0: x, eth0: a }),
      machine('b', { eth0: b, ib0: y }),
      machine('c', { e: c, i: z }),
    ];
    const all = machines.map((each) => candidatesOf(each.interfaces()));
    const chosen = await Promise.all(machines.map((each, index) => chooseAddress(all, index, each)));
    assert.deepEqual(chosen, ['10.2.0.1', '10.2.0.2', '10.2.0.3']);
  });

  it('is an error if that is not known', async () => {
    const unset = /NBC_TCP_ADDRESS: is not set, and it is not known.* which has (lo|eth0|no address at all)/;
    const none = machine('e', { lo });
    const apart = machine('f', { eth0: { '10.8.0.1': '10.8.' }, eth1: { '10.9.0.1': '10.9.' } });
    for (const [other, rank] of [
      [none, 1],
      [apart, 1],
      [machine('g', {}), 0],
    ] as const) {
      const all = [OTHER, OTHER].map((each) => candidatesOf(each.interfaces()));
      all[rank] = candidatesOf(other.interfaces());
      await assert.rejects(chooseAddress(all, rank, other), unset);
    }
    await assert.rejects(listening('127.0.0.1', ['', ''], '', [BRIDGED, none]), /NBC_TCP_ADDRESS|rank 1 ended before/);
  });

  it('asks the system, which answers at once', async () => {
    assert.equal(await sourceTo('127.0.0.1'), '127.0.0.1');
    for (const nowhere of ['255.255.255.255', 'nonsense']) assert.equal(await sourceTo(nowhere), undefined);
    for (const address of candidatesOf(networkInterfaces())) assert.equal(await sourceTo(address), address);
  });

  for (const [given, expected] of [
    ['127.0.0.3', '127.0.0.3'],
    ['lo', '127.0.0.1'],
    ['', '127.0.0.1'],
  ]) {
    it(`nothing else listens in a real job with NBC_TCP_ADDRESS='${given}'`, async () => {
      const env = { NBC_TRANSPORT: 'tcp', NBC_TCP_ADDRESS: given };
      const all = reports<{ listeners: string[] }>(await runRanks('listening', { size: 2, env }));
      for (const { listeners } of all) assert.deepEqual(listeners, [expected]);
    });
  }

  it('not all interfaces, nor what is no address', () => {
    for (const address of [
      '0.0.0.0',
      '::',
      '0:0::0',
      '::ffff:0.0.0.0',
      '::ffff:0:0',
      'fe80::1%lo',
      '1.2.3',
      '10.1.0.0/33',
      '10.1/16',
      'fd00::/129',
      'an interface',
      'averylongnameofone',
      '127.0.0.1,0.0.0.0',
      '127.0.0.1,',
    ]) {
      for (const refused of [
        () => resolveOptions({}, { NBC_TCP_ADDRESS: address }),
        () => resolveOptions({ tcp: { address } }, {}),
      ]) {
        assert.throws(
          refused,
          (error) => error instanceof OptionError && error.message.includes('one interface'),
          address,
        );
      }
    }
    for (const address of ['127.0.0.1', '::1', '10.0.0.0', '127.0.0.2, 127.0.0.3', 'eth0,10.1.0.0/16', 'fd00::/8']) {
      assert.equal(resolveOptions({ tcp: { address } }, {}).tcp.address, address);
    }
  });
});

describe('the memory that ranks of a host share', () => {
  it('has places for these ranks only', async () => {
    const made: unknown[] = [];
    // Of two places each, of which one is the same.
    class Maker extends Listener {
      constructor(private readonly rank: number) {
        super();
      }
      override allowedProcessors(): number[] {
        return [this.rank, 9];
      }
      override createJob(...what: unknown[]): number {
        made.push(what);
        return super.createJob();
      }
    }
    const [secret, hosts] = ['a secret of this test', ['a', 'b', 'a', 'b', 'b', 'c']];
    const size = hosts.length;
    const store = await StoreServer.open({ host: '127.0.0.1', port: 0, secret, size, timeout: 10_000 });
    try {
      const met = await Promise.all(
        hosts.map((host, rank) => {
          const place = { NBC_RANK: `${rank}`, NBC_SIZE: `${size}`, NBC_SECRET: secret, NBC_HOST: host };
          const bootstrap = readBootstrap({ ...place, NBC_STORE: `127.0.0.1:${store.port}` });
          return meet(new Maker(rank) as never, bootstrap, resolveOptions({}, { NBC_EXPOSED_BYTES: '4096' }));
        }),
      );
      for (const { tcp, closeFile } of met) {
        closeSync(tcp!.listener);
        closeFile();
      }
    } finally {
      store.close();
    }
    // The hosts make their files in any order.
    assert.deepEqual(made.map((what) => JSON.stringify(what)).sort(), ['[6,4096,[0,2],3]', '[6,4096,[1,3,4],4]']);
  });
});

describe('memory that a rank of the host cannot open', () => {
  it('is an error that says whose, why and what to do', async () => {
    // A descriptor that /proc shows and that nobody can open for writing, as with another user's.
    class Closed extends Listener {
      override createJob(): number {
        return openSync('/', 'r');
      }
    }
    const [secret, size] = ['a secret of this test', 2];
    const store = await StoreServer.open({ host: '127.0.0.1', port: 0, secret, size, timeout: 10_000 });
    try {
      const ranks = [0, 1].map((rank) => {
        const place = { NBC_RANK: `${rank}`, NBC_SIZE: `${size}`, NBC_SECRET: secret, NBC_HOST: 'a' };
        const bootstrap = readBootstrap({ ...place, NBC_STORE: `127.0.0.1:${store.port}` });
        return meet(new Closed() as never, bootstrap, resolveOptions({}, { NBC_JOIN_TIMEOUT: '5000' }));
      });
      const [owner, other] = await Promise.allSettled(ranks);
      assert(other.status === 'rejected' && other.reason instanceof BootstrapError, 'typed');
      assert.match(other.reason.message, /^the memory of rank 0 cannot be shared: EISDIR.*NBC_TRANSPORT=tcp$/);
      assert(owner.status === 'rejected');
      assert.match((owner.reason as Error).message, /rank 1 ended before the job had started/);
    } finally {
      store.close();
    }
  });
});

describe('what a failed init() leaves open', () => {
  it('nothing that ranks opened for each other when the store fails at the very end', async () => {
    const opened = (): number =>
      readdirSync('/proc/self/fd').filter((fd) => {
        try {
          return readlinkSync(`/proc/self/fd/${fd}`) === '/dev/null';
        } catch {
          return false;
        }
      }).length;
    const [secret, hosts] = ['a secret of this test', ['a', 'a', 'b']];
    const store = await StoreServer.open({ host: '127.0.0.1', port: 0, secret, size: hosts.length, timeout: 10_000 });
    // Everything goes through here but that a rank has done.
    const between = createServer((near) => {
      const far = createConnection({ host: '127.0.0.1', port: store.port });
      near.on('data', (data) => (data.includes('"op":"done"') ? near.destroy() : far.write(data)));
      near.on('close', () => far.destroy()).on('error', () => undefined);
      far.on('data', (data) => near.write(data)).on('error', () => undefined);
    }).listen(0, '127.0.0.1');
    await once(between, 'listening');
    const before = opened();
    try {
      const ranks = hosts.map((host, rank) => {
        const place = { NBC_RANK: `${rank}`, NBC_SIZE: `${hosts.length}`, NBC_SECRET: secret, NBC_HOST: host };
        const { port } = between.address() as AddressInfo;
        const bootstrap = readBootstrap({ ...place, NBC_STORE: `127.0.0.1:${port}` });
        const settings = resolveOptions({}, { NBC_JOIN_TIMEOUT: '5000' });
        return meet(new Listener() as never, bootstrap, settings);
      });
      for (const { status } of await Promise.allSettled(ranks)) assert.equal(status, 'rejected');
      assert.equal(opened(), before);
    } finally {
      between.close();
      store.close();
    }
  });

  const JOB: NativeJob = { rank: 0, size: 2, launched: true, jobFd: -1, transport: 'tcp', host: '' };
  const OPTIONS = { ...nativeOptions(resolveOptions({ progress: 'manual' }, {}), 0), monitor: '' };
  for (const [what, job, options, message] of [
    ['an option is wrong', {}, { eagerLimit: 1e6 }, /eagerLimit/],
    ['an option is missing', {}, { startall: undefined }, /startall/],
    ['the rank is missing', { rank: undefined }, {}, /rank/],
    ['the job has another size', { transport: 'auto', jobFd: -1 }, {}, /the job has 1 ranks/],
    ['addresses are missing', {}, {}, /the addresses of all ranks are needed/],
  ] as [string, object, object, RegExp][]) {
    it(`not the listening socket if ${what}`, () => {
      const { fd: listener, port } = native.listenTcp('127.0.0.1');
      const tcp = { listener, addresses: ['127.0.0.1'], ports: [port], hosts: [0], processors: 1, secret: 'x' };
      const open = (): unknown => native.open({ ...JOB, ...job, tcp }, { ...OPTIONS, ...options }, () => undefined);
      assert.throws(open, message);
      assert.throws(() => fstatSync(listener), { code: 'EBADF' });
    });
  }

  it('not the listening socket if a world is open already', () => {
    const open = (): void => {
      const { fd: listener, port } = native.listenTcp('127.0.0.1');
      const tcp = { listener, addresses: ['127.0.0.1'], ports: [port], hosts: [0], processors: 1, secret: 'x' };
      try {
        native.open({ ...JOB, size: 1, tcp }, OPTIONS, () => undefined);
      } catch (error) {
        assert.throws(() => fstatSync(listener), { code: 'EBADF' });
        throw error;
      }
    };
    open();
    try {
      assert.throws(open, { code: 'ERR_NBC_ALREADY_OPEN' });
    } finally {
      native.close();
    }
  });
});
