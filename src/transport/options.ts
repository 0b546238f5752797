/**
 * The options of `init()`: one table, {@link TABLE}, from which everything else follows: the type of the options, their
 * environment variables, defaults and checks, and what native code is given. An option that is given wins over its
 * variable.
 *
 * A new option is a row here, and the field that its reader names: `settings` in TypeScript, a function read_options()
 * in native code (native/addon/options.h). A test compares the two sides.
 */
import { OptionError, show } from '../errors.js';
import { isPlace } from './address.js';

/**
 * Bytes. The paper has 255; on shared memory 4 KiB by mailbox take 0.4 µs and by rendezvous 2.3 µs, and a mailbox of 60
 * KiB still holds 14 of them.
 */
const DEFAULT_EAGER_LIMIT = 4096;

/** Bytes; a mailbox of native/libof/mailbox.h holds four messages of this size. */
const MAX_EAGER_LIMIT = 15320;

/** Bytes; what the header of a message can say. */
const MAX_TCP_EAGER_LIMIT = 65535;

/** Milliseconds; what a timer of Node can hold. */
const MAX_TIMEOUT = 2 ** 31 - 1;

/** Milliseconds; a day. The time that a connection may take to be made is three times as long. */
const MAX_PEER_TIMEOUT = 24 * 60 * 60 * 1000;

/** Microseconds; a bounded poll that blocks the caller for longer than a minute is a mistake in the unit. */
const MAX_POLL = 60e6;

/** Microseconds; nothing else in the event loop goes on meanwhile. */
const MAX_AWAIT_SPIN = 100_000;

/** Events of a trace: of each of its two lists, 32 bytes an event. */
const TRACE_EVENTS = 2 ** 18;
const MAX_TRACE_EVENTS = 2 ** 21;

/** One option: its variable, its default, and what it may be. */
interface Rule<T> {
  variable: string;
  fallback: T;
  /** The value that a text means, or undefined. */
  parse(text: string): unknown;
  /** Whether the value is one. */
  accepts(value: unknown): boolean;
  /** Ends the sentence "must be …". */
  expected: string;
  /** Native code reads it, by its name here. */
  native: boolean;
  /** A list with commas, of which each rank takes one: see {@link inTurn}. */
  inTurn?: boolean;
}

const VERBS = {
  /**
   * The device, by its name (default: the best that works, in turns where several are equal). Several names, with
   * commas between them, are for a machine with several devices: its ranks take them in turns, the first rank of each
   * machine the first device. Variable NBC_VERBS_DEVICE.
   */
  device: native(names('NBC_VERBS_DEVICE')),
  /** The port of the device (default 0: the best). Variable NBC_VERBS_PORT. */
  port: native(integer('NBC_VERBS_PORT', 0, 255, '')),
  /**
   * Which of the port's addresses (default -1: the one that leads to the peer, which differs from host to host).
   * Variable NBC_VERBS_GID_INDEX.
   */
  gidIndex: native(integer('NBC_VERBS_GID_INDEX', -1, 65535, '', -1)),
  /**
   * The partition of InfiniBand, by its key (default 0: the first one of which the port is a full member). Equal on all
   * ranks. Variable NBC_VERBS_PARTITION_KEY.
   */
  partitionKey: native(integer('NBC_VERBS_PARTITION_KEY', 0, 65535, '')),
  /** The service level of InfiniBand's packets, 0 to 15 (default 0). Variable NBC_VERBS_SERVICE_LEVEL. */
  serviceLevel: native(integer('NBC_VERBS_SERVICE_LEVEL', 0, 15, '')),
  /**
   * The traffic class of packets with a global route header (default 0). For RoCE v2 that is the byte of IP with DSCP
   * and ECN: what switches choose a lossless queue by. Variable NBC_VERBS_TRAFFIC_CLASS.
   */
  trafficClass: native(integer('NBC_VERBS_TRAFFIC_CLASS', 0, 255, '')),
  /**
   * How long the device waits for an acknowledgement until it sends again, in ms; devices take the next longer time
   * that they know. Default 0: as long as fits into `peerTimeout`, so that a sweep of the subnet manager or a link that
   * is away for a moment is outlasted. Variable NBC_VERBS_TIMEOUT.
   */
  timeout: native(duration('NBC_VERBS_TIMEOUT', 0, MAX_PEER_TIMEOUT)),
  /** How often it sends again until the connection has broken, 0 to 7 (default 6). Variable NBC_VERBS_RETRIES. */
  retries: native(integer('NBC_VERBS_RETRIES', 6, 7, '')),
  /**
   * How small messages travel. `'write'` (default): written into the receiver's mailbox by RDMA. `'send'`: sent into
   * receives that all peers of a rank share, with flow control. Equal on all ranks. Variable NBC_VERBS_EAGER.
   */
  eager: native(oneOf('NBC_VERBS_EAGER', 'write', ['write', 'send'])),
  /**
   * How many plain buffers stay registered with the network card after use (default 1024), so that to use them again
   * costs nothing. 0: none. Variable NBC_VERBS_CACHE_ENTRIES.
   */
  cacheEntries: native(integer('NBC_VERBS_CACHE_ENTRIES', 1024, 2 ** 20, '')),
  /**
   * How many bytes these may have together (default 2³⁰): that much memory is locked. Variable NBC_VERBS_CACHE_BYTES.
   */
  cacheBytes: native(integer('NBC_VERBS_CACHE_BYTES', 2 ** 30, Number.MAX_SAFE_INTEGER, 'bytes')),
};

