/** node-nbc as something to measure. */
import { fileURLToPath } from 'node:url';
import { native } from '#library/native.js';
import { openLocalStore } from '#library/transport/store/local.js';
import type { Implementation } from './implementations.js';
import { BenchJob } from './job.js';
import { VARIABLES, type Way } from './ways.js';
import type { Placement } from './placement.js';
import type { BufferKind, Form } from './wire.js';
import { version } from '#library/cli/version.js';

const JOIN_TIMEOUT_MS = 60_000;

const path = (url: string): string => fileURLToPath(new URL(url, import.meta.url));
const program = path('rank.js');
const NBCRUN = path('../../cli/nbcrun.js');

/** What rows have as their transport where ranks are threads. */
export const THREADS = 'threads';

export interface Setting {
  /** One of the paper's modes. Absent: as the environment says. */
  way?: Way | undefined;
  /** Default: nonblocking. */
  forms?: readonly Form[];
  /** More variables for the ranks. */
  environment?: Readonly<Record<string, string>>;
}

export interface NodeNbc extends Implementation {
  launch(ranks: number, placement: Placement): Promise<BenchJob>;
}

/** `transport`: one of init(), or {@link THREADS}. */
export function nodeNbc(
  transport: string,
  progress: string,
  buffers: readonly BufferKind[],
  { way, forms = ['nonblocking'], environment = {} }: Setting = {},
): NodeNbc {
  return {
    name: 'node-nbc',
    title: `node-nbc ${version} (Node ${process.versions.node})`,
    transport,
    progress,
    ...(way === undefined ? {} : { way }),
    buffers,
    forms,
    async launch(ranks, placement) {
      const settings = { NBC_PROGRESS: progress, ...(way === undefined ? {} : VARIABLES[way]), ...environment };
      if (transport === THREADS) return launchThreads(ranks, placement, settings);
      const store = await openLocalStore(ranks, JOIN_TIMEOUT_MS);
      const started = BenchJob.launch('node-nbc', ranks, (directory) => ({
        inherit: native.createJob(ranks, 0),
        commands: Array.from({ length: ranks }, (_, rank) => {
          const node = [process.execPath, program, directory];
          const [file, ...rest] = placement.cpus ? ['taskset', '-c', String(placement.cpus[rank]), ...node] : node;
          const env = {
            ...process.env,
            NBC_RANK: String(rank),
            NBC_SIZE: String(ranks),
            NBC_JOB_FD: '3',
            ...store.environment,
            NBC_TRANSPORT: transport,
            ...settings,
          };
          return { file, arguments: rest, env };
        }),
      }));
      return started.finally(() => store.close());
    },
  };
}

/** Each thread takes its processor itself (rank.ts). */
function launchThreads(ranks: number, { cpus }: Placement, settings: NodeJS.ProcessEnv): Promise<BenchJob> {
  const env = { ...process.env, ...settings, ...(cpus && { NBCBENCH_PROCESSORS: cpus.join(',') }) };
  const args = [NBCRUN, '-n', String(ranks), '--threads', program];
  return BenchJob.launch('node-nbc', ranks, (directory) => ({
    commands: [{ file: process.execPath, arguments: [...args, directory], env }],
  }));
}
