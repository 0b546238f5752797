/**
 * The start of a job by a store, by real processes of which one is late, missing, there twice or of another job: each
 * says what is wrong, in time.
 */
import assert from 'node:assert/strict';
import { createConnection, createServer, type Socket } from 'node:net';
import { hostname, networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { program } from './helpers.js';
import { freePort, run } from './support/commands.js';
import { type End, Launch, ROOT } from './support/launch.js';
import { until } from './support/until.js';

const SIZE = 3;
const JOIN_MS = 1500;
/** Processes take their time to start; one that hangs takes more than this. */
const LIMIT_MS = 10 * JOIN_MS;

const both = ({ stdout, stderr }: End): string => `${stdout}\n${stderr}`;

function assertJoined(end: End): void {
  assert.equal(end.code, 0, both(end));
  assert.match(end.stdout, /exchanged: rank \d of 3/);
}

function assertRefused(end: End, message: RegExp): void {
  assert.equal(end.signal, null, both(end));
  assert.equal(end.code, 1, both(end));
  assert.match(end.stderr, /'ERR_NBC_BOOTSTRAP'/);
  assert.match(end.stderr, message);
}

class Start {
  readonly port: number;

  constructor(port: number) {
    this.port = port;
  }

  async rank(
    rank: number,
    { secret = 'a secret of this test', job = '', joinMs = JOIN_MS, transport = 'auto' } = {},
  ): Promise<End> {
    const begun = performance.now();
    const place = { NBC_RANK: `${rank}`, NBC_SIZE: `${SIZE}`, NBC_STORE: `127.0.0.1:${this.port}` };
    const settings = { NBC_SECRET: secret, NBC_JOB: job, NBC_JOIN_TIMEOUT: `${joinMs}`, NBC_TRANSPORT: transport };
    const end = await run(process.execPath, [program('exchange')], { ...place, ...settings });
    assert(performance.now() - begun < joinMs + LIMIT_MS, `rank ${rank} took too long\n${both(end)}`);
    return end;
  }

  /** Returns when rank 0 has opened the store. */
  async open(): Promise<void> {
    let connected = false;
    await until(`a store listens at ${this.port}`, () => {
      const socket = createConnection({ host: '127.0.0.1', port: this.port }, () => {
        connected = true;
        socket.destroy();
      }).on('error', () => undefined);
      return connected;
    });
  }
}

describe('ranks that start one by one, of which', () => {
  let job: Start;
  beforeEach(async () => {
    job = new Start(await freePort());
  });

  it('one is late, but in time', async () => {
    const joinMs = 30_000;
    const others = [0, 1].map((rank) => job.rank(rank, { joinMs }));
    await job.open();
    for (const end of await Promise.all([...others, job.rank(2, { joinMs })])) assertJoined(end);
  });

  it('one is too late: the others name it, and it finds nobody', async () => {
    for (const end of await Promise.all([0, 1].map((rank) => job.rank(rank)))) {
      assertRefused(end, /rank 2 of 3 did not join within 1500 ms/);
    }
    assertRefused(
      await job.rank(2),
      /the store at 127\.0\.0\.1:\d+ could not be reached within 1500 ms.*is rank 0 running/,
    );
  });

  describe('one gives up by its signal', () => {
    // Where something is left, the process does not end before this.
    const HOURS_MS = '36000000';
    const giveUp = async (rank: number, port: number, when: string): Promise<void> => {
      const place = { NBC_RANK: `${rank}`, NBC_SIZE: `${SIZE}`, NBC_STORE: `127.0.0.1:${port}` };
      const env = { ...place, NBC_SECRET: 'a secret of this test', NBC_JOIN_TIMEOUT: HOURS_MS };
      const end = await run(process.execPath, [program('aborted-init'), when], env);
      assert.equal(end.code, 0, both(end));
      assert.equal(end.stdout, 'aborted\n');
    };

    it('before the call', () => giveUp(0, job.port, 'before'));
    it('that waits for the others', () => giveUp(0, job.port, '300'));
    it('that waits for the store', () => giveUp(1, job.port, '300'));

    it('that waits for an answer', async () => {
      const sockets: Socket[] = [];
      const silent = createServer((socket) => sockets.push(socket)).listen(job.port, '127.0.0.1');
      try {
        await giveUp(1, job.port, '1000');
        assert.equal(sockets.length, 1);
      } finally {
        for (const socket of sockets) socket.destroy();
        silent.close();
      }
    });
  });

  it('two are missing: the one that came names them', async () => {
    assertRefused(await job.rank(0), /ranks 1 and 2 of 3 did not join within 1500 ms; did they start/);
  });

  it('the first is missing, where the store should be', async () => {
    for (const end of await Promise.all([1, 2].map((rank) => job.rank(rank)))) {
      assertRefused(end, /could not be reached within 1500 ms.*is rank 0 running/);
    }
  });

  it('one is there twice: the second is refused, and the job starts', async () => {
    const joinMs = 30_000;
    const zero = job.rank(0, { joinMs });
    const twice = [2, 2].map((rank) => job.rank(rank, { joinMs }));
    const refused = await Promise.race(twice);
    assertRefused(refused, /another process has joined as rank 2 already/);
    const ends = await Promise.all([zero, job.rank(1, { joinMs }), ...twice]);
    const joined = ends.filter((end) => end !== refused);
    assert.equal(joined.length, SIZE);
    for (const end of joined) assertJoined(end);
  });

  it('one is left from an earlier attempt: it learns that, and the job starts without it', async () => {
    const joinMs = 30_000;
    const leftover = job.rank(2, { joinMs, job: 'attempt 1' });
    const zero = job.rank(0, { joinMs, job: 'attempt 2' });
    assertRefused(await leftover, /another job: its NBC_JOB is 'attempt 1', .* that starts here is 'attempt 2'/);
    const others = [1, 2].map((rank) => job.rank(rank, { joinMs, job: 'attempt 2' }));
    for (const end of await Promise.all([zero, ...others])) assertJoined(end);
  });

  for (const transport of ['tcp', 'shm', 'verbs']) {
    it(`one has another transport, '${transport}': all are told`, async () => {
      const ranks = [0, 1, 2].map((rank) =>
        job.rank(rank, { joinMs: 60_000, transport: rank === 2 ? transport : 'auto' }),
      );
      for (const end of await Promise.all(ranks)) {
        assertRefused(end, new RegExp(`rank 2 runs with transport '${transport}', rank 0 with 'auto': it must be`));
      }
    });
  }

  it('one has another secret: it learns that, and the others name it', async () => {
    const [zero, one, other] = await Promise.all(
      [0, 1, 2].map((rank) => job.rank(rank, rank === 2 ? { secret: 'a quite different secret' } : {})),
    );
    assertRefused(other, /refused this rank: is NBC_SECRET the same on all ranks/);
    for (const end of [zero, one]) assertRefused(end, /rank 2 of 3 did not join within 1500 ms/);
  });
});

describe('nbcrun --store', () => {
  const nbcrun = join(ROOT, 'dist/cli/nbcrun.js');

  it('serves the store of ranks that something else starts, and ends when they have joined', async () => {
    const launch = new Launch(['--store', `127.0.0.1:${await freePort()}`, '-n', '2']);
    try {
      const said = await until('the variables are told', () => /NBC_SECRET=.*\n/.test(launch.stdout) && launch.stdout);
      const told = Object.fromEntries([...said.matchAll(/^(\w+)=(.*)$/gm)].map(([, name, value]) => [name, value]));
      assert.deepEqual(Object.keys(told), ['NBC_STORE', 'NBC_SIZE', 'NBC_SECRET']);
      const ranks = [0, 1].map((rank) =>
        run(process.execPath, [program('exchange')], { ...told, NBC_RANK: `${rank}` }),
      );
      for (const end of await Promise.all(ranks)) assert.equal(end.code, 0, both(end));
      assert.equal((await launch.end).code, 0, launch.stderr);
    } finally {
      launch.cleanUp();
    }
  });

  it('prints an address that other machines reach where it listens at all', async () => {
    const launch = new Launch(['--store', `0.0.0.0:${await freePort()}`, '-n', '2']);
    try {
      const said = await until('the variables are told', () => /NBC_SECRET=.*\n/.test(launch.stdout) && launch.stdout);
      const told = Object.fromEntries([...said.matchAll(/^(\w+)=(.*)$/gm)].map(([, name, value]) => [name, value]));
      const [, host] = /^(.*):\d+$/.exec(told.NBC_STORE)!;
      const outside = Object.values(networkInterfaces()).flatMap((all) => all!.filter(({ internal }) => !internal));
      const addresses = outside.map(({ address }) => address);
      assert(
        addresses.length === 0 ? host === hostname() : addresses.includes(host),
        `${host} of ${addresses.join(', ')}`,
      );
      if (addresses.length === 0) return;
      const ranks = [0, 1].map((rank) =>
        run(process.execPath, [program('exchange')], { ...told, NBC_RANK: `${rank}` }),
      );
      for (const end of await Promise.all(ranks)) assert.equal(end.code, 0, both(end));
    } finally {
      launch.cleanUp();
    }
  });

  it('fails when not all join, takes the secret that is set, and says what is wrong', async () => {
    const place = `127.0.0.1:${await freePort()}`;
    const secret = { NBC_SECRET: 'a secret of this test' };
    const serving = run(process.execPath, [nbcrun, '--store', place, '-n', '3'], secret);
    const rank = { NBC_RANK: '1', NBC_SIZE: '3', NBC_STORE: place, NBC_JOIN_TIMEOUT: `${JOIN_MS}`, ...secret };
    assertRefused(await run(process.execPath, [program('exchange')], rank), /ranks 0 and 2 of 3 did not join/);
    const end = await serving;
    assert.equal(end.code, 1, both(end));
    assert.equal(end.stdout, `NBC_STORE=${place}\nNBC_SIZE=3\n`);
    assert.match(end.stderr, /nbcrun: the job could not start: ranks 0 and 2 of 3 did not join within 1500 ms/);
    for (const [args, message] of [
      [['--store', place], /--store needs the number of ranks, -n/],
      [['--store', place, '-n', '2', 'program.js'], /--store starts no program/],
      [['--store', 'nowhere', '-n', '2'], /--store: must be host:port/],
      [['--store', '192.0.2.77:1', '-n', '2'], /the store cannot be opened at 192\.0\.2\.77:1/],
    ] as const) {
      const wrong = await run(process.execPath, [nbcrun, ...args]);
      assert.equal(wrong.code, 125, both(wrong));
      assert.match(wrong.stderr, message);
    }
    const late = await run(process.execPath, [nbcrun, '--store', place, '-n', '2', '--timeout', '0.2']);
    assert.equal(late.code, 124, both(late));
  });
});
