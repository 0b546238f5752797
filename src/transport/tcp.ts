/**
 * What a rank needs before it opens a world over TCP: a socket to listen on, and where all others listen.
 */
import { closeSync, readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { OptionError } from '../errors.js';
import type { Native, NativeTcp } from '../native.js';
import type { Bootstrap } from './bootstrap.js';
import { join } from './store/join.js';

interface Place {
  address: string;
  port: number;
  host: string;
}

interface TcpSettings {
  /** Numeric; empty: the one from which the store is reached. */
  address: string;
  /** Milliseconds. */
  joinTimeout: number;
}

/**
 * Opens the listening socket and tells the other ranks. The socket belongs to the world that is opened with it.
 * @throws {BootstrapError} if ranks do not find each other
 */
export async function meetOverTcp(native: Native, bootstrap: Bootstrap, settings: TcpSettings): Promise<NativeTcp> {
  const { rank, size, store } = bootstrap;
  if (size === 1) return alone(native);
  if (store === undefined) {
    throw new OptionError('NBC_STORE', "is not set; transport 'tcp' needs it to find the other ranks, see docs");
  }
  let listener: number | undefined;
  try {
    const options = { ...store, rank, size, timeout: settings.joinTimeout };
    const all = await join(options, (localAddress): Place => {
      const address = settings.address === '' ? plain(localAddress) : settings.address;
      const { fd, port } = native.listenTcp(address);
      listener = fd;
      return { address, port, host: hostIdentity(bootstrap.host) };
    });
    const places = all as Place[];
    return {
      listener: listener ?? -1,
      addresses: places.map(({ address }) => address),
      ports: places.map(({ port }) => port),
      hosts: numbered(places.map(({ host }) => host)),
      secret: store.secret,
    };
  } catch (error) {
    if (listener !== undefined) closeSync(listener);
    throw error;
  }
}

function alone(native: Native): NativeTcp {
  const address = '127.0.0.1';
  const { fd, port } = native.listenTcp(address);
  return { listener: fd, addresses: [address], ports: [port], hosts: [0], secret: '' };
}

/** An IPv4 address that came over an IPv6 socket is one of IPv4. */
function plain(address: string): string {
  return address.startsWith('::ffff:') ? address.slice('::ffff:'.length) : address;
}

/** Equal on all ranks of one machine, and on no others: the kernel's boot, and what the user says. */
function hostIdentity(named: string): string {
  let boot: string;
  try {
    boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    boot = hostname();
  }
  return `${boot} ${named}`;
}

function numbered(texts: string[]): number[] {
  const first = new Map<string, number>();
  for (const text of texts) if (!first.has(text)) first.set(text, first.size);
  return texts.map((text) => first.get(text) as number);
}
