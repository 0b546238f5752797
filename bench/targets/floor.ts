/** What the machine takes for parts of what bench:targets measures, whatever library is measured: native/floor.cc. */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { GATE_FIFOS } from '#library/bench/nbcbench/gate.js';
import { withProgram } from './native.js';
import { at, jsonOf, type Measurement } from './rows.js';

const COPIES = ['ibcast', 'igather', 'iscatter', 'iallgather', 'ialltoall', 'ireduce', 'iallreduce'] as const;
const STARTS = ['processes', 'threads'] as const;

interface Found {
  copies: Record<(typeof COPIES)[number], number>;
  gate: Record<(typeof STARTS)[number], number>;
}

export const floor = (repetitions: number): Measurement => ({
  rows: [
    ...COPIES.map((op) => ({ what: `the copies or sums of ${op}, 1 MiB, by two threads in C, µs`, digits: 1 })),
    ...STARTS.map((what) => ({ what: `the start gate alone, 16 ${what} in C, µs`, digits: 1 })),
  ],
  measure: () =>
    withProgram('floor', ['bench/targets/native/floor.cc'], ['-pthread', `-I${at('bench')}`], (program, folder) => {
      for (const name of GATE_FIFOS) execFileSync('mkfifo', [join(folder, name)]);
      const { copies, gate } = jsonOf(program, [String(repetitions), folder]) as Found;
      return [...COPIES.map((op) => copies[op]), ...STARTS.map((what) => gate[what])].map((figure) => ({ figure }));
    }),
});
