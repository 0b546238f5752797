/** The address of this machine that a rank tells the others: what is asked for by NBC_TCP_ADDRESS, or found out. */
import type { BlockList } from 'node:net';
import type { networkInterfaces } from 'node:os';
import { dgram, net } from '../builtins.js';
import { OptionError } from '../errors.js';

/** The interfaces of a machine, as `os.networkInterfaces()` returns them. */
export type Interfaces = ReturnType<typeof networkInterfaces>;

/** What is asked of the system; tests make one up. */
export interface Machine {
  /** Equal on those that see the same interfaces. */
  network(): string;
  interfaces(): Interfaces;
  /** The address of this machine from which it reaches that one; undefined: it does not. */
  sourceTo(address: string): Promise<string | undefined>;
}

/** How many addresses a rank tells: a process manager's values have less than a kilobyte. */
const MOST_CANDIDATES = 12;

/**
 * Whether this is an address, a network or a name of an interface, as {@link findAddress} takes it; also if this
 * machine has no such thing.
 */
export function isPlace(text: string): boolean {
  return isOneAddress(text) || networkOf(text) !== undefined || isInterfaceName(text);
}

/**
 * The numeric address of this machine that is meant: an address as it is; of an interface (`eth0`) or a network
 * (`10.1.0.0/16`) the first there.
 * @throws {OptionError} listing what there is
 */
export function findAddress(place: string, interfaces: Interfaces): string {
  if (isOneAddress(place)) return place;
  const network = networkOf(place);
  const found = usable(interfaces).find(({ name, address, family }) =>
    network === undefined ? name === place : network.check(address, family),
  );
  if (found !== undefined) return found.address;
  const what = network === undefined ? `interface '${place}' with an address` : `address in the network ${place}`;
  throw new OptionError('NBC_TCP_ADDRESS', `this machine has no ${what}; it has ${listed(interfaces)}`);
}

/** Addresses at which other machines may reach this one, IPv4 before IPv6. */
export function candidatesOf(interfaces: Interfaces): string[] {
  const outside = usable(interfaces).filter(({ internal }) => !internal);
  return outside.map(({ address }) => address).slice(0, MOST_CANDIDATES);
}

/** Whether it stands for all addresses of a machine, and so for none that another machine could reach. */
export function isWildcard(address: string): boolean {
  return address === '0.0.0.0' || /^[0:]*:[0:]*$/.test(address);
}

export function isLoopback(address: string): boolean {
  return address === '::1' || address.startsWith('127.');
}

/**
 * Which of its candidates a machine tells, when each knows those of all, in the same order everywhere; `mine` is the
 * index of this one's. All go by the candidates of the first machine, so that machines with several networks in common
 * agree on one. What is also another machine's (bridges of containers have the same address everywhere) leads nowhere.
 * @throws {OptionError} if the system reaches nobody from here
 */
export async function chooseAddress(all: readonly string[][], mine: number, machine: Machine): Promise<string> {
  const own = all[mine];
  if (own.length === 1) return own[0];
  const others = mine === 0 ? all.slice(1).flat() : all[0];
  const sources = await Promise.all(others.filter((to) => !own.includes(to)).map((to) => machine.sourceTo(to)));
  const reached = (address: string | undefined): boolean => address !== undefined && own.includes(address);
  const found = mine === 0 ? own.find((address) => sources.includes(address)) : sources.find(reached);
  if (found !== undefined) return found;
  throw new OptionError(
    'NBC_TCP_ADDRESS',
    `is not set, and it is not known at which address others reach this machine, which has ${listed(machine.interfaces())}: ` +
      "set it to an address, an interface ('eth0') or a network ('10.1.0.0/16'), which may be the same text on all machines",
  );
}

/** See {@link Machine}: what a socket that is connected to it has as its own address. No packet is sent for that. */
export async function sourceTo(address: string): Promise<string | undefined> {
  if (net().isIP(address) === 0) return undefined;
  const socket = dgram().createSocket(net().isIP(address) === 6 ? 'udp6' : 'udp4');
  return new Promise<string | undefined>((resolve) => {
    socket.once('error', () => resolve(undefined));
    socket.once('connect', () => resolve(socket.address().address));
    socket.connect(9, address);
  }).finally(() => socket.close());
}

interface Usable {
  name: string;
  address: string;
  family: 'ipv4' | 'ipv6';
  internal: boolean;
}

/** Link-local addresses of IPv6 mean nothing without the interface, which has other names elsewhere. */
function usable(interfaces: Interfaces): Usable[] {
  const all = Object.entries(interfaces).flatMap(([name, addresses]) =>
    (addresses ?? []).map(({ address, family, internal }): Usable => {
      return { name, address, family: family === 'IPv4' ? 'ipv4' : 'ipv6', internal };
    }),
  );
  const global = all.filter(({ address, family }) => family === 'ipv4' || !/^fe[89ab]/i.test(address));
  return global.sort((a, b) => a.family.localeCompare(b.family));
}

/** `lo (127.0.0.1, ::1), eth0 (10.1.2.3)` */
function listed(interfaces: Interfaces): string {
  const names = new Map<string, string[]>();
  for (const { name, address } of usable(interfaces)) names.set(name, [...(names.get(name) ?? []), address]);
  return [...names].map(([name, addresses]) => `${name} (${addresses.join(', ')})`).join(', ') || 'no address at all';
}

/** All interfaces at once (0.0.0.0) are no address to connect to, and open a port where no rank needs one. */
function isOneAddress(text: string): boolean {
  const version = net().isIP(text);
  if (version === 0 || text.includes('%')) return false;
  const { address } = new (net().SocketAddress)({ address: text, family: `ipv${version as 4 | 6}` });
  return !['0.0.0.0', '::', '::ffff:0.0.0.0'].includes(address);
}

function networkOf(text: string): BlockList | undefined {
  const [, address = '', bits = ''] = /^([^/%]+)\/(\d{1,3})$/.exec(text) ?? [];
  const version = net().isIP(address);
  if (version === 0 || Number(bits) > (version === 4 ? 32 : 128)) return undefined;
  const network = new (net().BlockList)();
  network.addSubnet(address, Number(bits), `ipv${version as 4 | 6}`);
  return network;
}

/** What has no letter is an address with a typing error. */
function isInterfaceName(text: string): boolean {
  return /^[^\s/:%,]{1,15}$/.test(text) && /[a-z]/i.test(text);
}
