/** iallreduce over TCP on a link of 1 Gbit/s, beside Open MPI: nbcbench under scripts/slow-link. */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Row as Point } from '#library/bench/nbcbench/report.js';
import { at, type Measurement } from './rows.js';

export const link = (repetitions: number): Measurement => ({
  rows: [
    { what: 'iallreduce of 1 MiB at 1 Gbit/s: overhead, % of its blocking time', must: 3, aim: 1 },
    { what: 'the same: blocking, of Open MPI’s over TCP', must: 1.15, aim: 1 },
  ],
  measure() {
    const folder = mkdtempSync(join(tmpdir(), 'nbc-link-'));
    try {
      const json = join(folder, 'points.json');
      const what =
        '--ops iallreduce --sizes 1M --ranks 2 --transport tcp --buffers plain --intervals 0 --peers openmpi';
      const limits = ['--repetitions', String(repetitions), '--max-seconds', '20', '--json', json];
      const nbcbench = [process.execPath, at('dist/bench/nbcbench/main.js'), ...what.split(' '), ...limits];
      const { status, stderr } = spawnSync(at('scripts/slow-link'), ['--', ...nbcbench], { encoding: 'utf8' });
      if (!existsSync(json)) throw new Error(stderr.trim().split('\n').at(-1) ?? `it ended with ${status}`);
      const points = JSON.parse(readFileSync(json, 'utf8')) as Point[];
      const of = (implementation: string) => points.find((point) => point.implementation === implementation);
      const [ours, theirs] = [of('node-nbc'), of('openmpi')];
      if (ours === undefined) throw new Error('nbcbench has measured nothing');
      const overhead = { figure: (100 * ours.overhead_us) / ours.blocking_us, note: `${ours.overhead_us} µs` };
      if (theirs === undefined) return [overhead, { note: 'Open MPI is not installed' }];
      const note = `${ours.blocking_us.toFixed(0)} and ${theirs.blocking_us.toFixed(0)} µs`;
      return [overhead, { figure: ours.blocking_us / theirs.blocking_us, note }];
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  },
});
