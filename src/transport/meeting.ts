/**
 * How the ranks of a job come together before the world opens, by what their launcher gave them:
 *
 *     a shared file   all ranks are on this machine, and reach each other through it
 *     a directory     each tells all others where it listens; ranks of one host then share a file that one of them
 *                     makes
 */
import { closeSync, constants, openSync, readFileSync, readlinkSync } from 'node:fs';
import { crypto, os } from '../builtins.js';
import { BootstrapError, OptionError } from '../errors.js';
import type { Native, NativeTcp } from '../native.js';
import { formatCpuList, parseCpuList } from '../processors.js';
import { candidatesOf, chooseAddress, findAddress, isLoopback, type Machine, sourceTo } from './address.js';
import type { Bootstrap } from './bootstrap.js';
import type { Directory } from './directory/directory.js';
import { throughPmi } from './directory/pmi.js';
import { throughPmix } from './directory/pmix.js';
import { throughStore } from './directory/store.js';
import {
  exchange,
  isAddress,
  isAddresses,
  isCpuList,
  isObjectOf,
  isPort,
  isProcess,
  isText,
  isTextOf,
  mustAllBe,
} from './directory/told.js';
import { chooseNetworks, type Ways } from './network.js';
import { inTurn, type Settings, TRANSPORTS, turnOnHost } from './options.js';
import { NEVER, type Stop } from './stop.js';

/** What the world is opened with. */
export interface Endpoints {
  transport: Settings['transport'];
  /** Descriptor of the file that ranks of this machine share; -1: none. */
  jobFd: number;
  /**
   * Where all ranks listen, if TCP is needed, for messages or for verbs to connect. Its listening socket belongs to the
   * world that is opened with it.
   */
  tcp: NativeTcp | undefined;
  /** The networks to other hosts, with 'auto'; undefined: there was nothing to choose. */
  networks?: Ways | undefined;
  /** Processes of ranks on this host, by rank, whose ends no socket tells; 0: of another host. */
  neighbours: number[];
  /** The caller closes it when the world is open, or could not be opened. */
  closeFile: () => void;
}

/** Where a rank runs. */
interface Home {
  transport: Settings['transport'];
  host: string;
  /** Equal on ranks whose machine has the same addresses. */
  network: string;
  /** What it may use, as the kernel writes it. */
  processors: string;
  /** Its number, for ranks in the same process namespace. */
  process: number;
}

interface Place {
  address: string;
  port: number;
  /** For who connects by verbs. */
  cards: number;
}

const isTransport = (value: unknown): value is Settings['transport'] =>
  (TRANSPORTS as readonly unknown[]).includes(value);
const hasTransport = isObjectOf<Pick<Home, 'transport'>>({ transport: isTransport });
const isHome = isObjectOf<Home>({
  transport: isTransport,
  host: isText,
  network: isText,
  processors: isCpuList,
  process: isProcess,
});
const isPlace = isObjectOf<Place>({ address: isAddress, port: isPort, cards: isPort });
const isKey = isTextOf(/^[0-9a-f]{64}$/);
/** What {@link shareFile} makes, or nothing. */
const isFile = isTextOf(/^(\/proc\/\d+\/fd\/\d+)?$/);
const isDone = (value: unknown): value is 1 => value === 1;

const LOOPBACK = '127.0.0.1';
const THIS_MACHINE: Machine = { network: networkIdentity, interfaces: () => os().networkInterfaces(), sourceTo };
const NOTHING_TO_CLOSE = (): void => undefined;

/**
 * @throws {BootstrapError} if ranks do not find each other
 * @throws {OptionError} if it is not known where this rank is to listen
 */
