/**
 * The store through which ranks of a job find each other. A rank that is late, missing, there twice or of another job
 * gets a clear error, and so do the others.
 */
import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createConnection, createServer, type AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { BootstrapError } from 'node-nbc';
import { freePort } from './support/commands.js';
import { until } from './support/until.js';

const dist = (file: string): string => new URL(`../../dist/transport/store/${file}`, import.meta.url).href;
const { StoreServer, listRanks } = (await import(
  dist('server.js')
)) as typeof import('../src/transport/store/server.js');
const { StoreClient } = (await import(dist('client.js'))) as typeof import('../src/transport/store/client.js');
const { proofOf } = (await import(dist('proof.js'))) as typeof import('../src/transport/store/proof.js');
const { Stop } = (await import(dist('../stop.js'))) as typeof import('../src/transport/stop.js');
const { throughStore } = (await import(
  dist('../directory/store.js')
)) as typeof import('../src/transport/directory/store.js');

const SECRET = 'a secret of this test';
const HOST = '127.0.0.1';

interface Given {
  rank: number;
  job?: string;
  size?: number;
  secret?: string;
  timeout?: number;
  /** Called when the store has let it in. */
  enters?: () => void;
}

function joiner(port: number, size: number) {
  return ({ rank, job, timeout = 5000, secret = SECRET, size: own = size, enters }: Given): Promise<unknown[]> => {
    const options = { host: HOST, port, secret, rank, size: own, job, timeout };
    return throughStore(options, (directory) => {
      enters?.();
      return directory.exchange('rank', { me: rank });
    });
  };
}

function why(result: PromiseSettledResult<unknown>): string {
  assert.equal(result.status, 'rejected');
  assert(result.reason instanceof BootstrapError, String(result.reason));
  assert.equal(result.reason.code, 'ERR_NBC_BOOTSTRAP');
  return result.reason.message;
}