const TCP = {
  /**
   * Where this rank listens, and other ranks connect to: a numeric address of this machine, an interface (`'eth0'`) or
   * a network (`'10.1.0.0/16'`), whose first address on this machine it is then (IPv4 before IPv6), so that all
   * machines may be given the same text. Several, with commas between them, are for a machine with several interfaces:
   * its ranks take them in turns, the first rank of each machine the first address.
   *
   * Default: loopback if all ranks are on one machine, else the address from which this rank reaches the store of the
   * job. Where there is no store (PMI, PMIx), a machine's only address, or the one from which the system reaches an
   * address of the other machines; if there is none, `init()` rejects. Variable NBC_TCP_ADDRESS.
   */
  address: {
    variable: 'NBC_TCP_ADDRESS',
    fallback: '' as string,
    native: false,
    parse: (text: string) => text.trim(),
    accepts: (value: unknown) => typeof value === 'string' && value.split(',').every((part) => isPlace(part.trim())),
    expected:
      "a numeric address of one interface of this machine ('10.1.2.3'), the interface ('eth0') or its network " +
      "('10.1.0.0/16'), or several with commas between them",
  },
  /**
   * Largest message, in bytes, that is sent to a rank that is reached by TCP without waiting for its receiver. Default
   * -1: `eagerLimit`, if that is given; else 32 768 in jobs of up to 64 ranks and 8192 in larger ones, since each
   * connection has memory for eight. Equal on all ranks. Variable NBC_TCP_EAGER_LIMIT.
   */
  eagerLimit: native(integer('NBC_TCP_EAGER_LIMIT', -1, MAX_TCP_EAGER_LIMIT, 'bytes', -1)),
};

/** Of the option `transport`. */
export const TRANSPORTS = ['auto', 'shm', 'tcp', 'verbs', 'ucx'] as const;

