/**
 * A Slurm of a test's own: munged, slurmctld and a slurmd for each node, all on loopback, with their files in a
 * directory that goes with them. The daemons are children of the test that stay in the foreground, and end even if the
 * test is killed. Nothing that is installed on the machine is touched or needed but the programs: no service, no
 * configuration, no key.
 *
 * Two nodes on one machine have loopback's first two addresses as names, so that these can be looked up by all that
 * are told them.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { hostname, tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { freePort, run } from './commands.js';
import { isAlive } from './hang.js';
import type { End } from './launch.js';
import { kill, processesWith } from './processes.js';
import { until } from './until.js';

export const NODES = ['127.0.0.1', '127.0.0.2'];
const CPUS_PER_NODE = 8;
/** Where Debian has daemons; a user's PATH may lack it. */
const PATH = `${process.env['PATH']}:/usr/sbin:/sbin`;
const QUESTION_S = 5;

/** The programs that are not installed. */
export function missingPrograms(): string[] {
  const needed = ['munged', 'munge', 'slurmctld', 'slurmd', 'srun', 'sbatch', 'setpriv'];
  return needed.filter((name) => spawnSync(name, ['--version'], { env: { PATH } }).error !== undefined);
}

export class Slurm {
  readonly directory = mkdtempSync(join(tmpdir(), 'nbc-slurm-'));
  readonly #daemons: ChildProcess[] = [];
  /** In the environment of everything that Slurm starts, so what is left over can be found by it. */
  readonly #env = { PATH, SLURM_CONF: join(this.directory, 'slurm.conf') };

  /** Returns when both nodes can be used. */
  static async start(): Promise<Slurm> {
    const slurm = new Slurm();
    try {
      await slurm.#start();
    } catch (error) {
      const logs = slurm.logs();
      await slurm.stop();
      throw new Error(`no Slurm: ${(error as Error).message}\n${logs}`, { cause: error });
    }
    return slurm;
  }

  /** Runs one of Slurm's commands. */
  run(command: string, args: readonly string[], env: Record<string, string> = {}): Promise<End> {
    return run(command, args, { ...env, ...this.#env });
  }

  /** Processes of this Slurm that live: daemons, and what they started. */
  processes(): number[] {
    return processesWith(this.#env.SLURM_CONF);
  }

  /** What the daemons said. */
  logs(): string {
    const files = readdirSync(this.directory).filter((name) => name.endsWith('.log'));
    return files.map((name) => `--- ${name}\n${readFileSync(join(this.directory, name), 'utf8')}`).join('\n');
  }

  /** Ends all of it, whatever state it is in. */
  async stop(): Promise<void> {
    try {
      // First those that start others.
      for (const { pid } of this.#daemons) if (pid !== undefined) kill(pid);
      await until(`the daemons of ${this.directory} end`, () => {
        for (const pid of this.processes()) kill(pid);
        return this.#daemons.every(({ pid }) => pid === undefined || !isAlive(pid)) && this.processes().length === 0;
      });
    } finally {
      rmSync(this.directory, { recursive: true, force: true });
    }
  }

  async #start(): Promise<void> {
    const [munge, state, pmix] = ['munge', 'state', 'pmix'].map((name) => join(this.directory, name));
    // Every user of munge must reach its socket, and munged insists on that.
    chmodSync(this.directory, 0o755);
    mkdirSync(munge, { mode: 0o755 });
    mkdirSync(state);
    // Otherwise the PMIx of every Slurm uses the same names in /tmp, where another one may have left them.
    mkdirSync(pmix);
    writeFileSync(join(this.directory, 'mpi.conf'), `PMIxCliTmpDirBase=${pmix}\n`);
    const socket = join(munge, 'socket');
    const key = join(munge, 'key');
    writeFileSync(key, randomBytes(128), { mode: 0o400 });
    writeFileSync(this.#env.SLURM_CONF, await this.#configuration(socket, state));

    const files = ['pid', 'log', 'seed'].map((name) => `--${name}-file=${join(munge, name)}`);
    this.#daemon('munged', ['--foreground', `--socket=${socket}`, `--key-file=${key}`, ...files]);
    await this.#answers('munged', 'munge', ['--no-input', `--socket=${socket}`], () => true);
    this.#daemon('slurmctld', ['-D', '-c']);
    for (const node of NODES) this.#daemon('slurmd', ['-D', '-N', node]);
    await this.#answers('nodes', 'sinfo', ['--noheader', '--Node', '--format=%T'], (answer) => {
      const states = answer.trim().split(/\s+/);
      return states.length === NODES.length && states.every((state) => state === 'idle');
    });
  }

  async #configuration(mungeSocket: string, state: string): Promise<string> {
    const [host] = hostname().split('.');
    const user = userInfo().username;
    const nodes: string[] = [];
    for (const node of NODES) {
      const port = await freePort();
      nodes.push(`NodeName=${node} NodeAddr=${node} NodeHostname=${host} Port=${port} CPUs=${CPUS_PER_NODE}`);
    }
    return [
      'ClusterName=nbc',
      `SlurmctldHost=${host}(127.0.0.1)`,
      `SlurmctldPort=${await freePort()}`,
      `SlurmUser=${user}`,
      `SlurmdUser=${user}`,
      'AuthType=auth/munge',
      'CredType=cred/munge',
      `AuthInfo=socket=${mungeSocket}`,
      `StateSaveLocation=${state}`,
      `SlurmctldPidFile=${join(this.directory, 'slurmctld.pid')}`,
      `SlurmdPidFile=${join(this.directory, 'slurmd.%n.pid')}`,
      `SlurmdSpoolDir=${join(this.directory, 'spool.%n')}`,
      // The plainest plugins: no cgroups, no binding, no accounts.
      'ProctrackType=proctrack/linuxproc',
      'TaskPlugin=task/none',
      'SwitchType=switch/none',
      'SelectType=select/cons_tres',
      'SelectTypeParameters=CR_CPU',
      'MpiDefault=none',
      // The machine may have fewer processors than its nodes say.
      'SlurmdParameters=config_overrides',
      ...nodes,
      'PartitionName=all Nodes=ALL Default=YES State=UP',
      '',
    ].join('\n');
  }

  #daemon(program: string, args: readonly string[]): void {
    const log = openSync(join(this.directory, `${this.#daemons.length}-${program}.log`), 'w');
    const command = ['--pdeathsig', 'KILL', program, ...args];
    const child = spawn('setpriv', command, { env: this.#env, stdio: ['ignore', log, log] });
    child.on('error', () => undefined); // it has no pid then, and is not alive
    this.#daemons.push(child);
    closeSync(log);
  }

  /** Asks until the answer is as it should be; fails at once if a daemon has ended. */
  async #answers(
    what: string,
    command: string,
    args: readonly string[],
    good: (answer: string) => boolean,
  ): Promise<void> {
    await until(`${what} answers`, async () => {
      const gone = this.#daemons.find(({ pid }) => pid === undefined || !isAlive(pid));
      if (gone !== undefined) throw new Error(`${gone.spawnargs.slice(3).join(' ')} has ended`);
      const { code, stdout } = await run(command, args, this.#env, { limitS: QUESTION_S });
      return code === 0 && good(stdout);
    });
  }
}
