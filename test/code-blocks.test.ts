/**
 * The code in the documents. Every block is run and what it prints compared, or a comment in front of it says which
 * other test runs it, or why none does (test/support/documents.ts). Fragments are compiled as well, in a frame that
 * declares what the text around them does.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { blocksIn, blocksOf, documents, framed, kindOf } from './support/documents.js';
import { follow } from './support/follow.js';
import { ROOT } from './support/launch.js';

const PAGES = documents().map((file) => ({ file, blocks: blocksOf(file) }));

describe('code in the documents', () => {
  it('is found', () => {
    const count = PAGES.reduce((sum, { blocks }) => sum + blocks.length, 0);
    assert.ok(count > 60, `${count} blocks`);
  });

  it('compiles', () => {
    const folder = mkdtempSync(join(ROOT, 'build/code-blocks-'));
    try {
      const blocks = PAGES.flatMap(({ blocks: all }) => all.filter((block) => kindOf(block) === 'fragment'));
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

  it('runs npm scripts and tests that are there, also in the workflow', () => {
    const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { scripts: object };
    const tests = readdirSync(join(ROOT, 'test'));
    for (const file of [...documents(), '.github/workflows/release.yml']) {
      const text = readFileSync(join(ROOT, file), 'utf8');
      for (const [, name] of text.matchAll(/\bnpm run ([\w:-]+)/g))
        assert.ok(name in scripts, `${file}: npm run ${name}`);
      for (const [, name] of text.matchAll(/`npm test -- ([a-z-]+)`/g)) {
        const known = ['tsan', 'asan', 'native'].includes(name) || tests.includes(`${name}.test.ts`);
        assert.ok(known, `${file}: npm test -- ${name}`);
      }
    }
  });

  for (const { file, blocks } of PAGES) {
    if (blocks.length === 0) continue;
    it(`does what ${file} says, from top to bottom`, () => follow(blocks)).timeout(120_000);
  }
});

describe('the test of code in documents', () => {
  const page = (...lines: string[]) => blocksIn(lines.join('\n'), 'page.md');
  const command = (text: string, output: string) => page('```sh', text, '```', '', '```', output, '```');
  const hello = page('```js', '// hello.mjs', "console.log('hello', 1);", '```');

  for (const [what, blocks, expected] of [
    ['a language that no test knows', page('```python', 'x = 1', '```'), /no test knows blocks of 'python'/],
    ['a command that no test runs', page('```sh', 'make all', '```'), /no test runs 'make all'/],
    ['an output of no command', page('```', 'some output', '```'), /no command prints this/],
    ['a mark without a reason', page('<!-- not run: later -->', '', '```sh', 'make', '```'), /gives no reason/],
    ['a mark with a test that is not there', page('<!-- run by test/no.test.ts -->', '```sh', '```'), /there is no/],
    ['words that pass for a drawing', page('```text', 'npm test', '```'), /without a drawing/],
    ['an output that differs', [...hello, ...command('node hello.mjs', 'hello 2')], /no line is 'hello 2'/],
    ['an output that is not shown', [...hello, ...page('```sh', 'node hello.mjs', '```')], /is not shown/],
    ['a fragment that fails', page('```ts', 'world.ibcast(send, 5);', '```'), /ERR_NBC_ARGUMENT/],
  ] as const) {
    it(`finds ${what}`, () => assert.rejects(follow(blocks), expected));
  }

  it('takes an output with a … for what differs', () => follow([...hello, ...command('node hello.mjs', 'hello …')]));

  it('finds a block without an end, and indented ones', () => {
    assert.throws(() => page('```sh', 'make'), /has no end/);
    assert.deepEqual(
      page('- one', '', '  ````md', '  ```', '  ````', '', '~~~sh', '~~~').map(({ language, text }) => [
        language,
        text,
      ]),
      [
        ['md', '  ```\n'],
        ['sh', ''],
      ],
    );
  });
});