const COMMON = {
  /**
   * How ranks reach each other; all ranks must say the same. `'shm'`: shared memory of one machine. `'tcp'`: any
   * network. `'verbs'`: RDMA, over InfiniBand or RoCE. `'ucx'`: whatever UCX drives (docs/architecture/ucx.md).
   * `'auto'` (default): shared memory between ranks of one host, and a network to others, side by side. Variable
   * NBC_TRANSPORT.
   *
   * Which network that is depends on how the job was started. Where ranks find each other by a store, PMI or PMIx
   * (docs/jobs.md), it is verbs if every rank reaches all ranks of other hosts by it, else TCP. Ranks are on one host
   * that run on one boot of one kernel, in one process namespace and one network namespace, and whose NBC_HOST are
   * equal. Where they have a file from `nbcrun`, it is verbs, and ranks are on one host if their variables NBC_HOST are
   * equal; not set, as `nbcrun` leaves it, stands for this machine. So only where NBC_HOST is set a device is looked
   * for. Without an active one the rank still reaches the ranks of its host; what needs another host fails with an
   * `UnreachableError` that says what is missing. `'shm'`, `'verbs'` and `'ucx'` connect to every rank, and NBC_HOST is
   * not read.
   */
  transport: oneOf('NBC_TRANSPORT', 'auto', TRANSPORTS),
  /**
   * How long, in milliseconds, ranks that find each other through a store, PMI or PMIx wait for those that are missing
   * (default 60 000). Variable NBC_JOIN_TIMEOUT.
   */
  joinTimeout: integer('NBC_JOIN_TIMEOUT', 60_000, MAX_TIMEOUT, 'milliseconds', 1),
  /**
   * How long, in milliseconds, another rank, its machine or the network to it may be silent until this rank gives it up
   * for good (default 10 000, at least 1000): what needs it fails with a `PeerLostError`. A rank that computes is not
   * silent: its threads answer. One whose process is stopped is, by a signal or a debugger for example. In the variable
   * NBC_PEER_TIMEOUT, a unit may follow: `30s`.
   */
  peerTimeout: native(duration('NBC_PEER_TIMEOUT', 10_000, MAX_PEER_TIMEOUT, 1000)),
  /**
   * `'thread'` (default): operations progress by themselves. `'manual'`: only inside calls of this library, as in the
   * LibOF paper. Variable NBC_PROGRESS.
   */
  progress: native(oneOf('NBC_PROGRESS', 'thread', ['thread', 'manual'])),
  /**
   * Largest message, in bytes, that is sent without waiting for its receiver (default 4096; over TCP see
   * `tcp.eagerLimit`). Equal on all ranks. Variable NBC_EAGER_LIMIT.
   */
  eagerLimit: native(integer('NBC_EAGER_LIMIT', DEFAULT_EAGER_LIMIT, MAX_EAGER_LIMIT, 'bytes')),
  /**
   * Whether starting an operation also begins to send and receive (default true). Variable NBC_TEST_ON_INIT (1 or 0).
   */
  testOnInit: native(flag('NBC_TEST_ON_INIT', true)),
  /**
   * How long, in microseconds, starting a large send waits for its receiver (default 0: not at all). Variable
   * NBC_WAIT_ON_SEND.
   */
  waitOnSend: native(integer('NBC_WAIT_ON_SEND', 0, MAX_POLL, 'microseconds')),
  /**
   * How long, in microseconds, a started round drives its sends together until all their receivers are ready (default
   * 0: not at all). Variable NBC_STARTALL.
   */
  startall: native(integer('NBC_STARTALL', 0, MAX_POLL, 'microseconds')),
  /**
   * How long, in microseconds, the event loop is held while an awaited request may end at any moment (default 100; 0:
   * not at all). A short wait then costs no wake-up; what takes longer is slept for. Variable NBC_AWAIT_SPIN.
   */
  awaitSpin: integer('NBC_AWAIT_SPIN', 100, MAX_AWAIT_SPIN, 'microseconds'),
  /** Time limit, in milliseconds, of `wait()` and of awaited requests (default 0: none). Variable NBC_TIMEOUT. */
  timeout: integer('NBC_TIMEOUT', 0, MAX_TIMEOUT, 'milliseconds'),
  /**
   * How long, in milliseconds, an operation may be pending without any step of this rank until it is reported (default
   * 0: never). Under `nbcrun` the report says what every rank of the job waits for; else this rank writes its own to
   * standard error. Nothing else happens. In the variable NBC_WATCHDOG, a unit may follow: `30s`.
   */
  watchdog: native(duration('NBC_WATCHDOG', 0, MAX_TIMEOUT)),
  /**
   * Whether `nbctop` of this user may look at this rank: `'on'`, `'off'`, or a folder for its socket, which must be
   * this user's alone (mode 0700) and is made if there is none. Default `'off'`; `nbcrun` sets the variable to `on`. It
   * costs a socket and the thread that answers `nbcrun`, and nothing as long as nobody looks. Variable NBC_MONITOR.
   */
  monitor: native(place('NBC_MONITOR', 'off')),
  /**
   * Whether large plain buffers may be copied straight from process to process. `'auto'` (default): where the system
   * allows it. `'off'`: always through shared memory. Variable NBC_CROSS_MEMORY.
   */
  crossMemory: native(oneOf('NBC_CROSS_MEMORY', 'auto', ['auto', 'off'])),
  /**
   * How many bytes of memory this rank can expose to others at most: buffers of `alloc()`, and what operations need for
   * a time. Address space for them is reserved; memory is only what is touched. Default 0: as much as the machine has
   * memory, or, where address space is limited (`ulimit -v`), what fits in it. What `nbcrun` reserves for its ranks it
   * takes from the variable; a rank can only have less. Variable NBC_EXPOSED_BYTES.
   */
  exposedBytes: native(integer('NBC_EXPOSED_BYTES', 0, Number.MAX_SAFE_INTEGER, 'bytes')),
  /**
   * A file for the trace of this rank: what it called, its operations and their rounds, its messages, and the work of
   * the progress thread. It is written when the world closes, or when the process exits, in the format that Perfetto
   * and chrome://tracing read. `{rank}` in the name stands for the rank; without it, the rank of a job with several
   * ranks comes before the file's extension. Default: none. Variable NBC_TRACE.
   */
  trace: text('NBC_TRACE', 'the name of a file'),
  /**
   * Whether each request remembers the line of the program that started it (default false), which takes some
   * microseconds: a `MismatchError` then names it. Variable NBC_DEBUG.
   */
  debug: flag('NBC_DEBUG', false),
  /**
   * How many records a trace holds of calls, and how many of all else (default 262 144). An operation is one, with the
   * call that starts it; a message is one to four. What comes later is left out, and counted. Variable
   * NBC_TRACE_EVENTS.
   */
  traceEvents: native(integer('NBC_TRACE_EVENTS', TRACE_EVENTS, MAX_TRACE_EVENTS, '', 1)),
};