export async function meet(
  native: Native,
  bootstrap: Bootstrap,
  settings: Settings,
  machine: Machine = THIS_MACHINE,
  stop: Stop = NEVER,
): Promise<Endpoints> {
  const { transport } = settings;
  const { size, jobFd } = bootstrap;
  if (transport === 'tcp' && size === 1) return aloneOverTcp(native);
  const apart = transport === 'tcp' || (transport !== 'shm' && jobFd < 0 && size > 1);
  if (!apart) {
    if (jobFd < 0 && size > 1) await refuseWithoutFile(native, bootstrap, settings, stop);
    return { transport, jobFd, tcp: undefined, neighbours: [], closeFile: NOTHING_TO_CLOSE };
  }
  let endpoints: Endpoints | undefined;
  try {
    return await throughDirectory(
      native,
      bootstrap,
      settings,
      stop,
      async (directory) => (endpoints = await exchangePlaces(native, directory, bootstrap.host, settings, machine)),
    );
  } catch (error) {
    // The directory may fail when all has been told. Then what was opened is closed again.
    for (const tcp of [endpoints?.tcp, endpoints?.tcp?.cards])
      if (tcp !== undefined) native.closeDescriptor(tcp.listener);
    endpoints?.closeFile();
    throw error;
  }
}

/** Joins the directory that the launcher offers, for as long as `meet` takes. @throws {BootstrapError | OptionError} */
async function throughDirectory<T>(
  native: Native,
  bootstrap: Bootstrap,
  { transport, joinTimeout }: Settings,
  stop: Stop,
  meet: (directory: Directory) => Promise<T>,
): Promise<T> {
  const { rank, size, jobFd, store, pmi, pmix } = bootstrap;
  const objection = transport === 'tcp' && jobFd >= 0 ? () => whoSharesMemory(native, bootstrap) : undefined;
  if (store !== undefined) return throughStore({ ...store, rank, size, timeout: joinTimeout, objection, stop }, meet);
  if (pmi !== undefined) return throughPmi(pmi, joinTimeout, meet, stop);
  if (pmix) return throughPmix(native, { rank, size }, joinTimeout, meet, stop);
  throw new OptionError('NBC_STORE', 'is not set; ranks that share no file find each other by it');
}

/**
 * Shared memory needs the file of nbcrun. Where there is a directory, ranks with another transport are told
 * so, instead of waiting for this one.
 */
async function refuseWithoutFile(native: Native, bootstrap: Bootstrap, settings: Settings, stop: Stop): Promise<never> {
  const { store, pmi, pmix } = bootstrap;
  const { transport } = settings;
  if (store !== undefined || pmi !== undefined || pmix) {
    await throughDirectory(native, bootstrap, settings, stop, async (directory) =>
      mustAgree(directory, await exchange(directory, 'host', { transport }, hasTransport)),
    );
  }
  const advice =
    "start the program with nbcrun, or use 'auto', which shares memory within each host under all launchers";
  throw new OptionError('NBC_JOB_FD', `is not set, and transport '${transport}' needs it: ${advice}`);
}

/** Under nbcrun a rank with transport 'tcp' has a file, too, by which others may be waiting for it. */
function whoSharesMemory(native: Native, { jobFd, rank }: Bootstrap): string | undefined {
  const other = native.declareElsewhere(jobFd, rank);
  return other < 0 ? undefined : differ(rank, 'tcp', other, 'auto or shm');
}

/**
 * In a directory: ranks tell where they are and listen. Ranks of a host then share a file.
 * @throws {BootstrapError | OptionError}
 */
