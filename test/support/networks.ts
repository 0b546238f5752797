/**
 * Two network stacks joined by a link, as two machines are: two namespaces and a veth pair. They go with this process,
 * however it ends.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';

/** One of them; `address` is its end of the link. */
interface Side {
  holder: ChildProcess;
  address: string;
  name: string;
}

/** Packets that wait out a delay. The default of netem is 1000, and it drops the others. */
const QUEUE = '100000';

export class TwoNetworks {
  private constructor(private readonly sides: readonly Side[]) {}

  /** @returns what is missing for it, as text */
  static async make(): Promise<TwoNetworks | string> {
    if (process.getuid?.() !== 0) return 'only root may make a network namespace';
    for (const program of ['unshare', 'nsenter', 'ip', 'tc']) {
      if (spawnSync(program, ['-V']).error !== undefined)
        return `${program} not found (apt install iproute2 util-linux)`;
    }
    const networks = new TwoNetworks([hold('10.77.0.1', 'veth-a'), hold('10.77.0.2', 'veth-b')]);
    try {
      await Promise.all(networks.sides.map(held));
      networks.join();
      return networks;
    } catch (error) {
      networks.remove();
      return `no link between two network namespaces can be made: ${(error as Error).message.trim()}`;
    }
  }

  get addresses(): string[] {
    return this.sides.map(({ address }) => address);
  }

  /** Runs the rest of its command line on that side, as the same process. */
  wrapper(side: number): string[] {
    return ['nsenter', `--net=/proc/${this.sides[side].holder.pid}/ns/net`];
  }

  /** Both directions carry no more than this, in the words of tc. */
  limit(rate: string): void {
    for (const [side, { name }] of this.sides.entries()) {
      this.run(
        side,
        'tc',
        'qdisc',
        'add',
        'dev',
        name,
        'root',
        'tbf',
        'rate',
        rate,
        'burst',
        '70kb',
        'latency',
        '200ms',
      );
    }
  }

  /** The first side's end goes down; the other side's has no carrier then. Data that are on their way are lost. */
  cut(): void {
    this.run(0, 'ip', 'link', 'set', this.sides[0].name, 'down');
  }

  /** The link as it was before cut(). */
  mend(): void {
    this.run(0, 'ip', 'link', 'set', this.sides[0].name, 'up');
  }

  /** Packets of both directions take so long, some less and some more, and need not keep their order. */
  delay(ms: number): void {
    for (const [side, { name }] of this.sides.entries()) {
      const how = ['delay', `${ms}ms`, `${ms / 2}ms`, 'limit', QUEUE];
      this.run(side, 'tc', 'qdisc', 'add', 'dev', name, 'root', 'netem', ...how);
    }
  }

  /** Whether this kernel has what delay() needs. */
  get canDelay(): boolean {
    const lo = [...this.wrapper(0), 'tc', 'qdisc', 'replace', 'dev', 'lo', 'root', 'netem', 'delay', '0ms'];
    return spawnSync(lo[0], lo.slice(1)).status === 0;
  }

  /** Takes back what limit() or delay() has set. */
  unlimit(): void {
    for (const [side, { name }] of this.sides.entries()) this.run(side, 'tc', 'qdisc', 'del', 'dev', name, 'root');
  }

  /** Each packet comes in four times: an end hands what comes in to itself again, and the kernel ends that. */
  double(): void {
    for (const [side, { name }] of this.sides.entries()) {
      this.run(side, 'tc', 'qdisc', 'add', 'dev', name, 'clsact');
      const all = ['protocol', 'all', 'u32', 'match', 'u32', '0', '0'];
      const again = ['action', 'mirred', 'ingress', 'mirror', 'dev', name];
      this.run(side, 'tc', 'filter', 'add', 'dev', name, 'ingress', ...all, ...again);
    }
  }

  /** Takes back what double() has set. */
  undouble(): void {
    for (const [side, { name }] of this.sides.entries()) this.run(side, 'tc', 'qdisc', 'del', 'dev', name, 'clsact');
  }

  remove(): void {
    for (const { holder } of this.sides) holder.kill('SIGKILL');
  }

  private join(): void {
    const [a, b] = this.sides;
    this.run(0, 'ip', 'link', 'add', a.name, 'type', 'veth', 'peer', 'name', b.name, 'netns', String(b.holder.pid));
    for (const [side, { name, address }] of this.sides.entries()) {
      this.run(side, 'ip', 'address', 'add', `${address}/24`, 'dev', name);
      for (const device of ['lo', name]) this.run(side, 'ip', 'link', 'set', device, 'up');
    }
  }

  private run(side: number, ...command: string[]): void {
    const [file, ...args] = [...this.wrapper(side), ...command];
    const { status, stderr, error } = spawnSync(file, args, { encoding: 'utf8' });
    if (error !== undefined || status !== 0) throw new Error(error?.message ?? stderr);
  }
}

/** A process that keeps a namespace until it is told to end, or its standard input ends because this process has. */
function hold(address: string, name: string): Side {
  const holder = spawn('unshare', ['--net', 'sh', '-c', 'echo held; exec cat'], { stdio: 'pipe' });
  return { holder, address, name };
}

async function held({ holder }: Side): Promise<void> {
  let problem = '';
  holder.stderr!.on('data', (text: Buffer) => (problem += text.toString()));
  const begun = once(holder.stdout!, 'data').then(() => true);
  if (!(await Promise.race([begun, once(holder, 'close').then(() => false)]))) throw new Error(problem);
}
