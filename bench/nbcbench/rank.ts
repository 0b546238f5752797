/**
 * One rank of node-nbc under nbcbench, which drives it over FIFOs in one directory, the only argument. (Ranks of MPI,
 * bench/peers/nbcbench_mpi.c, are driven alike.)
 *
 *     ctl.R      commands to rank R, one line each; blocking in read() is how a rank waits for its turn
 *     done       answers of all ranks: "R ok" or "R error TEXT"
 *     result.R   doubles, rewritten by every command that measures
 *     gate.count, gate.in, gate.0, gate.1   the start gate for more ranks than processors (gate.h)
 *
 * The commands are those of duties.ts, and `quit`.
 */
import { spawnSync } from 'node:child_process';
import { constants, openSync, readlinkSync, readSync, writeFileSync, writeSync } from 'node:fs';
import { basename, join } from 'node:path';
import { init } from 'node-nbc';
import { obey, takePart } from './duties.js';
import { openGate } from './gate.js';

if (process.argv.length !== 3) {
  process.stderr.write('usage: rank.js DIRECTORY (started by nbcbench)\n');
  process.exit(2);
}
const directory = process.argv[2];
let rank = Number(process.env['NBC_RANK'] ?? 0);

/** A rank that is a thread runs where nbcbench says; processes are started there. */
function bind(): void {
  const { NBCBENCH_PROCESSORS: processors, NBC_RANK } = process.env;
  if (processors === undefined) return;
  const thread = basename(readlinkSync('/proc/thread-self'));
  const { status } = spawnSync('taskset', ['-p', '-c', processors.split(',')[Number(NBC_RANK)], thread]);
  if (status !== 0) throw new Error('cannot be bound to its processor (taskset)');
}

const done = openSync(join(directory, 'done'), constants.O_WRONLY);
try {
  bind();
  const world = await init();
  ({ rank } = world);
  const control = openSync(join(directory, `ctl.${rank}`), constants.O_RDONLY);
  takePart(world, openGate(directory, rank, world.size));

  const buffer = Buffer.alloc(512);
  for (;;) {
    writeSync(done, `${rank} ok\n`);
    let got = 0; // one command is outstanding at a time, so what read() returns ends with its end of line
    do {
      const more = readSync(control, buffer, got, buffer.length - got, null);
      if (more === 0) process.exit(1); // nbcbench is gone
      got += more;
    } while (buffer[got - 1] !== 10);
    const line = buffer.toString('latin1', 0, got).trim();
    if (line === 'quit') break;
    const result = await obey(line);
    if (result) writeFileSync(join(directory, `result.${rank}`), result);
  }
  await world.close();
} catch (error) {
  const text = error instanceof Error ? error.message : String(error);
  writeSync(done, `${rank} error ${text.replaceAll('\n', ' ').slice(0, 400)}\n`);
  process.exit(1);
}
