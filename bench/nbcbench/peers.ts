/**
 * The same method on MPI libraries: our C program, built with each MPI that is installed and started by its launcher.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildGate } from './gate.js';
import type { Implementation } from './implementations.js';
import { BenchJob } from './job.js';
import type { Placement } from './placement.js';

const source = fileURLToPath(new URL('../../../bench/peers/nbcbench_mpi.c', import.meta.url));

interface Mpi {
  name: string;
  title: string;
  compiler: string;
  launcher: string;
  /** Debian's package that brings both. */
  package: string;
  /** Where to read the version, and how to find it there. */
  version: { command: string[]; pattern: RegExp };
  flags(placement: Placement): string[];
  env: Record<string, string>;
  /** What keeps it from shared memory: TCP over loopback. */
  tcp: { flags: string[]; env: Record<string, string> };
}

/** What carries messages between the ranks of a peer. */
export type PeerTransport = 'shm' | 'tcp';

const mpis: readonly Mpi[] = [
  {
    name: 'openmpi',
    title: 'Open MPI',
    compiler: 'mpicc.openmpi',
    launcher: 'mpirun.openmpi',
    package: 'libopenmpi-dev',
    version: { command: ['mpirun.openmpi', '--version'], pattern: /\(Open(?:RTE| MPI)\) (\S+)/ },
    // The program binds itself (see nbcbench_mpi.c). --oversubscribe also makes waiting ranks yield.
    flags: (placement) => ['--bind-to', 'none', ...(placement.dedicated ? [] : ['--oversubscribe'])],
    env: process.getuid?.() === 0 ? { OMPI_ALLOW_RUN_AS_ROOT: '1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: '1' } : {},
    tcp: { flags: '--mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include lo'.split(' '), env: {} },
  },
  {
    name: 'mpich',
    title: 'MPICH',
    compiler: 'mpicc.mpich',
    launcher: 'mpirun.mpich',
    package: 'libmpich-dev',
    version: { command: ['mpirun.mpich', '--version'], pattern: /Version:\s*(\S+)/ },
    flags: () => ['-bind-to', 'none'],
    env: {},
    // Of the two networks it may be built with, one hears one variable and the other the other. UCX left alone takes
    // shared memory.
    tcp: { flags: [], env: { MPIR_CVAR_NOLOCAL: '1', FI_PROVIDER: 'tcp', UCX_TLS: 'tcp,self' } },
  },
];

const missing = (command: string): boolean =>
  (spawnSync(command, ['--version'], { stdio: 'ignore' }).error as NodeJS.ErrnoException | undefined)?.code ===
  'ENOENT';

export const peerNames: readonly string[] = mpis.map(({ name }) => name);

/** Of an installed peer; empty if it does not tell. */
export function peerVersion(name: string): string {
  const mpi = mpis.find((other) => other.name === name);
  if (mpi === undefined) return '';
  const [command, ...args] = mpi.version.command;
  return mpi.version.pattern.exec(spawnSync(command, args, { encoding: 'utf8' }).stdout)?.[1] ?? '';
}

/**
 * Builds the program for every MPI of these names that is found, in a directory that goes when nbcbench does. An MPI
 * that is missing or does not build is left out, and `warn` is told what to do about it.
 */
export function findPeers(
  names: readonly string[],
  transport: PeerTransport,
  warn: (text: string) => void,
): Implementation[] {
  const found: Implementation[] = [];
  let directory: string | undefined;
  for (const mpi of mpis.filter(({ name }) => names.includes(name))) {
    const absent = [mpi.compiler, mpi.launcher].filter(missing);
    if (absent.length > 0) {
      warn(`${mpi.title} is left out: ${absent.join(' and ')} not found; on Debian install ${mpi.package}`);
      continue;
    }
    if (directory === undefined) {
      const made = (directory = mkdtempSync(join(tmpdir(), 'nbcbench-peers-')));
      process.on('exit', () => rmSync(made, { recursive: true, force: true }));
      buildGate(made, warn);
    }
    const program = join(directory, mpi.name);
    const built = spawnSync(mpi.compiler, ['-O2', '-std=gnu11', source, '-o', program, '-lm'], { encoding: 'utf8' });
    if (built.status !== 0) {
      warn(`${mpi.title} is left out: ${mpi.compiler} could not build ${source}\n${built.stderr}`);
      continue;
    }
    found.push(peer(mpi, program, transport));
  }
  return found;
}

function peer(mpi: Mpi, program: string, transport: PeerTransport): Implementation {
  const over = transport === 'tcp' ? mpi.tcp : { flags: [], env: {} };
  return {
    name: mpi.name,
    title: `${mpi.title} ${peerVersion(mpi.name)}`.trim(),
    transport,
    progress: 'manual', // neither has a progress thread unless asked for one
    buffers: ['plain'],
    forms: ['nonblocking'], // Open MPI 4.1 has no other in MPI's own names
    launch: (ranks, placement) =>
      BenchJob.launch(mpi.name, ranks, (directory) => ({
        commands: [
          {
            file: mpi.launcher,
            arguments: [
              '-n',
              String(ranks),
              ...mpi.flags(placement),
              ...over.flags,
              program,
              directory,
              placement.cpus?.join(',') ?? '-',
            ],
            env: { ...process.env, ...mpi.env, ...over.env },
          },
        ],
      })),
  };
}
