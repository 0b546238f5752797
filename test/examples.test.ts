/** The small examples: each prints what its first comment says. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { run } from './support/commands.js';
import { ROOT } from './support/launch.js';

const FOLDER = 'examples/calls';
const names = readdirSync(join(ROOT, FOLDER)).map((file) => file.replace(/\.ts$/, ''));

/** The command and the lines that it prints, from the comment of an example. */
function commentOf(name: string): { command: string; printed: string[] } {
  const source = readFileSync(join(ROOT, FOLDER, `${name}.ts`), 'utf8');
  const comment = source.slice(0, source.indexOf('*/'));
  const [command, ...printed] = [...comment.matchAll(/^ \* {5}(\S.*)$/gm)].map(([, line]) => line);
  return { command, printed };
}

describe('the small examples', () => {
  for (const name of names) {
    it(`${name} prints what its comment says`, async () => {
      const { command, printed } = commentOf(name);
      const [launcher, ...args] = command.split(' ');
      assert(['nbcrun', 'node'].includes(launcher), launcher);
      assert.equal(args.at(-1), `out/${FOLDER}/${name}.js`);
      assert.notEqual(printed.length, 0);
      const rest = [...args.slice(0, -1), join(ROOT, args.at(-1)!)];
      const front = launcher === 'nbcrun' ? [join(ROOT, 'dist/cli/nbcrun.js')] : [];
      const { code, stdout, stderr } = await run(process.execPath, [...front, ...rest]);
      assert.equal(code, 0, stdout + stderr);
      // Ranks print in any order.
      assert.deepEqual(stdout.trimEnd().split('\n').sort(), printed.toSorted(), stderr);
    });
  }

  it('are all in the list of examples/README.md', () => {
    const list = readFileSync(join(ROOT, 'examples/README.md'), 'utf8');
    const linked = [...list.matchAll(/\]\(calls\/(\S+)\.ts\)/g)].map(([, name]) => name);
    assert.deepEqual(linked.toSorted(), names.toSorted());
  });

  it('show each family of calls', () => {
    const text = names.map((name) => readFileSync(join(ROOT, FOLDER, `${name}.ts`), 'utf8')).join('\n');
    const families = {
      messages: ['isend', 'irecv', 'isendrecv'],
      collectives: ['ibarrier', 'ibcast', 'iscatter', 'igather', 'iallgather', 'ialltoall'],
      'with counts': ['iscatterv', 'igatherv', 'ialltoallv', 'ialltoallw'],
      reductions: ['ireduce', 'iallreduce', 'ireduceScatterBlock', 'iscan', 'iexscan', 'createOp'],
      neighbourhoods: ['cart', 'distGraph', 'dimsCreate', 'ineighborAllgather', 'ineighborAlltoallv'],
      persistent: ['allreduceInit', 'start', 'free'],
      requests: ['test', 'wait', 'waitAll', 'waitAny', 'testAll'],
      buffers: ['alloc', 'strided'],
      communicators: ['init', 'dup', 'split', 'close'],
      schedules: ['round'],
      values: ['bcast', 'scatter'],
      failures: ['revoke', 'agree', 'shrink', 'abort'],
      threads: ['runRanks', 'createRankPool'],
      seeing: ['utilization', 'stats', 'subscribe'],
    };
    for (const [family, calls] of Object.entries(families)) {
      for (const call of calls) assert.match(text, new RegExp(`\\b${call}(<.*>)?\\(`), `${family}: ${call}`);
    }
  });

  it('have at most forty lines', () => {
    for (const name of names) {
      const lines = readFileSync(join(ROOT, FOLDER, `${name}.ts`), 'utf8')
        .trimEnd()
        .split('\n').length;
      assert(lines <= 40, `${name} has ${lines}`);
    }
  });
});