/** Every option. Groups are objects of options of their own. */
const TABLE = { ...COMMON, tcp: TCP, verbs: VERBS };

type Value<R> = R extends Rule<infer T> ? T : never;
type Given<Rules> = { [Name in keyof Rules]?: Value<Rules[Name]> | undefined };
type Resolved<Rules> = { [Name in keyof Rules]: Value<Rules[Name]> };

/** Options of verbs, for `transport: 'verbs'` and `'auto'`. */
export type VerbsOptions = Given<typeof VERBS>;

/** Options of TCP, for `transport: 'tcp'` and `'auto'`. */
export type TcpOptions = Given<typeof TCP>;

/** What `init()` takes. Each option has an environment variable, and a default. */
export interface InitOptions extends Given<typeof COMMON> {
  /** Options of TCP, for `transport: 'tcp'` and `'auto'`. */
  tcp?: TcpOptions | undefined;
  /** Options of verbs, for `transport: 'verbs'` and `'auto'`. */
  verbs?: VerbsOptions | undefined;
}

/** Complete and checked options. */
export interface Settings extends Resolved<typeof COMMON> {
  tcp: Resolved<typeof TCP>;
  verbs: Resolved<typeof VERBS>;
}

type Environment = Record<string, string | undefined>;

/**
 * Options, environment and defaults, in this order.
 * @throws {OptionError} naming the option or the variable
 */