export async function exchangePlaces(
  native: Native,
  directory: Directory,
  named: string,
  settings: Settings,
  machine: Machine,
): Promise<Endpoints> {
  const { rank, size } = directory;
  const { transport, exposedBytes } = settings;
  const wanted = settings.tcp.address;
  const network = machine.network();
  const mine: Home = {
    transport,
    host: hostIdentity(network, named),
    network,
    processors: formatCpuList(native.allowedProcessors()),
    process: process.pid,
  };
  // A rank with another transport may have told nothing but that.
  const told = await exchange(directory, 'host', mine as Pick<Home, 'transport'>, hasTransport);
  await mustAgree(directory, told);
  const homes = mustAllBe(isHome, told, directory, 'host');
  const hosts = numbered(homes.map(({ host }) => host));
  const here = homes.filter(({ host }) => host === mine.host);
  const neighbours = homes.map((home) => (home.host === mine.host ? home.process : 0));
  // Ranks may be bound one by one, so only all of them together tell how many processors they have.
  const processors = new Set(here.flatMap((home) => parseCpuList(home.processors))).size;
  const key = directory.key ?? (await sharedKey(directory));
  const known = await findOwnAddress(directory, homes, machine);
  const address =
    wanted === '' ? await known() : findAddress(inTurn(wanted, turnOnHost(rank, hosts)), machine.interfaces());
  const apart = transport === 'auto' && here.length < size;
  const networks = apart ? await chooseNetworks(native, directory, hosts, settings) : undefined;
  const names = [...new Set(networks?.ways.filter((way) => way !== 'none'))];
  const sockets: { fd: number; port: number }[] = [];
  try {
    // One for each network: who connects says no more than who it is.
    sockets.push(...(names.length > 1 ? [1, 2] : [1]).map(() => native.listenTcp(address)));
    const [first, second = first] = sockets;
    const places = await exchange(directory, 'place', { address, port: first.port, cards: second.port }, isPlace);
    const ports = places.map((place) => place.port);
    const cardPorts = places.map((place) => place.cards);
    const tcp = {
      listener: first.fd,
      addresses: places.map((place) => place.address),
      ports: names.length === 1 && names[0] === 'verbs' ? cardPorts : ports,
      cards: names.length > 1 ? { listener: second.fd, ports: cardPorts } : undefined,
      hosts,
      processors,
      secret: key,
    };
    // With 'auto' all ranks take part in the making of files, also those who have no use for one.
    const file = transport === 'auto' ? await shareFile(native, directory, hosts, exposedBytes, processors) : undefined;
    if (file === undefined) {
      const alone = transport !== 'auto' ? transport : names.length > 1 ? 'auto' : (names[0] ?? 'tcp');
      return { transport: alone, jobFd: -1, tcp, networks, neighbours: [], closeFile: NOTHING_TO_CLOSE };
    }
    const { jobFd, closeFile } = file;
    if (here.length < size) return { transport: 'auto', jobFd, tcp, networks, neighbours, closeFile };
    native.closeDescriptor(first.fd);
    return { transport: 'auto', jobFd, tcp: undefined, neighbours, closeFile };
  } catch (error) {
    for (const { fd } of sockets) native.closeDescriptor(fd);
    throw error;
  }
}

/**
 * Ranks with other transports would not be where this one looks for them. All ranks find the same two.
 * @throws {BootstrapError} naming both
 */
async function mustAgree(directory: Directory, homes: readonly Pick<Home, 'transport'>[]): Promise<void> {
  const [{ transport: first }] = homes;
  const other = homes.findIndex(({ transport }) => transport !== first);
  if (other < 0) return;
  // Nobody leaves, and takes the store along, before all have read what all have told.
  await exchange(directory, 'disagree', 1, isDone).catch(() => undefined);
  throw new BootstrapError(differ(other, homes[other].transport, 0, first), directory.rank);
}

function differ(one: number, its: string, other: number, transport: string): string {
  return (
    `rank ${one} runs with transport '${its}', rank ${other} with '${transport}': it must be the same on all ranks ` +
    '(option transport, variable NBC_TRANSPORT)'
  );
}

/** Where the process manager keeps other jobs out, the key of this one is the one that rank 0 makes. */
async function sharedKey(directory: Directory): Promise<string> {
  const [key] = await exchange(directory, 'key', newKey(), isKey);
  return key;
}

function newKey(): string {
  return crypto().randomBytes(32).toString('hex');
}

