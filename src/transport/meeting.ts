/**
 * How the ranks of a job come together before the world opens, by what their launcher gave them:
 *
 *     a shared file   all ranks are on this machine, and reach each other through it
 *     a store         each tells all others where it listens; ranks of one host then share a file that one of them makes
 */
import { closeSync, constants, openSync, readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import { OptionError } from '../errors.js';
import type { Native, NativeTcp } from '../native.js';
import type { Bootstrap } from './bootstrap.js';
import type { Settings } from './options.js';
import type { StoreClient, StoreClientOptions } from './store/client.js';
import { exchange, join } from './store/join.js';

/** What the world is opened with. */
export interface Ways {
  transport: Settings['transport'];
  /** Descriptor of the file that ranks of this machine share; -1: none. */
  jobFd: number;
  /** Where all ranks listen, if TCP is needed. Its listening socket belongs to the world that is opened with it. */
  tcp: NativeTcp | undefined;
  /** The caller closes it when the world is open, or could not be opened. */
  closeFile: () => void;
}

interface Place {
  address: string;
  port: number;
  host: string;
}

const NOTHING_TO_CLOSE = (): void => undefined;

/** @throws {BootstrapError} if ranks do not find each other */
export async function meet(native: Native, bootstrap: Bootstrap, settings: Settings): Promise<Ways> {
  const { transport } = settings;
  const { size, jobFd, store } = bootstrap;
  if (transport === 'tcp' && size === 1) return aloneOverTcp(native);
  const overStore = transport === 'tcp' || (transport === 'auto' && jobFd < 0 && size > 1);
  if (!overStore) {
    if (jobFd < 0 && size > 1) throw new OptionError('NBC_JOB_FD', `is not set, and transport '${transport}' needs it`);
    return { transport, jobFd, tcp: undefined, closeFile: NOTHING_TO_CLOSE };
  }
  if (store === undefined) throw new OptionError('NBC_STORE', "is not set; over TCP ranks find each other by it");
  const options = { ...store, rank: bootstrap.rank, size, timeout: settings.joinTimeout };
  return join(options, (client) => tellEverybody(native, client, options, bootstrap.host, settings));
}

async function tellEverybody(
  native: Native,
  client: StoreClient,
  options: StoreClientOptions,
  named: string,
  { transport, tcp: { address: wanted } }: Settings,
): Promise<Ways> {
  const address = wanted === '' ? plain(client.localAddress) : wanted;
  const { fd: listener, port } = native.listenTcp(address);
  try {
    const mine: Place = { address, port, host: hostIdentity(named) };
    const places = (await exchange(client, options, 'place', mine)) as Place[];
    const hosts = numbered(places.map(({ host }) => host));
    const tcp = {
      listener,
      addresses: places.map((place) => place.address),
      ports: places.map((place) => place.port),
      hosts,
      secret: options.secret,
    };
    const neighbours = hosts.filter((host) => host === hosts[options.rank]).length;
    if (transport === 'tcp' || neighbours === 1) {
      return { transport: 'tcp', jobFd: -1, tcp, closeFile: NOTHING_TO_CLOSE };
    }
    const jobFd = await shareFile(native, client, options, hosts);
    const closeFile = (): void => closeSync(jobFd);
    if (neighbours < options.size) return { transport: 'auto', jobFd, tcp, closeFile };
    closeSync(listener);
    return { transport: 'auto', jobFd, tcp: undefined, closeFile };
  } catch (error) {
    closeSync(listener);
    throw error;
  }
}

/** The first rank of each host makes a file without a name, which the others open where the kernel shows it. */
async function shareFile(
  native: Native,
  store: StoreClient,
  { rank, size }: StoreClientOptions,
  hosts: number[],
): Promise<number> {
  const host = hosts[rank];
  const first = hosts.indexOf(host) === rank;
  const fd = first ? native.createJob(size) : undefined;
  if (fd !== undefined) await store.set(`file/${host}`, `/proc/${process.pid}/fd/${fd}`);
  const path = (await store.get(`file/${host}`)) as string;
  const opened = fd ?? openSync(path, constants.O_RDWR);
  await store.barrier('files');
  return opened;
}

function aloneOverTcp(native: Native): Ways {
  const address = '127.0.0.1';
  const { fd, port } = native.listenTcp(address);
  const tcp = { listener: fd, addresses: [address], ports: [port], hosts: [0], secret: '' };
  return { transport: 'tcp', jobFd: -1, tcp, closeFile: NOTHING_TO_CLOSE };
}

/** An IPv4 address that came over an IPv6 socket is one of IPv4. */
function plain(address: string): string {
  return address.startsWith('::ffff:') ? address.slice('::ffff:'.length) : address;
}

/**
 * Equal on ranks that can share memory: one boot of one kernel, one container (whose processes and sockets see each other), and what the
 * user says.
 */
function hostIdentity(named: string): string {
  return [read('/proc/sys/kernel/random/boot_id') ?? hostname(), link('/proc/self/ns/pid'), link('/proc/self/ns/net'), named].join(' ');
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    return undefined;
  }
}

function link(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return '';
  }
}

function numbered(texts: string[]): number[] {
  const first = new Map<string, number>();
  for (const text of texts) if (!first.has(text)) first.set(text, first.size);
  return texts.map((text) => first.get(text) as number);
}