export function resolveOptions(options: InitOptions = {}, environment: Environment = process.env): Settings {
  mustBeGroup('options', options, Object.keys(TABLE));
  const { tcp = {}, verbs = {}, ...common } = options;
  mustBeGroup('tcp', tcp, Object.keys(TCP), 'tcp.');
  mustBeGroup('verbs', verbs, Object.keys(VERBS), 'verbs.');
  const ofTcp = resolveAll(TCP, tcp, environment, 'tcp.');
  const given = resolve('eagerLimit', { ...COMMON.eagerLimit, fallback: -1 }, common.eagerLimit, environment);
  return {
    ...resolveAll(COMMON, common, environment),
    tcp: ofTcp.eagerLimit === -1 ? { ...ofTcp, eagerLimit: given } : ofTcp,
    verbs: resolveAll(VERBS, verbs, environment, 'verbs.'),
  };
}

/** One option of the table, with its group: `'verbs.port'`. */
interface NamedRule {
  name: string;
  rule: Rule<unknown>;
  valueIn: (settings: Settings) => string | number | boolean;
}

/** Every option, by its full name. */
export function allOptions(): NamedRule[] {
  return Object.entries(TABLE).flatMap(([name, row]) => {
    if (isRule(row)) {
      return [{ name, rule: row, valueIn: (settings) => settings[name as keyof typeof COMMON] } satisfies NamedRule];
    }
    return Object.entries(row).map(([inner, rule]: [string, Rule<unknown>]): NamedRule => {
      type Group = Record<string, string | number | boolean>;
      const valueIn = (settings: Settings): string | number | boolean =>
        (settings[name as 'tcp' | 'verbs'] as Group)[inner];
      return { name: `${name}.${inner}`, rule, valueIn };
    });
  });
}

/** What native code is told: its options by their full names. */
export function nativeOptions(settings: Settings, turn: number): Record<string, string | number | boolean> {
  const chosen = allOptions().filter(({ rule }) => rule.native);
  const values = Object.fromEntries(
    chosen.map(({ name, rule, valueIn }) => {
      const value = valueIn(settings);
      return [name, rule.inTurn === true ? inTurn(value as string, turn) : value];
    }),
  );
  return settings.trace === '' ? { ...values, traceEvents: 0 } : values;
}

function isRule(row: object): row is Rule<unknown> {
  return 'variable' in row;
}

/** What nbcrun reserves for each rank. @throws {OptionError} */
export function exposedBytes(environment: Environment = process.env): number {
  return resolve('exposedBytes', COMMON.exposedBytes, undefined, environment);
}

/** What one rank takes of a list with commas, of devices or addresses: see {@link VerbsOptions.device}. */
export function inTurn(list: string, turn: number): string {
  const parts = list.split(',');
  return parts[turn % parts.length].trim();
}

/** How many ranks of its host come before this one. `hosts`: of all ranks, as numbers; undefined: they are on one. */
export function turnOnHost(rank: number, hosts: readonly number[] | undefined): number {
  return hosts === undefined ? rank : hosts.slice(0, rank).filter((host) => host === hosts[rank]).length;
}

/** Whether this is an object with options of these names and no others. */
function mustBeGroup(group: string, given: unknown, names: string[], prefix = ''): void {
  if (typeof given !== 'object' || given === null)
    throw new OptionError(group, `must be an object, not ${show(given)}`);
  for (const name of Object.keys(given)) {
    if (!names.includes(name)) {
      throw new OptionError(`${prefix}${name}`, `no such option; there are ${names.join(', ')}`);
    }
  }
}

function resolveAll<T extends Record<string, Rule<unknown>>>(
  rules: T,
  given: Given<T>,
  environment: Environment,
  prefix = '',
): Resolved<T> {
  const names = Object.keys(rules) as (keyof T & string)[];
  return Object.fromEntries(
    names.map((name) => [name, resolve(`${prefix}${name}`, rules[name], given[name], environment)]),
  ) as Resolved<T>;
}

