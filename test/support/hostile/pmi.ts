/**
 * A process manager that speaks PMI, and ranks of another version or none, that tell anything. The rank under test
 * finds the others or throws a BootstrapError, in time, and no descriptor is left.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { createConnection, createServer, isIP, type AddressInfo, type Socket } from 'node:net';
import { BootstrapError, OptionError } from 'node-nbc';
import type { VerbsOffer } from '../../../src/native.js';
import { generator } from '../random.js';
import { below, damaged, damagedValue, type Fuzzer, pick, type Random } from './mutations.js';

const dist = (file: string): string => new URL(`../../../../dist/transport/${file}`, import.meta.url).href;
const { throughPmiOf } = (await import(
  dist('directory/pmi.js')
)) as typeof import('../../../src/transport/directory/pmi.js');
const { exchangePlaces } = (await import(dist('meeting.js'))) as typeof import('../../../src/transport/meeting.js');
const { resolveOptions } = (await import(dist('options.js'))) as typeof import('../../../src/transport/options.js');
const { NEVER } = (await import(dist('stop.js'))) as typeof import('../../../src/transport/stop.js');

const HOST = '127.0.0.1';
const TIMEOUT_MS = 200;
/** What may pass beyond that, on a machine that is busy. */
const LATE_MS = 5000;
const OWN = '10.1.0.1';

/** What a native part is asked for before the world opens; counts descriptors. */
class Native {
  readonly open = new Set<number>();
  #opened(): number {
    const fd = openSync('/dev/null', 'r+');
    this.open.add(fd);
    return fd;
  }
  listenTcp(): { fd: number; port: number } {
    return { fd: this.#opened(), port: 4711 };
  }
  allowedProcessors(): number[] {
    return [0];
  }
  createJob(): number {
    return this.#opened();
  }
  closeDescriptor(fd: number): void {
    assert(this.open.delete(fd), `descriptor ${fd} is closed twice`);
    closeSync(fd);
  }
  verbsOffer(): VerbsOffer {
    return { device: 'mlx5_0', offer: 'any bytes' };
  }
  whyNotByVerbs(mine: unknown, theirs: unknown): string {
    // As the real one, which takes texts only.
    assert(typeof mine === 'string' && typeof theirs === 'string', `an offer is ${JSON.stringify(theirs)}`);
    return mine === theirs ? '' : 'its bytes are no offer';
  }
}

const eth0 = { address: OWN, family: 'IPv4', internal: false };
const MACHINE = {
  network: () => 'a',
  interfaces: () => ({ eth0: [eth0] }),
  sourceTo: () => Promise.resolve(OWN),
} as never;

/** What another rank tells where this one tells `mine`: something like it, or anything. */
function told(name: string, mine: unknown, random: Random): unknown {
  const value = structuredClone(mine);
  if (name === 'host' && random() < 0.6)
    Object.assign(value as object, { host: 'b', network: pick(random, ['a', 'b']) });
  if (name === 'file') return pick<unknown>(random, ['', `/proc/${process.pid}/fd/0`, '/etc/passwd', 5, null]);
  return random() < 0.15 ? damagedValue(value, random) : value;
}

/** Answers a request as a process manager does. Puts what the rank tells into `values`. */
function answerTo(line: string, values: Map<string, string>, rank: number, random: Random): string {
  const fields = Object.fromEntries(line.split(' ').map((part) => part.split(/=(.*)/s) as [string, string]));
  const { cmd, key = '', value = '' } = fields as Record<string, string | undefined>;
  switch (cmd) {
    case 'init':
      return 'cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0';
    case 'get_my_kvsname':
      return 'cmd=my_kvsname kvsname=kvs_0';
    case 'put':
      values.set(key, value);
      return 'cmd=put_result rc=0 msg=success';
    case 'barrier_in':
      return 'cmd=barrier_out rc=0';
    case 'finalize':
      return 'cmd=finalize_ack rc=0';
    default: {
      const [, name, of] = /^nbc-(\w+)-(\d+)$/.exec(key)!;
      const own = values.get(`nbc-${name}-${rank}`)!;
      const theirs = told(name, JSON.parse(Buffer.from(own, 'base64url').toString()), random);
      const text = Number(of) === rank ? own : Buffer.from(JSON.stringify(theirs)).toString('base64url');
      return `cmd=get_result rc=0 msg=success value=${text}`;
    }
  }
}

function serve(socket: Socket, rank: number, random: Random): void {
  const values = new Map<string, string>();
  let text = '';
  socket.on('error', () => undefined);
  socket.setEncoding('utf8').on('data', (part: string) => {
    const lines = (text + part).split('\n');
    text = lines.pop()!;
    for (const line of lines) {
      const answer = new TextEncoder().encode(`${answerTo(line, values, rank, random)}\n`);
      const kind = random();
      if (kind < 0.01) socket.destroy();
      else if (kind < 0.015) socket.write('x'.repeat(3 << 20));
      else if (kind < 0.02) socket.write('\n');
      else socket.write(kind < 0.05 ? damaged(answer, random) : answer);
    }
  });
}

/** An input is the seed of a conversation: what the other side says depends on what this rank has said. */
export const PMI: Fuzzer = {
  make: (seed) => new TextEncoder().encode(String(seed)),
  run: (input) => play(generator(Number(new TextDecoder().decode(input)))),
};

async function play(random: Random): Promise<void> {
  const size = 2 + below(random, 2);
  const rank = below(random, size);
  const server = createServer((socket) => serve(socket, rank, random)).listen(0, HOST);
  await once(server, 'listening');
  const socket = createConnection((server.address() as AddressInfo).port, HOST);
  await once(socket, 'connect');
  const native = new Native();
  const settings = resolveOptions({ transport: pick(random, ['auto', 'tcp'] as const) }, {});
  const begin = performance.now();
  let met = false as boolean;
  try {
    const { tcp, jobFd, closeFile } = await throughPmiOf(
      socket,
      { rank, size },
      TIMEOUT_MS,
      async (directory) => {
        const endpoints = await exchangePlaces(native as never, directory, '', settings, MACHINE);
        met = true;
        return endpoints;
      },
      NEVER,
    );
    if (tcp !== undefined) {
      assert(tcp.addresses.length === size && tcp.addresses.every((address) => isIP(address) !== 0));
      assert(tcp.ports.every((port) => Number.isInteger(port) && port > 0 && port < 65_536));
      native.closeDescriptor(tcp.listener);
    }
    assert(Number.isInteger(jobFd));
    closeFile();
    met = false;
  } catch (error) {
    assert(error instanceof BootstrapError || error instanceof OptionError, String((error as Error).stack));
  } finally {
    // Where the process manager fails behind that, meet() closes them.
    assert(met || native.open.size === 0, 'descriptors are left');
    assert(performance.now() - begin < TIMEOUT_MS + LATE_MS, 'it took too long');
    socket.destroy();
    server.close();
    for (const fd of native.open) closeSync(fd);
  }
}
