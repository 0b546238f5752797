/**
 * Every runtime that node-nbc supports, with one addon: the first program of the README, the collectives in their short
 * form, buffers that the program loses while an operation uses them, a close that the event loop has not heard of, and
 * the 3D FFT.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { BRIEF, inFull, reports, runRanks, skip } from './helpers.js';
import { ROOT } from './support/launch.js';
import { run as runCommand } from './support/commands.js';
import { findRuntime, type Runtime, RUNTIMES } from './support/runtimes.js';

const NBCRUN = join(ROOT, 'dist/cli/nbcrun.js');
const FFT3D = join(ROOT, 'out/examples/fft3d/main.js');

const USING = 'await using world = await init(); await world.ibarrier();';

/** In brief, the other releases of Node.js run the first programs only. */
const IN_BRIEF: readonly string[] = ['deno', 'bun', 'node20'];

for (const name of RUNTIMES) {
  describe(`in ${name}`, () => {
    let runtime: Runtime;
    let folder: string | undefined;

    before(function () {
      const found = findRuntime(name);
      if (typeof found === 'string') skip(this, found);
      runtime = found;
      // Inside the package, where its own name stands for it.
      folder = mkdtempSync(join(ROOT, 'out/runtimes-'));
    });
    after(() => {
      if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
    });

    /** Its standard output, if it succeeds. */
    async function run(...args: string[]): Promise<string> {
      const [file, ...options] = runtime.command;
      const { code, signal, stdout, stderr } = await runCommand(file, [...options, ...args]);
      assert.equal(code, 0, `${name} ${args.join(' ')}: ${signal ?? `exit code ${code}`}\n${stdout}${stderr}`);
      return stdout;
    }

    it("runs the README's first program, and nbcrun", async () => {
      const program = /^```js\n([^]*?)^```$/m.exec(readFileSync(join(ROOT, 'README.md'), 'utf8'))?.[1];
      assert.ok(program !== undefined, 'the README has no block of js');
      const first = join(folder!, 'first.mjs');
      writeFileSync(first, program);
      const lines = (await run(NBCRUN, '-n', '2', first)).trim().split('\n');
      assert.deepEqual(lines.sort(), ['rank 0 received 0,1', 'rank 1 received 0,1']);
      assert.equal(await run(first), 'rank 0 received 0\n');
    });

    it('is loaded by require()', async () => {
      const program = "const { init } = require('node-nbc');\ninit().then((world) => world.close());\n";
      writeFileSync(join(folder!, 'first.cjs'), program);
      await run(join(folder!, 'first.cjs'));
    });

    it('leaves the job where a block with `await using` ends', async () => {
      // What Node.js 20 and 22 do not parse, a compiler makes a call of.
      const old = name === 'node20' || name === 'node22';
      const body = old ? 'const world = await init(); await world[Symbol.asyncDispose]();' : USING;
      const program = `import { init } from 'node-nbc';\n{ ${body} }\nconst again = await init();\nawait again.close();\n`;
      writeFileSync(join(folder!, 'using.mjs'), program);
      await run(join(folder!, 'using.mjs'));
    });

    it(name === 'deno' || name === 'bun' ? 'copies buffers' : "holds the buffers' memory", async () => {
      const addon = join(ROOT, 'build/Release/nbc.node');
      const program = `console.log(require(${JSON.stringify(addon)}).copiesBuffers ? 'copies' : 'holds');\n`;
      writeFileSync(join(folder!, 'copies.cjs'), program);
      assert.equal((await run(join(folder!, 'copies.cjs'))).trim(), runtime.holdsMemory ? 'holds' : 'copies');
    });

    if (BRIEF && !IN_BRIEF.includes(name)) return;

    inFull('runs the collectives', async () => {
      const args = ['thread', 'short'];
      const results = await runRanks('collectives', { size: 2, args, runtime: runtime.command });
      for (const { cases } of reports<{ cases: number }>(results)) assert.ok(cases > 0);
    });

    it('closes with a call of the event loop outstanding', async () => {
      for (let turn = 0; turn < 3; turn++) await runRanks('rung', { size: 2, runtime: runtime.command });
    });

    it('loses no memory with a buffer that the program loses', async () => {
      const command = [...runtime.command, runtime.exposeGc];
      const args = ['dropped,transferred,lent,posted,grown,collected,small'];
      await runRanks('lifetime', { size: 2, args, runtime: command });
    });

    inFull('runs the 3D FFT', async () => {
      const output = await run(NBCRUN, '-n', '2', FFT3D, '--grid', '16', '--repetitions', '1', '--output', folder!);
      assert.match(output, /^verified$/m);
    });
  });
}