function resolve<T>(option: string, rule: Rule<T>, given: unknown, environment: Environment): T {
  if (given !== undefined) return check(option, rule, given, given);
  const text = environment[rule.variable];
  if (text === undefined || text === '') return rule.fallback;
  return check(rule.variable, rule, rule.parse(text), text);
}

function check<T>(name: string, rule: Rule<T>, value: unknown, shown: unknown): T {
  if (rule.accepts(value)) return value as T;
  throw new OptionError(name, `must be ${rule.expected}, not ${show(shown)}`);
}

/** An option that native code reads. */
function native<T>(rule: Rule<T>): Rule<T> {
  return { ...rule, native: true };
}

function oneOf<const T extends string>(variable: string, fallback: T, values: readonly T[]): Rule<T> {
  const expected = values.map((value) => `'${value}'`).join(' or ');
  return {
    variable,
    fallback,
    expected,
    native: false,
    parse: (text) => text.trim().toLowerCase(),
    accepts: (value) => values.includes(value as T),
  };
}

function integer(variable: string, fallback: number, max: number, unit: string, min = 0): Rule<number> {
  return {
    variable,
    fallback,
    expected: `a whole number ${unit === '' ? '' : `of ${unit} `}from ${min} to ${max}`,
    native: false,
    parse: (text) => (/^\s*-?\d+\s*$/.test(text) ? Number(text) : undefined),
    accepts: (value) => Number.isInteger(value) && (value as number) >= min && (value as number) <= max,
  };
}

const UNITS: Readonly<Record<string, number>> = { '': 1, ms: 1, s: 1000, m: 60_000 };

/** Milliseconds; in the environment, with a unit. */
function duration(variable: string, fallback: number, max: number, min = 0): Rule<number> {
  const rule = integer(variable, fallback, max, 'milliseconds', min);
  const parse = (text: string): number | undefined => {
    const found = /^\s*(\d+)\s*(ms|s|m|)\s*$/.exec(text);
    return found === null ? undefined : Number(found[1]) * UNITS[found[2]];
  };
  return { ...rule, parse, expected: `${rule.expected} (in the environment, also with a unit: 500ms, 30s, 2m)` };
}

function names(variable: string): Rule<string> {
  const complete = (text: string) => text === '' || text.split(',').every((part) => part.trim() !== '');
  return {
    variable,
    fallback: '',
    inTurn: true,
    expected: 'a name, or several with commas between them',
    native: false,
    parse: (text) => text.trim(),
    accepts: (value) => typeof value === 'string' && complete(value),
  };
}

function text(variable: string, expected: string): Rule<string> {
  return {
    variable,
    expected,
    fallback: '',
    native: false,
    parse: (value) => value,
    accepts: (value) => typeof value === 'string',
  };
}

/** Off, on, or a folder. */
function place(variable: string, fallback: string): Rule<string> {
  const short = new Map([
    ['1', 'on'],
    ['0', 'off'],
  ]);
  return {
    variable,
    fallback,
    expected: "'on', 'off', or the path of a folder, with a slash in it",
    native: false,
    parse: (value) => short.get(value) ?? value,
    accepts: (value) => typeof value === 'string' && (value === 'on' || value === 'off' || value.includes('/')),
  };
}

function flag(variable: string, fallback: boolean): Rule<boolean> {
  const texts = new Map([
    ...['1', 'true', 'yes', 'on'].map((text) => [text, true] as const),
    ...['0', 'false', 'no', 'off'].map((text) => [text, false] as const),
  ]);
  return {
    variable,
    fallback,
    expected: 'true or false (in the environment: 1 or 0)',
    native: false,
    parse: (text) => texts.get(text.trim().toLowerCase()),
    accepts: (value) => typeof value === 'boolean',
  };
}
