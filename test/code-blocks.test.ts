/**
 * The code in the documents. A page whose commands and programs are complete is followed from top to bottom, and what
 * its commands print is compared. Every other block of JavaScript or TypeScript is compiled, in a frame that declares
 * what the text around it does.
 */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { run } from './support/commands.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

/** Pages that are followed. */
const FOLLOWED = ['docs/tutorial.md', ...['errors', 'overlap', 'threads'].map((guide) => `docs/guides/${guide}.md`)];
/** Run, and their output compared, by package.test, prebuilt.test and runtimes.test. */
const RUN_ELSEWHERE = ['README.md'];

/** What the text around a block has declared, for those that do not import it themselves. */
const FRAME_IMPORTS: Record<string, readonly string[]> = {
  'node-nbc': ['init', 'alloc', 'strided', 'createOp', 'IN_PLACE', 'SUM'],
  'node:fs': ['writeFileSync'],
};
const FRAME = `
declare const world: Awaited<ReturnType<typeof import('node-nbc').init>>;
declare const rank: number, size: number, rows: number, columns: number;
declare const send: Float64Array, recv: Float64Array, matrix: Float64Array;
`;

interface Block {
  file: string;
  line: number;
  language: string;
  text: string;
  /** The reason in a comment <!-- not run: … --> in front of it. */
  notRun: string | undefined;
}

function blocksOf(file: string): Block[] {
  const text = readFileSync(join(ROOT, file), 'utf8');
  const found = text.matchAll(/(?:<!-- not run: (?<notRun>.*) -->\n\n)?^ *```(?<language>.*)\n(?<text>[^]*?)^ *```$/gm);
  return [...found].map((match) => ({
    file,
    line: text.slice(0, match.index).split('\n').length,
    language: match.groups!['language'],
    text: match.groups!['text'],
    notRun: match.groups!['notRun'],
  }));
}

const DOCUMENTS = [
  'README.md',
  'CONTRIBUTING.md',
  ...readdirSync(join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.md'))
    .map((path) => join('docs', path))
    .sort(),
];
const BLOCKS = DOCUMENTS.flatMap(blocksOf);

describe('code in the documents', () => {
  it('is found', () => assert.ok(BLOCKS.length > 20, `${BLOCKS.length} blocks`));

  it('compiles', () => {
    const folder = mkdtempSync(join(ROOT, 'build/code-blocks-'));
    try {
      const blocks = BLOCKS.filter(({ file, language }) => /^(js|ts)$/.test(language) && !FOLLOWED.includes(file));
      const files = blocks.map((block, index) => {
        const path = join(folder, `${index}.mts`);
        writeFileSync(path, framed(block));
        return path;
      });
      const options: ts.CompilerOptions = {
        module: ts.ModuleKind.NodeNext,
        target: ts.ScriptTarget.ES2022,
        lib: ['lib.es2022.d.ts', 'lib.dom.d.ts'],
        types: ['node'],
        noEmit: true,
        strict: true,
        noImplicitAny: false,
        skipLibCheck: true,
      };
      const messages = ts.getPreEmitDiagnostics(ts.createProgram(files, options)).map((found) => {
        const block = found.file === undefined ? undefined : blocks[files.indexOf(found.file.fileName)];
        const where = block === undefined ? 'frame' : `${block.file}, block at line ${block.line}`;
        return `${where}: ${ts.flattenDiagnosticMessageText(found.messageText, '\n')}`;
      });
      assert.deepEqual(messages, []);
    } finally {
      rmSync(folder, { recursive: true });
    }
  }).timeout(60_000);

  for (const file of FOLLOWED) {
    it(`does what ${file} says, from top to bottom`, () => follow(file)).timeout(120_000);
  }

  it('is run, or has its reason', () => {
    for (const { file, line, language } of BLOCKS) {
      // Commands of other documents need machines, launchers or minutes: tests of these run them (docs/testing.md).
      if (language === 'sh' || language === '' || RUN_ELSEWHERE.includes(file)) continue;
      assert.match(language, /^(js|ts)$/, `${file}, line ${line}: no test knows blocks of '${language}'`);
    }
  });
});

/** A module: the imports of the block, those of the frame that it lacks, and its statements in a function. */
function framed({ text }: Block): string {
  const imports = [...text.matchAll(/^import .*$/gm)].map(([line]) => line);
  const own = imports.join();
  const missing = Object.entries(FRAME_IMPORTS).map(
    ([module, names]) => `import { ${names.filter((name) => !own.includes(name)).join(', ')} } from '${module}';`,
  );
  const body = text.replaceAll(/^import .*\n/gm, '');
  return [...imports, ...missing, FRAME, `export async function block() {`, body, `}`].join('\n');
}

/**
 * Writes the programs of a page, each named by its first line, and runs its commands in turn. A line that a command
 * prints is the expected one, but for what stands at its …; the ranks' lines come in any order.
 */
async function follow(file: string): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'nbc-page-'));
  try {
    mkdirSync(join(folder, 'node_modules'));
    symlinkSync(ROOT, join(folder, 'node_modules/node-nbc'));
    const programs = new Map<string, string>();
    let outputs: string[] = []; // of commands whose output has not been compared
    for (const { line, language, text, notRun } of blocksOf(file)) {
      const where = `${file}, line ${line}`;
      if (notRun !== undefined) continue;
      if (language === 'js') {
        writeProgram(folder, programs, text, where);
      } else if (language === 'sh') {
        assert.equal(outputs.length, 0, `${where}: what the command before prints is not shown`);
        for (const command of text.trim().split('\n')) outputs.push(await outputOf(folder, command, where));
      } else {
        assert.equal(language, '', where);
        assert.notEqual(outputs.length, 0, `${where}: no command prints this`);
        assertPrinted(outputs.join(''), text, where);
        outputs = [];
      }
    }
    assert.equal(outputs.length, 0, `${file}: what the last command prints is not shown`);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** "// NAME (the loop; everything else is OTHER)" is OTHER with the loop of the block instead of its own. */
function writeProgram(folder: string, programs: Map<string, string>, text: string, where: string): void {
  const found = /^\/\/ (\S+\.mjs)(?: \(the loop; everything else is (\S+)\))?\n/.exec(text);
  assert.ok(found !== null, `${where}: the first line does not name the program`);
  const [, name] = found;
  const other = found[2] as string | undefined;
  let program = text;
  if (other !== undefined) {
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

async function outputOf(folder: string, command: string, where: string): Promise<string> {
  const [npx, program, ...args] = command.split(' ');
  assert.match(npx, /^(npx|node)$/, `${where}: ${command}`);
  const script = npx === 'node' ? join(folder, program) : join(ROOT, 'dist/cli', `${program}.js`);
  const { code, stdout, stderr } = await run(process.execPath, [script, ...args], {}, { cwd: folder });
  assert.equal(code, 0, `${where}: ${command}\n${stdout}${stderr}`);
  return stdout;
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