describe('the store', () => {
  it('lists ranks as people do', () => {
    assert.equal(listRanks([3]), '3');
    assert.equal(listRanks([1, 2]), '1 and 2');
    assert.equal(listRanks([0, 2, 3, 4, 9]), '0, 2 to 4 and 9');
  });

  it('gives all ranks what all told, in whatever order they come', async () => {
    const size = 32;
    const join = joiner(await freePort(), size);
    const late = Array.from({ length: size }, (_, rank) => size - 1 - rank);
    const all = await Promise.all(late.map((rank) => join({ rank })));
    const expected = Array.from({ length: size }, (_, me) => ({ me }));
    for (const table of all) assert.deepEqual(table, expected);
  });

  it('gives more at a time than a rank may tell', async () => {
    const size = 8;
    const port = await freePort();
    const long = (rank: number): string => `é${rank}`.repeat(20_000);
    const all = await Promise.all(
      Array.from({ length: size }, (_, rank) => {
        const options = { host: HOST, port, secret: SECRET, rank, size, timeout: 5000 };
        return throughStore(options, (directory) => directory.exchange('long', long(rank)));
      }),
    );
    const expected = Array.from({ length: size }, (_, rank) => long(rank));
    for (const table of all) assert.deepEqual(table, expected);
  });

  it('ends the connection of a rank that tells too much, and names it to the others', async () => {
    const server = await StoreServer.open({ host: HOST, port: 0, secret: SECRET, size: 2, timeout: 5000 });
    const [zero, one] = await Promise.all(
      [0, 1].map((rank) =>
        StoreClient.open({ host: HOST, port: server.port, secret: SECRET, rank, size: 2, timeout: 5000 }),
      ),
    );
    try {
      const ends = await Promise.allSettled([zero.exchange('a', 0), one.exchange('a', 'x'.repeat(65 * 1024))]);
      assert.match(why(ends[0]), /rank 1 ended before the job had started/);
      assert.match(why(ends[1]), /the store at .* ended the connection/);
    } finally {
      for (const client of [zero, one]) client.close();
      server.close();
    }
  });

  it('takes no more names than a job has', async () => {
    const server = await StoreServer.open({ host: HOST, port: 0, secret: SECRET, size: 1, timeout: 5000 });
    const options = { host: HOST, port: server.port, secret: SECRET, rank: 0, size: 1, timeout: 5000 };
    const client = await StoreClient.open(options);
    try {
      for (let i = 0; i < 64; i++) assert.deepEqual(await client.exchange(`name ${i}`, i), [i]);
      await assert.rejects(client.exchange('one more', 1), /the store is full/);
      await assert.rejects(client.exchange('name 0', 1), /rank 0 has told 'name 0' already/);
      await client.done();
    } finally {
      client.close();
      server.close();
    }
  });

  it('names the ranks that are missing, to all who came', async () => {
    const join = joiner(await freePort(), 5);
    const results = await Promise.allSettled([0, 3].map((rank) => join({ rank, timeout: 500 })));
    for (const result of results) assert.match(why(result), /ranks 1, 2 and 4 of 5 did not join within 500 ms/);
  });

  it('says that rank 0 is missing, which has the store', async () => {
    const port = await freePort();
    const [result] = await Promise.allSettled([joiner(port, 2)({ rank: 1, timeout: 300 })]);
    assert.match(why(result), new RegExp(`store at 127.0.0.1:${port} could not be reached.*is rank 0 running`));
  });

  it('tells a rank that comes too late', async () => {
    const port = await freePort();
    const join = joiner(port, 2);
    const [first] = await Promise.allSettled([join({ rank: 0, timeout: 300 })]);
    assert.match(why(first), /rank 1 of 2 did not join/);
    const [late] = await Promise.allSettled([join({ rank: 1, timeout: 300 })]);
    assert.match(why(late), /could not be reached/);
  });

  it('refuses the second process that says it is a rank, and the first goes on', async () => {
    const port = await freePort();
    const join = joiner(port, 3);
    const first: Promise<unknown[]>[] = [];
    const entered = [0, 1].map((rank) => new Promise<void>((enters) => first.push(join({ rank, enters }))));
    const client = await StoreClient.open({ host: HOST, port, secret: SECRET, rank: 2, size: 3, timeout: 5000 });
    // Rank 0, too, which has the store, and is in.
    await Promise.all(entered);
    for (const rank of [2, 0]) {
      const [doubled] = await Promise.allSettled([join({ rank })]);
      assert.match(why(doubled), new RegExp(`another process has joined as rank ${rank}`));
    }
    await client.exchange('rank', 'here');
    await client.done();
    for (const table of await Promise.all(first)) assert.equal(table[2], 'here');
  });

  it('refuses a rank that has another secret, and the rank learns why', async () => {
    const join = joiner(await freePort(), 2);
    const good = join({ rank: 0, timeout: 1500 });
    const [bad] = await Promise.allSettled([join({ rank: 1, secret: 'a secret of another job', timeout: 1500 })]);
    assert.match(why(bad), /is NBC_SECRET the same on all ranks/);
    const [result] = await Promise.allSettled([good]);
    assert.match(why(result), /rank 1 of 2 did not join/);
  });

  it('is not believed if it does not know the secret itself', async () => {
    // It accepts or refuses each client, with a proof of its own or with the client's.
    const answers = [
      (_: Record<string, unknown>) => ({ job: 'x', proof: 'f'.repeat(64) }),
      (_: Record<string, unknown>) => ({ job: 'x', proof: 'f'.repeat(64), error: 'go away' }),
      ({ proof }: Record<string, unknown>) => ({ job: 'x', proof }),
      ({ proof }: Record<string, unknown>) => ({ proof }),
      (_: Record<string, unknown>) => ({}),
    ];
    for (const answer of answers) {
      const server = createServer((socket) => {
        socket.setEncoding('utf8');
        socket.on('error', () => undefined);
        socket.write(`${JSON.stringify({ store: 3, nonce: 'a'.repeat(32) })}\n`);
        socket.on('data', (line: string) => {
          socket.write(`${JSON.stringify(answer(JSON.parse(line) as Record<string, unknown>))}\n`);
        });
      }).listen(0, HOST);
      await once(server, 'listening');
      const { port } = server.address() as AddressInfo;
      const [result] = await Promise.allSettled([joiner(port, 2)({ rank: 1, timeout: 2000 })]);
      server.close();
      assert.match(why(result), /does not know the secret of this job/);
    }
  });

  it('refuses a rank of another job, which learns that, and the job goes on', async () => {
    // Rank 1 is left from an earlier attempt, and waits for a store.
    const port = await freePort();
    const join = joiner(port, 2);
    const leftover = join({ rank: 1, job: 'attempt 1' });
    const zero = join({ rank: 0, job: 'attempt 2' });
    const [refused] = await Promise.allSettled([leftover]);
    assert.match(
      why(refused),
      /this rank was started in another job: its NBC_JOB is 'attempt 1', and that of the job that starts here is 'attempt 2'/,
    );
    const one = await join({ rank: 1, job: 'attempt 2' });
    assert.deepEqual(await zero, one);
  });

  it('says to ranks of different jobs at one address that they are, and not which is right', async () => {
    const join = joiner(await freePort(), 2);
    const first = join({ rank: 0, job: 'a', timeout: 1500 });
    const [second] = await Promise.allSettled([join({ rank: 0, job: 'b' })]);
    assert.match(why(second), /its NBC_JOB is 'b', and that of the job that starts here is 'a'/);
    await assert.rejects(first, /rank 1 of 2/);
  });

  it('makes a new key for each job, which all its ranks have', async () => {
    const keys = await Promise.all(
      [0, 1].map(async () => {
        const options = { host: HOST, port: await freePort(), secret: SECRET, size: 2, timeout: 5000 };
        const own = (rank: number): Promise<string | undefined> =>
          throughStore({ ...options, rank }, async (directory) => {
            await directory.exchange('rank', rank);
            return directory.key;
          });
        return Promise.all([own(0), own(1)]);
      }),
    );
    for (const [zero, one] of keys) {
      assert.match(zero ?? '', /^[0-9a-f]{64}$/);
      assert.equal(one, zero);
    }
    assert.notEqual(keys[0][0], keys[1][0]);
  });

  it('that rank 0 cannot open because something else has its port is an error that names the port', async () => {
    for (const greeting of ['SSH-2.0-hello\r\n', '']) {
      const other = createServer((socket) => {
        socket.on('error', () => undefined);
        if (greeting !== '') socket.write(greeting);
      }).listen(0, HOST);
      await once(other, 'listening');
      try {
        const { port } = other.address() as AddressInfo;
        const results = await Promise.allSettled([0, 1].map((rank) => joiner(port, 2)({ rank, timeout: 500 })));
        assert.match(
          why(results[0]),
          new RegExp(`rank 0 could not open its store there, because port ${port} is taken`),
        );
        assert.doesNotMatch(why(results[1]), /is taken/);
      } finally {
        other.close();
      }
    }
    const store = await StoreServer.open({ host: HOST, port: 0, secret: 'another secret', size: 2, timeout: 5000 });
    try {
      const [result] = await Promise.allSettled([joiner(store.port, 2)({ rank: 0 })]);
      assert.match(why(result), new RegExp(`is NBC_SECRET the same on all ranks.*port ${store.port} is taken`));
    } finally {
      store.close();
    }
  });

  it('refuses a rank that was started in a job of another size', async () => {
    const join = joiner(await freePort(), 2);
    const good = join({ rank: 0, timeout: 1000 });
    const [bad] = await Promise.allSettled([join({ rank: 1, size: 4 })]);
    assert.match(why(bad), /in a job of 4 ranks, the others in one of 2/);
    await assert.rejects(good, /rank 1 of 2/);
  });

  it('tells the others at once when a rank ends before the start', async () => {
    const port = await freePort();
    const join = joiner(port, 3);
    const waiting = [join({ rank: 0 }), join({ rank: 1 })];
    const client = await StoreClient.open({ host: HOST, port, secret: SECRET, rank: 2, size: 3, timeout: 5000 });
    client.close();
    for (const result of await Promise.allSettled(waiting)) {
      assert.match(why(result), /rank 2 ended before the job had started/);
    }
  });

  it('tells the others that it was rank 0, which takes the store with it', async () => {
    const options = { host: HOST, port: await freePort(), secret: SECRET, size: 2, timeout: 5000 };
    let fail: (() => void) | undefined;
    const failing = throughStore({ ...options, rank: 0 }, () => {
      return new Promise((_, reject) => (fail = () => reject(new Error('of rank 0'))));
    });
    const other = await StoreClient.open({ ...options, rank: 1 });
    const waits = other.exchange('rank', 1);
    // Answered after the first, so the store knows that we wait.
    await assert.rejects(other.exchange('rank', 1), /rank 1 has told 'rank' already/);
    (await until('rank 0 has joined', () => fail))();
    const [first, second] = await Promise.allSettled([failing, waits]);
    assert(first.status === 'rejected' && (first.reason as Error).message === 'of rank 0');
    assert.match(why(second), /rank 0 ended before the job had started/);
    other.close();
  });

  it('tells the others of a rank that gives up by the signal of init()', async () => {
    const server = await StoreServer.open({ host: HOST, port: 0, secret: SECRET, size: 2, timeout: 60_000 });
    const options = { host: HOST, port: server.port, secret: SECRET, size: 2, timeout: 60_000 };
    const other = await StoreClient.open({ ...options, rank: 0 });
    const waits = other.exchange('rank', 0);
    const controller = new AbortController();
    const gone = throughStore({ ...options, rank: 1, stop: new Stop(controller.signal) }, (directory) => {
      const told = directory.exchange('other', 1);
      controller.abort();
      return told;
    });
    const [first, second] = await Promise.allSettled([gone, waits]);
    assert.match(why(first), /the signal of init\(\) has fired/);
    assert.match(why(second), /rank 1 /);
    assert.equal(getEventListeners(controller.signal, 'abort').length, 0);
    other.close();
    server.close();
  });

  it('uses a store that a launcher has opened at its address', async () => {
    const server = await StoreServer.open({ host: HOST, port: 0, secret: SECRET, size: 2, timeout: 5000 });
    const join = joiner(server.port, 2);
    const tables = await Promise.all([join({ rank: 1 }), join({ rank: 0 })]);
    await server.finished();
    server.close();
    assert.deepEqual(tables[0], tables[1]);
  });

  it('names the ranks that are missing although the store of the launcher waits for longer', async () => {
    const server = await StoreServer.open({ host: HOST, port: 0, secret: SECRET, size: 3, timeout: 60_000 });
    try {
      const results = await Promise.allSettled([0, 2].map((rank) => joiner(server.port, 3)({ rank, timeout: 500 })));
      for (const result of results) assert.match(why(result), /rank 1 of 3 did not join within 500 ms/);
    } finally {
      server.close();
    }
  });

  it('names a rank that stops between two steps, within the time limit of the others', async () => {
    const port = await freePort();
    const options = { host: HOST, port, secret: SECRET, size: 2, timeout: 1500 };
    const first = throughStore({ ...options, rank: 0 }, async (directory) => {
      await directory.exchange('first', 1);
      return directory.exchange('second', 1);
    });
    const client = await StoreClient.open({ ...options, rank: 1, timeout: 20_000 });
    try {
      await delay(1200);
      await client.exchange('first', 1);
      const [result] = await Promise.allSettled([first]);
      assert.match(why(result), /rank 1 of 2 did not join within 1500 ms/);
    } finally {
      client.close();
    }
  });

  it('that ends midway is told to all who wait', async () => {
    const server = await StoreServer.open({ host: HOST, port: 0, secret: SECRET, size: 3, timeout: 60_000 });
    const options = { host: HOST, port: server.port, secret: SECRET, size: 3, timeout: 60_000 };
    const clients = await Promise.all([0, 1].map((rank) => StoreClient.open({ ...options, rank })));
    const waiting = Promise.allSettled([clients[0].exchange('all', 0), clients[1].exchange('others', 1)]);
    server.close();
    for (const result of await waiting) assert.match(why(result), /the store at .* ended the connection/);
  });

  it('is left in time by rank 0 although another rank never says that it is done', async () => {
    const port = await freePort();
    const first = joiner(port, 2)({ rank: 0, timeout: 1000 });
    const client = await StoreClient.open({ host: HOST, port, secret: SECRET, rank: 1, size: 2, timeout: 60_000 });
    try {
      await client.exchange('rank', 'here');
      assert.deepEqual(await first, [{ me: 0 }, 'here']);
    } finally {
      client.close();
    }
  });

  it('says that no address is known for the host of the store, on rank 0, too', async () => {
    for (const rank of [0, 1]) {
      // A name with an empty label: the resolver refuses it by itself, and asks no server that may be slow.
      const options = { host: 'there-is..none', port: 4711, secret: SECRET, rank, size: 2, timeout: 300 };
      const [result] = await Promise.allSettled([throughStore(options, () => Promise.resolve(0))]);
      assert.match(why(result), /no address is known for 'there-is..none'/);
    }
  });

  for (const [what, greeting, expected] of [
    ['speaks something else', 'SSH-2.0-hello\r\n', /what answers at the store at .* is no store/],
    ['speaks another version', '{"store":2,"nonce":"x"}\n', /what answers at the store at .* is no store/],
    ['says nothing', '', /what answers at the store at .* has said nothing within 500 ms; is it a store/],
    ['ends what it says', undefined, /the store at .* ended the connection/],
  ] as const) {
    it(`says that what listens there ${what}`, async () => {
      const other = createServer((socket) => {
        socket.on('error', () => undefined);
        if (greeting === undefined) socket.destroy();
        else socket.write(greeting);
      }).listen(0, HOST);
      await once(other, 'listening');
      try {
        const { port } = other.address() as AddressInfo;
        for (const rank of [0, 1]) {
          const [result] = await Promise.allSettled([joiner(port, 2)({ rank, timeout: 500 })]);
          assert.match(why(result), expected);
        }
      } finally {
        other.close();
      }
    });
  }

  it('lets ranks in although many say nothing', async () => {
    const options = { host: HOST, port: 0, secret: SECRET, size: 2, timeout: 60_000, pending: 4, handshakeMs: 50 };
    const server = await StoreServer.open(options);
    const silent = Array.from({ length: 20 }, () => createConnection({ host: HOST, port: server.port }));
    try {
      await Promise.all(
        silent.map((socket) =>
          once(
            socket.on('error', () => undefined),
            'connect',
          ),
        ),
      );
      const join = joiner(server.port, 2);
      const tables = await Promise.all([join({ rank: 0 }), join({ rank: 1 })]);
      assert.deepEqual(tables[0], tables[1]);
      await until('all of them have been cut off', () => server.refused >= 20);
    } finally {
      for (const socket of silent) socket.destroy();
      server.close();
    }
  });

  it('does not read what comes after a wrong proof', async () => {
    const server = await StoreServer.open({ host: HOST, port: 0, secret: SECRET, size: 1, timeout: 5000 });
    const socket = createConnection({ host: HOST, port: server.port }).on('error', () => undefined);
    try {
      const [greeting] = (await once(socket, 'data')) as [Buffer];
      const { nonce: serverNonce } = JSON.parse(greeting.toString()) as { nonce: string };
      const introduce = (secret: string): string => {
        const said = { rank: 0, size: 1, job: '', nonce: 'x' };
        const proof = proofOf('client', secret, { serverNonce, clientNonce: said.nonce, rank: 0, size: 1, job: '' });
        return `${JSON.stringify({ ...said, proof })}\n`;
      };
      socket.write(introduce('another') + introduce(SECRET) + introduce(SECRET));
      await once(socket, 'close');
      await until('it is counted', () => server.refused === 1);
      // The place of the rank is free.
      assert.deepEqual(await joiner(server.port, 1)({ rank: 0 }), [{ me: 0 }]);
    } finally {
      socket.destroy();
      server.close();
    }
  });

  it('says that a store has gone which was there before', async () => {
    // A store whose job has started: it cuts off what still comes, and goes.
    const ending = createServer((socket) => {
      socket.destroy();
      ending.close();
    });
    await new Promise<void>((resolve) => ending.listen(0, HOST, resolve));
    const { port } = ending.address() as AddressInfo;
    await assert.rejects(StoreClient.open({ host: HOST, port, secret: SECRET, rank: 2, size: 3, timeout: 500 }), {
      name: 'BootstrapError',
      message:
        /could not be reached within 500 ms: .*; it was there before, and has gone: .*is there another rank 2\?$/,
    });
  });

  it('is not harmed by what is no rank', async () => {
    const server = await StoreServer.open({ host: HOST, port: 0, secret: SECRET, size: 1, timeout: 1000 });
    const noise = [
      randomBytes(100_000),
      Buffer.from('{}\n'),
      Buffer.from('[1]\n'),
      Buffer.from(`{"rank":0,"size":1,"nonce":"x","proof":"${createHash('sha256').update('x').digest('hex')}"}\n`),
      Buffer.from('{"rank":0'),
      Buffer.from('null\n'),
      Buffer.from(`{"nonce":${'['.repeat(400)}\n`),
      Buffer.alloc(0),
    ];
    await Promise.all(
      noise.map(
        (bytes) =>
          new Promise<void>((resolve) => {
            const socket = createConnection({ host: HOST, port: server.port }, () => socket.write(bytes));
            socket.on('error', () => undefined);
            socket.on('close', () => resolve());
            socket.resume();
          }),
      ),
    );
    try {
      // It sees the ends of their connections a moment after they do.
      await until('all are counted', () => server.refused === noise.length);
      const [table] = await joiner(server.port, 1)({ rank: 0 });
      assert.deepEqual(table, { me: 0 });
    } finally {
      server.close();
    }
  });
});