/**
 * Finds loopback if no other machine has ranks, otherwise the address that is known to be reached, or one that can be.
 * All ranks call it, since they exchange their addresses here. A rank that was not told its address (NBC_TCP_ADDRESS)
 * then calls the function that it returns.
 */
async function findOwnAddress(
  directory: Directory,
  homes: readonly Home[],
  machine: Machine,
): Promise<() => string | Promise<string>> {
  const { rank, localAddress } = directory;
  const known = plain(localAddress ?? LOOPBACK);
  if (homes.every(({ host }) => host === homes[rank].host)) return () => LOOPBACK;
  const networks = numbered(homes.map(({ network }) => network));
  // Hosts by name only, or containers with one network.
  if (networks.every((network) => network === 0)) return () => known;
  const told = await exchange(directory, 'addresses', candidatesOf(machine.interfaces()), isAddresses);
  const firsts = [...new Set(networks)].map((network) => told[networks.indexOf(network)]);
  return () => (isLoopback(known) ? chooseAddress(firsts, networks[rank], machine) : known);
}

/**
 * The first rank of each host makes a file without a name, which the others open where the kernel shows it.
 * @returns undefined on a rank that is alone on its host
 */
async function shareFile(
  native: Native,
  directory: Directory,
  hosts: number[],
  exposed: number,
  processors: number,
): Promise<{ jobFd: number; closeFile: () => void } | undefined> {
  const { rank, size } = directory;
  const here = [...hosts.keys()].filter((other) => hosts[other] === hosts[rank]);
  const [first] = here;
  const shared = here.length > 1;
  const made = shared && first === rank ? native.createJob(size, exposed, here, processors) : -1;
  let opened = made;
  // The runtime closes what the runtime opened, and native code the rest: Deno knows its own descriptors only.
  const closeFile = (): void => (made < 0 ? closeSync(opened) : native.closeDescriptor(made));
  try {
    const paths = await exchange(directory, 'file', made < 0 ? '' : `/proc/${process.pid}/fd/${made}`, isFile);
    if (shared && made < 0) opened = openShared(paths[first], first, rank);
    // All have opened it: the rank that made it may close its descriptor.
    await exchange(directory, 'opened', 1, isDone);
    return opened < 0 ? undefined : { jobFd: opened, closeFile };
  } catch (error) {
    if (opened >= 0) closeFile();
    throw error;
  }
}

function openShared(path: string, owner: number, rank: number): number {
  try {
    return openSync(path, constants.O_RDWR);
  } catch (error) {
    throw new BootstrapError(
      `the memory of rank ${owner} cannot be shared: ${(error as Error).message}; ranks of a host run as one user, or with NBC_TRANSPORT=tcp`,
      rank,
    );
  }
}

function aloneOverTcp(native: Native): Endpoints {
  const { fd, port } = native.listenTcp(LOOPBACK);
  const tcp = { listener: fd, addresses: [LOOPBACK], ports: [port], hosts: [0], processors: 1, secret: newKey() };
  return { transport: 'tcp', jobFd: -1, tcp, neighbours: [], closeFile: NOTHING_TO_CLOSE };
}

/** An IPv4 address that came over an IPv6 socket is one of IPv4. */
function plain(address: string): string {
  return address.startsWith('::ffff:') ? address.slice('::ffff:'.length) : address;
}

/**
 * Equal on ranks that can share memory: one boot of one kernel, one container (whose processes and sockets see each
 * other), and what the user says.
 */
function hostIdentity(network: string, named: string): string {
  return [network, link('/proc/self/ns/pid'), named].join(' ');
}

/** Equal where the same interfaces are seen. */
function networkIdentity(): string {
  return `${read('/proc/sys/kernel/random/boot_id') ?? os().hostname()} ${link('/proc/self/ns/net')}`;
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
  return texts.map((text) => first.get(text)!);
}
