/**
 * The blocks of code in the documents. Each is run, or has a comment in front of it that says why not:
 *
 *     <!-- not run: REASON -->                  or       <!-- run by test/NAME.test.ts: REMARK -->
 *
 * What a block is follows from its language and its first line.
 */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './launch.js';

export interface Block {
  file: string;
  /** Of its first fence. */
  line: number;
  language: string;
  text: string;
  /** The comment in front of it, without <!-- and -->. */
  mark: string | undefined;
}

/**
 * A program names its file in its first line. A fragment is JavaScript or TypeScript that needs what the text around it
 * declares. An output is what the commands before it print. A drawing is nothing to run.
 */
export type Kind = 'marked' | 'drawing' | 'program' | 'fragment' | 'command' | 'output';

const FENCE = /^ *(`{3,}|~{3,})(.*)$/;
const MARK = /^ *<!-- ((?:not run|run by).*) -->$/;
/** A reason that says something. */
const NOT_RUN = /^not run: (\S+ ){2,}\S/;
const RUN_BY = /^run by (test\/\S+\.test\.ts)(: \S.*)?$/;
/** "// NAME", or "// NAME (the loop; everything else is OTHER)". */
export const PROGRAM_LINE = /^\/\/ (\S+\.mjs)(?: \(the loop; everything else is (\S+)\))?\n/;

/** All documents of the repository, by path. */
export function documents(): string[] {
  const folders = ['docs', 'examples', 'bench', '.github'];
  const inside = folders.flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' }).map((path) => join(folder, path)),
  );
  return [...readdirSync(ROOT), ...inside].filter((path) => path.endsWith('.md')).sort();
}

export function blocksOf(file: string): Block[] {
  return blocksIn(readFileSync(join(ROOT, file), 'utf8'), file);
}

export function blocksIn(text: string, file: string): Block[] {
  const blocks: Block[] = [];
  let open: (Block & { fence: string }) | undefined;
  let before = ''; // the last line that is not empty
  for (const [index, line] of text.split('\n').entries()) {
    const fence = FENCE.exec(line);
    if (open !== undefined) {
      if (fence === null || !fence[1].startsWith(open.fence) || fence[2] !== '') {
        open.text += `${line}\n`;
        continue;
      }
      blocks.push(open);
      open = undefined;
    } else if (fence !== null) {
      const [, ticks, language] = fence;
      open = { file, line: index + 1, language: language.trim(), text: '', mark: MARK.exec(before)?.[1], fence: ticks };
    }
    if (line.trim() !== '') before = line;
  }
  assert.equal(open, undefined, `${file}, line ${open?.line}: the block has no end`);
  return blocks;
}

export function kindOf({ file, line, language, text, mark }: Block): Kind {
  const where = `${file}, line ${line}`;
  if (mark !== undefined) {
    const test = RUN_BY.exec(mark)?.[1];
    assert.ok(test !== undefined || NOT_RUN.test(mark), `${where}: '${mark}' gives no reason`);
    assert.ok(test === undefined || existsSync(join(ROOT, test)), `${where}: there is no ${test}`);
    return 'marked';
  }
  if (language === 'sh') return 'command';
  if (language === '') return 'output';
  if (language === 'text') {
    assert.match(text, /[─│├└┘┐▶]/, `${where}: a block of text without a drawing; mark it, or let it be compared`);
    return 'drawing';
  }
  assert.match(language, /^(js|ts)$/, `${where}: no test knows blocks of '${language}'`);
  return PROGRAM_LINE.test(text) ? 'program' : 'fragment';
}

/** Statements that declare for a fragment what the text around it has declared. */
const FRAME = `
const { rank, size } = world;
const [rows, columns] = [4, 5];
const matrix = new Float64Array(rows * columns);
const [send, recv] = [new Float64Array(size), new Float64Array(size)];
`;
const FRAME_IMPORTS: Record<string, readonly string[]> = {
  'node-nbc': ['init', 'alloc', 'strided', 'createOp', 'IN_PLACE', 'SUM'],
  'node:fs': ['writeFileSync'],
};

/**
 * A program of a fragment: its imports, those that it lacks, and its statements in a block of their own. A world comes
 * before and is closed behind, except that one that the fragment makes by itself is only closed.
 */
export function framed({ text }: Block): string {
  const imports = [...text.matchAll(/^import .*$/gm)].map(([line]) => line);
  const own = imports.join();
  const missing = Object.entries(FRAME_IMPORTS).map(
    ([module, names]) => `import { ${names.filter((name) => !own.includes(name)).join(', ')} } from '${module}';`,
  );
  const body = text.replaceAll(/^import .*\n/gm, '');
  const before = /\bworld = await init\(/.test(body) ? [] : ['const world = await init();', FRAME];
  return [...imports, ...missing, ...before, '{', body, 'await world.close();', '}', ''].join('\n');
}
