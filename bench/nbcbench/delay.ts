/** A network that takes its time: netem on interfaces of this machine, which only root may set. */
import { spawnSync } from 'node:child_process';

/**
 * Packets that wait out the delay at one interface. netem's own limit, 1000, would drop what a software RDMA device has
 * on its way.
 */
const QUEUE = 100_000;

export class Delays {
  readonly #interfaces: readonly string[];
  #set = false;

  constructor(interfaces: readonly string[]) {
    this.#interfaces = interfaces;
    process.on('exit', () => this.remove());
  }

  /** From now on what leaves by these interfaces arrives so many milliseconds later than it would. */
  set(ms: number): void {
    if (ms === 0) {
      this.remove();
      return;
    }
    this.#set = true;
    for (const name of this.#interfaces) {
      const { status, stderr, error } = tc('replace', name, 'netem', 'delay', `${ms}ms`, 'limit', String(QUEUE));
      if (error) throw new Error(`tc: ${error.message} (Debian: apt install iproute2)`);
      if (status !== 0) throw new Error(`a delay on the interface ${name}: ${stderr.trim()}`);
    }
  }

  remove(): void {
    if (!this.#set) return;
    for (const name of this.#interfaces) tc('del', name);
    this.#set = false;
  }
}

function tc(verb: string, name: string, ...words: string[]) {
  return spawnSync('tc', ['qdisc', verb, 'dev', name, 'root', ...words], { encoding: 'utf8' });
}
