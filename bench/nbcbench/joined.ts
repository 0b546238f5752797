/**
 * The job in which this process is a rank, as something to measure: ranks that a launcher has started, on one machine
 * or on several (`nbcbench --join`). Commands and what they have found travel over a communicator of their own; between
 * commands ranks await the next one. The times of a repetition are those of each rank's own clock.
 */
import { type Communicator, init, type Request } from 'node-nbc';
import { version } from '#library/cli/version.js';
import { obey, takePart } from './duties.js';
import type { Implementation } from './implementations.js';
import type { Job } from './job.js';
import type { BufferKind, Form } from './wire.js';

/** Of a command, in bytes. */
const LONGEST = 512;
const QUIT = 'quit';

/** One rank's end of what all do together. Every rank must take part in each call, in the same order. */
class Together {
  readonly #line = Buffer.alloc(LONGEST);
  readonly #mine = new Int32Array(1);

  constructor(private readonly ranks: Communicator) {}

  /** The next command: on rank 0 `line`. */
  async tell(line = ''): Promise<string> {
    if (this.ranks.rank === 0 && this.#line.fill(0).write(line) < line.length) throw new Error(`too long: ${line}`);
    await this.ranks.ibcast(this.#line, 0);
    return this.#line.toString('latin1', 0, this.#line.indexOf(0));
  }

  /** On rank 0 what every rank has found; elsewhere nothing. */
  async gather(found: Float64Array): Promise<Float64Array[]> {
    const { rank, size } = this.ranks;
    this.#mine[0] = found.length;
    const counts = new Int32Array(rank === 0 ? size : 0);
    await this.ranks.igather(this.#mine, rank === 0 ? counts : null, 0);
    let end = 0;
    const places = Array.from(counts, (count) => (end += count) - count);
    const all = new Float64Array(end);
    const gathered: Request =
      rank === 0
        ? this.ranks.igatherv(found, all, [...counts], places, 0)
        : this.ranks.igatherv(found, null, null, null, 0);
    await gathered;
    return places.map((place, of) => all.slice(place, place + counts[of]));
  }
}

class JoinedJob implements Job {
  #results: Float64Array[] = [];
  #failed = false;

  constructor(
    readonly ranks: number,
    private readonly together: Together,
  ) {}

  get failed(): boolean {
    return this.#failed;
  }

  async command(...words: (string | number)[]): Promise<void> {
    const line = words.join(' ');
    try {
      await this.together.tell(line);
      this.#results = await this.together.gather((await obey(line)) ?? new Float64Array());
    } catch (error) {
      this.#failed = true;
      throw error;
    }
  }

  results(): Float64Array[] {
    return this.#results;
  }

  /** The ranks stay, for the next measurement. */
  async close(): Promise<void> {}

  kill(): void {
    this.#failed = true;
  }
}

/**
 * Joins the job, and measures it on rank 0, while the others obey. Resolves when all have left the job. If a command
 * fails on any rank the job cannot go on: then rank 0's `measureIt` has been told, and others reject.
 */
export async function measureJoined(
  { buffers = ['plain'], forms = ['nonblocking'] }: { buffers?: readonly BufferKind[]; forms?: readonly Form[] },
  measureIt: (implementation: Implementation, ranks: number) => Promise<void>,
): Promise<void> {
  const world = await init();
  if (world.size < 2) throw new Error('--join: a launcher must have started several ranks, each with this command');
  const together = new Together(await world.dup());
  takePart(world, undefined);
  if (world.rank !== 0) {
    for (let line = await together.tell(); line !== QUIT; line = await together.tell())
      await together.gather((await obey(line)) ?? new Float64Array());
    return world.close();
  }
  const job = new JoinedJob(world.size, together);
  const implementation: Implementation = {
    name: 'node-nbc',
    title: `node-nbc ${version} (Node ${process.versions.node})`,
    transport: process.env['NBC_TRANSPORT'] ?? 'auto',
    progress: process.env['NBC_PROGRESS'] ?? 'thread',
    buffers,
    forms,
    launch: () => Promise.resolve(job),
  };
  await measureIt(implementation, world.size);
  if (job.failed) return;
  await together.tell(QUIT);
  await world.close();
}
