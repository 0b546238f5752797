/** Follows a page of documentation from top to bottom, as a reader does, and compares what its commands print. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import ts from 'typescript';
import { run } from './commands.js';
import { type Block, framed, kindOf, PROGRAM_LINE } from './documents.js';
import { ROOT } from './launch.js';

/** Stands for the reader's own, where a page runs `program.mjs` and does not show it. */
const READERS_PROGRAM = `import { init } from 'node-nbc';
const world = await init();
await world.ibarrier();
await world.close();
`;

/**
 * Writes the programs of a page, each named by its first line, and runs its commands and fragments in turn. A line that
 * is printed is the expected one, but for what stands at its …; the ranks' lines come in any order. What is printed
 * must be shown. A page without a command of `program.mjs` has no such file.
 */
export async function follow(blocks: readonly Block[]): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'nbc-page-'));
  try {
    mkdirSync(join(folder, 'node_modules'));
    symlinkSync(ROOT, join(folder, 'node_modules/node-nbc'));
    writeFileSync(join(folder, 'program.mjs'), READERS_PROGRAM);
    const programs = new Map<string, string>();
    let printed = ''; // by commands, and not compared yet
    let before = '';
    for (const block of blocks) {
      const where = `${block.file}, line ${block.line}`;
      const kind = kindOf(block);
      if (kind === 'program') writeProgram(folder, programs, block.text, where);
      if (kind === 'command' || kind === 'fragment') {
        assert.equal(printed, '', `${before}: what it prints is not shown`);
        before = where;
        printed =
          kind === 'command' ? await outputOfAll(folder, block, where) : await outputOfFragment(folder, block, where);
      }
      if (kind === 'output') {
        assert.notEqual(before, '', `${where}: no command prints this`);
        assertPrinted(printed, block.text, where);
        printed = before = '';
      }
    }
    assert.equal(printed, '', `${before}: what it prints is not shown`);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** "// NAME (the loop; everything else is OTHER)" is OTHER with the loop of the block instead of its own. */
function writeProgram(folder: string, programs: Map<string, string>, text: string, where: string): void {
  const [, name, other] = PROGRAM_LINE.exec(text) as string[];
  let program = text;
  if ((other as string | undefined) !== undefined) {
    const loop = text.slice(text.indexOf('\n') + 1);
    assert.match(loop, /^for .* \{\n(?: .*\n)*\}\n$/, where);
    const whole = programs.get(other);
    assert.ok(whole !== undefined, `${where}: there is no ${other}`);
    const old = /^for .* \{\n(?: .*\n)*\}\n/gm;
    assert.equal(whole.match(old)?.length, 1, `${other} has one loop`);
    program = whole.replace(old, () => loop);
  }
  programs.set(name, program);
  writeFileSync(join(folder, name), program);
}

/** A command to a line; # begins a comment. */
async function outputOfAll(folder: string, { text }: Block, where: string): Promise<string> {
  const commands = text.trim().split('\n');
  let printed = '';
  for (const command of commands) printed += await outputOf(folder, command.replace(/ +#.*/, '').trim(), where);
  return printed;
}

async function outputOf(folder: string, command: string, where: string): Promise<string> {
  const [npx, program, ...args] = command.split(' ');
  assert.match(npx, /^(npx|node)$/, `${where}: no test runs '${command}': mark the block`);
  const script = npx === 'node' ? join(folder, program) : join(ROOT, 'dist/cli', `${program}.js`);
  const { code, stdout, stderr } = await run(process.execPath, [script, ...args], {}, { cwd: folder });
  assert.equal(code, 0, `${where}: ${command}\n${stdout}${stderr}`);
  return stdout;
}

/** A fragment runs on two ranks, in its frame. */
async function outputOfFragment(folder: string, block: Block, where: string): Promise<string> {
  const options = { module: ts.ModuleKind.ES2022, target: ts.ScriptTarget.ES2022 };
  const { outputText } = ts.transpileModule(framed(block), { compilerOptions: options });
  writeFileSync(join(folder, 'fragment.mjs'), outputText);
  return outputOf(folder, 'npx nbcrun -n 2 fragment.mjs', where);
}

function assertPrinted(printed: string, expected: string, where: string): void {
  // Columns are as wide as what stands in them.
  const linesOf = (text: string): string[] => text.trimEnd().replaceAll(/ +/g, ' ').split('\n');
  const lines = linesOf(printed);
  const patterns = linesOf(expected);
  assert.equal(lines.length, patterns.length, `${where}: printed was\n${printed}`);
  for (const pattern of patterns) {
    const literal = pattern.split('…').map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`));
    const matches = RegExp(`^${literal.join('.*')}$`);
    const at = lines.findIndex((line) => matches.test(line));
    assert.ok(at >= 0, `${where}: no line is '${pattern}'; printed was\n${printed}`);
    lines.splice(at, 1);
  }
}
