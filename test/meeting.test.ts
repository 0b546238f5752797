/** How ranks meet, and where they listen over TCP: at the interface asked for, and at loopback if nobody elsewhere has to reach them. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import { OptionError } from 'node-nbc';
import { skip } from './helpers.js';
import { ROOT } from './support/launch.js';

const dist = (file: string): string => new URL(`../../dist/transport/${file}`, import.meta.url).href;
const { meet } = (await import(dist('meeting.js'))) as typeof import('../src/transport/meeting.js');
const { resolveOptions } = (await import(dist('options.js'))) as typeof import('../src/transport/options.js');
const { readBootstrap } = (await import(dist('bootstrap.js'))) as typeof import('../src/transport/bootstrap.js');
const { StoreServer } = (await import(dist('store/server.js'))) as typeof import('../src/transport/store/server.js');

/** What a native part is asked for that does not listen. */
class Listener {
  readonly asked: string[] = [];
  listenTcp(address: string): { fd: number; port: number } {
    this.asked.push(address);
    return { fd: openSync('/dev/null', 'r'), port: 4711 };
  }
}

/** Two ranks, which may be on different hosts, meet by a store at this address; returns where they listen. */
async function listening(address: string, hosts: [string, string], given = ''): Promise<string[]> {
  const [secret, size] = ['of this test', 2];
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
      const native = new Listener();
      const { tcp } = await meet(native as never, bootstrap, settings);
      closeSync(tcp!.listener);
      assert.deepEqual(tcp!.addresses[rank], native.asked[0]);
      return native.asked;
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

describe('init() while another is under way', function () {
  this.timeout(30_000);

  it('is refused, and the other goes on', () => {
    const store = { NBC_STORE: '127.0.0.1:1', NBC_SECRET: 'of this test', NBC_RANK: '1', NBC_SIZE: '2' };
    const env = { ...process.env, ...store, NBC_TRANSPORT: 'tcp', NBC_JOIN_TIMEOUT: '300', NBC_JOB_FD: undefined };
    const child = spawnSync(process.execPath, ['--input-type=module', '-e', TWICE], { cwd: ROOT, env });
    assert.deepEqual(JSON.parse(child.stdout.toString()), ['ERR_NBC_BOOTSTRAP', 'ERR_NBC_ALREADY_OPEN']);
  });
});

describe('where ranks listen over TCP', function () {
  this.timeout(30_000);

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

  it('not all interfaces, nor what is no address', () => {
    for (const address of [
      '0.0.0.0',
      '::',
      '0:0::0',
      '::ffff:0.0.0.0',
      '::ffff:0:0',
      'fe80::1%lo',
      'localhost',
      '1.2.3',
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
    for (const address of ['127.0.0.1', '::1', '10.0.0.0', '127.0.0.2, 127.0.0.3']) {
      assert.equal(resolveOptions({ tcp: { address } }, {}).tcp.address, address);
    }
  });
});
