/**
 * The compression example: what it writes is what was there, whatever the files are; and what it cannot read or write
 * it says.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { unpack, verify } from '../examples/compression/archive.js';
import { skip } from './helpers.js';
import { run } from './support/commands.js';
import { ROOT } from './support/launch.js';

const MAIN = join(ROOT, 'out/examples/compression/main.js');
const BLOCK = 4096;
/** Root reads what nobody may, as long as it has these capabilities. */
const OBEDIENT = [
  'setpriv',
  '--bounding-set=-dac_override,-dac_read_search',
  '--inh-caps=-dac_override,-dac_read_search',
];

describe('examples/compression', () => {
  let folder: string;
  let archive: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'nbc-compression-'));
    archive = join(folder, 'archive');
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  /** A directory below the folder, with these files. */
  function directory(files: Record<string, Buffer>): string {
    const path = join(folder, 'files');
    mkdirSync(join(path, 'below'), { recursive: true });
    for (const [name, content] of Object.entries(files)) writeFileSync(join(path, name), content);
    return path;
  }

  function compress(args: readonly string[], wrapper: readonly string[] = []) {
    const nbcrun = [process.execPath, join(ROOT, 'dist/cli/nbcrun.js'), '-n', '3', MAIN];
    const [command, ...rest] = [...wrapper, ...nbcrun, '--archive', archive, '--repetitions', '1', ...args];
    return run(command, rest, { NBC_TRANSPORT: 'tcp' });
  }

  async function assertCompresses(path: string, files: Record<string, Buffer>, ...options: string[]): Promise<void> {
    const { code, stdout, stderr } = await compress([path, '--block', String(BLOCK), ...options]);
    assert.equal(code, 0, stdout + stderr);
    assert.match(stdout, /verified, all \d+ bytes/);
    const stored = unpack(archive);
    const expected = Object.entries(files).map(([name, content]) => ({ path: join(path, name), content }));
    expected.sort((a, b) => (a.path < b.path ? -1 : 1));
    assert.deepEqual(
      stored.files,
      expected.map((file) => ({ path: file.path, bytes: file.content.length })),
    );
    assert.equal(Buffer.compare(stored.content, Buffer.concat(expected.map(({ content }) => content))), 0);
  }

  const text = Buffer.from('a line of text that repeats itself\n'.repeat(1000));
  const scenarios = {
    'many blocks, an empty file and one that is less than a block': {
      empty: Buffer.alloc(0),
      small: Buffer.from('small'),
      text,
      'below/random': randomBytes(5 * BLOCK + 1),
    },
    'fewer blocks than ranks': { small: Buffer.from('small') },
    'fewer bytes than ranks': { smallest: Buffer.from('s'), empty: Buffer.alloc(0) },
  };
  for (const [name, files] of Object.entries(scenarios)) {
    it(`puts into the archive what the files hold: ${name}`, async () => {
      await assertCompresses(directory(files), files);
    });
  }
  for (const variant of ['blocking', 'nonblocking']) {
    it(`in one variant only: ${variant}`, async () => {
      await assertCompresses(directory({ text }), { text }, '--variant', variant, '--depth', '2');
    });
  }

  it('notices what is wrong with an archive', async () => {
    // What cannot be compressed is stored as it is, so that a wrong byte unpacks to a wrong byte.
    const random = randomBytes(3 * BLOCK);
    const path = join(directory({ random }), 'random');
    const { code, stderr } = await compress([join(folder, 'files'), '--block', String(BLOCK)]);
    assert.equal(code, 0, stderr);
    const files = [{ path, bytes: random.length }];
    assert.equal(verify(archive, files), random.length);

    const good = readFileSync(archive);
    const damaged = (at: number): void => {
      const bad = Buffer.from(good);
      bad[at] ^= 1;
      writeFileSync(archive, bad);
    };
    for (const at of [0, 1, 2].map((block) => good.indexOf(random.subarray(block * BLOCK, block * BLOCK + 16)))) {
      assert(at > 0, 'the bytes are stored');
      damaged(at + 5);
      assert.throws(() => verify(archive, files), /archive does not hold what the files hold/);
    }
    damaged(good.lastIndexOf('files/random'));
    assert.throws(() => verify(archive, files), /archive names other files/);
    writeFileSync(archive, good.subarray(0, good.length - 1));
    assert.throws(() => verify(archive, files));
    writeFileSync(archive, good);
    random[random.length - 1] ^= 1;
    writeFileSync(path, random);
    assert.throws(() => verify(archive, files), /archive does not hold what the files hold/);
  });

  it('does not compress its own archive', async () => {
    const path = directory({ text });
    archive = join(path, 'archive');
    for (let time = 0; time < 2; time++) await assertCompresses(path, { text });
  });

  async function assertRefused(args: readonly string[], message: RegExp, wrapper?: readonly string[]): Promise<void> {
    const { code, stdout, stderr } = await compress(args, wrapper);
    assert.equal(code, 1, stdout + stderr);
    assert.match(stderr, message);
    assert.doesNotMatch(stderr, /^ +at /m, 'a message, not a stack');
  }

  it('says that a directory is not there', async () => {
    const path = join(folder, 'nowhere');
    await assertRefused([path], new RegExp(`compression: .*no such file or directory.*${path}`));
  });

  it('says that it is no directory', async () => {
    const path = join(directory({ text }), 'text');
    await assertRefused([path], new RegExp(`compression: .*not a directory.*${path}`));
  });

  it('says that there is nothing to compress', async () => {
    await assertRefused([directory({})], /compression: there is nothing to compress in .*files/);
    await assertRefused(
      [directory({ empty: Buffer.alloc(0) })],
      /compression: there is nothing to compress in .*files/,
    );
  });

  it('says that a directory or a file may not be read', async function () {
    const privileged = process.getuid?.() === 0;
    if (privileged && spawnSync('setpriv', ['--version']).error !== undefined)
      skip(this, 'root may read everything, and setpriv (package util-linux) is missing');
    const wrapper = privileged ? OBEDIENT : [];
    const path = directory({ text });
    chmodSync(join(path, 'text'), 0);
    await assertRefused([path], /compression: .*permission denied.*files\/text/, wrapper);
    chmodSync(path, 0);
    await assertRefused([path], /compression: .*permission denied.*files/, wrapper);
  });

  it('says that the archive cannot be written', async () => {
    archive = join(folder, 'nowhere/archive');
    await assertRefused([directory({ text })], /compression: .*no such file or directory.*nowhere\/archive/);
  });

  it('says what is wrong with its options', async () => {
    await assertRefused([], /missing required argument 'directory'/);
    await assertRefused([directory({ text }), '--block', '10'], /--block.*must be a whole number from 1024/);
  });
});
