/**
 * Tables that TypeScript and native code share: options, counters, codes of errors and reasons. A name on one side only
 * is a mistake.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { init, NbcError } from 'node-nbc';
import { reports, runRanks } from './helpers.js';
import { ROOT } from './support/launch.js';

const dist = (file: string): string => pathToFileURL(join(ROOT, 'dist', file)).href;
const { native } = (await import(dist('native.js'))) as typeof import('../src/native.js');
const { allOptions } = (await import(dist('transport/options.js'))) as typeof import('../src/transport/options.js');
const { COUNTERS } = (await import(dist('counters.js'))) as typeof import('../src/counters.js');
const { CALLS, Kind, MESSAGE_STATES } = (await import(
  dist('trace/events.js')
)) as typeof import('../src/trace/events.js');
const { OPERATIONS } = (await import(dist('operations/index.js'))) as typeof import('../src/operations/index.js');
const { NEIGHBOR_OPERATIONS } = (await import(
  dist('operations/neighbor.js')
)) as typeof import('../src/operations/neighbor.js');
const { ARGUMENT_REASONS, ERROR_OF_CODE, errorFromFailure, errorFromNative } = (await import(
  dist('native-errors.js')
)) as typeof import('../src/native-errors.js');

describe('the table of operations', () => {
  it('is in docs/api.md', () => {
    const document = readFileSync(join(ROOT, 'docs/api.md'), 'utf8');
    for (const { name } of [...OPERATIONS, ...NEIGHBOR_OPERATIONS]) assert(document.includes(`| \`${name}(`), name);
  });
});

describe('the tables of the README', () => {
  /** The cells of each row of figures. */
  const rowsOf = (file: string): string[][] => {
    const lines = readFileSync(join(ROOT, file), 'utf8').match(/^\|.*\d.*\|$/gm) ?? [];
    return lines.map((line) =>
      line
        .slice(1, -1)
        .replaceAll(/\]\(.*?\)/g, '')
        .split('|')
        .map((cell) => cell.trim()),
    );
  };

  it('have the figures of BENCHMARKS.md', () => {
    const measured = rowsOf('BENCHMARKS.md');
    const shown = rowsOf('README.md');
    assert(shown.length > 10, `${shown.length} rows`);
    for (const row of shown) {
      const found = measured.some((cells) => row.every((cell, index) => cell === cells[index]));
      assert(found, `BENCHMARKS.md has no row '${row.join(' | ')}'`);
    }
  });
});

describe('tables of TypeScript and native code', () => {
  const names = native.names();
  const nativeText = (file: string): string => readFileSync(join(ROOT, 'native', file), 'utf8');

  it('are in native headers that were made from them', async () => {
    const script = (await import(pathToFileURL(join(ROOT, 'scripts/headers.mjs')).href)) as {
      encodingHeader: (encoding: unknown) => string;
      countersHeader: (counters: unknown) => string;
    };
    const encoding = script.encodingHeader(await import('node-nbc/schedules'));
    assert.equal(nativeText('engine/encoding.h'), encoding, 'run node scripts/headers.mjs');
    assert.equal(nativeText('counters.h'), script.countersHeader(COUNTERS), 'run node scripts/headers.mjs');
  });

  for (const [enumeration, file, expected] of [
    ['Kind', 'engine/trace.h', Object.keys(Kind)],
    ['Call', 'engine/trace.h', CALLS],
    ['State', 'libof/request.h', MESSAGE_STATES],
  ] as const) {
    it(`${enumeration} of native/${file} has the entries that traces are read with, in that order`, () => {
      const [, body] = new RegExp(`enum class ${enumeration} : \\w+ \\{([^}]*)\\}`).exec(nativeText(file)) ?? [];
      const entries = body.replaceAll(/\/\/.*/g, '').match(/\w+/g) ?? [];
      assert.deepEqual(
        entries,
        expected.map((name) => name.toLowerCase()),
      );
    });
  }

  it('each option that the table gives to native code is read there, once, and no other', () => {
    const given = allOptions().filter(({ rule }) => rule.native);
    assert.deepEqual([...names.options].sort(), given.map(({ name }) => name).sort());
  });

  it('each counter of native code has a row, and each row a counter', () => {
    assert.deepEqual([...names.counters].sort(), Object.keys(COUNTERS).sort());
  });

  it('each reason of native code to refuse an argument has a sentence, and no sentence is left over', () => {
    assert.deepEqual([...names.reasons].sort(), Object.keys(ARGUMENT_REASONS).sort());
  });

  it('each code of a failed request has its error, which says more than the code', () => {
    for (const code of names.errors) {
      assert.ok(code in ERROR_OF_CODE, code);
      const failure = { code, peer: 3, bytesHere: 8, bytesThere: 16, errno: 5, most: 64, detail: 'the reason' };
      const error = errorFromFailure(failure, 'ibcast: ', { rank: 1, operation: 'ibcast' });
      assert.ok(error instanceof NbcError && error.constructor !== NbcError, code);
      assert.equal(error.code, code);
      assert.match(error.message, /^ibcast: .{10}/);
      assert.doesNotMatch(error.message, /undefined|ERR_/);
      const { rank, operation, peer, errno } = error;
      assert.deepEqual({ rank, operation, peer, errno }, { rank: 1, operation: 'ibcast', peer: 3, errno: 5 });
    }
  });

  it('an error whose buffers a peer may still use says so, in its stack, too', () => {
    const failure = { code: 'ERR_NBC_TRUNCATED', peer: 3, bytesHere: 8, bytesThere: 16, buffersInUse: 1 };
    const error = errorFromFailure(failure, 'igather: ');
    assert.match(error.message, /8 bytes here, 16 there; .*do not use them again$/);
    assert.ok(error.stack?.includes(error.message));
    assert.equal(error.buffersInUse, true);
    assert.equal(errorFromFailure({ ...failure, buffersInUse: 0 }, '').buffersInUse, undefined);
  });

  it('each option is in docs/options.md with its variable and its default, and no other', () => {
    const text = readFileSync(join(ROOT, 'docs/options.md'), 'utf8');
    const rows = [...text.matchAll(/^\| `([\w.]+)`\s*\| `(\w+)`\s*\| (.*?)\s*\|/gm)];
    assert.deepEqual(
      rows.map(([, name, variable]) => [name, variable]).sort(),
      allOptions()
        .map(({ name, rule }) => [name, rule.variable])
        .sort(),
    );
    for (const { name, rule } of allOptions()) {
      const shown = rows.find(([, documented]) => documented === name)![3];
      if (rule.fallback !== '') assert.match(shown, new RegExp(`^\`${String(rule.fallback)}\``), name);
    }
  });

  it('an option that is missing, or of another type, is refused by name', () => {
    const job = { rank: 0, size: 1, launched: false, jobFd: -1, transport: 'shm', host: '' } as const;
    const complete = Object.fromEntries(
      allOptions()
        .filter(({ rule }) => rule.native)
        .map(({ name, rule }) => [name, rule.fallback as string | number | boolean]),
    );
    const wrong = { string: 5, number: 'five', boolean: 1 } as Record<string, string | number>;
    for (const name of names.options) {
      const { [name]: value, ...others } = complete;
      const expected = { code: 'ERR_NBC_ARGUMENT', argument: name, reason: 'notAnOption' };
      assert.throws(() => native.open(job, others, () => undefined), expected, name);
      assert.throws(() => native.open(job, { ...others, [name]: wrong[typeof value] }, () => undefined), expected);
    }
    for (const text of ['', 'threads']) {
      assert.throws(() => native.open(job, { ...complete, progress: text }, () => undefined), { argument: 'progress' });
    }
    for (const number of [-2, 0.5, 2 ** 32, NaN, Infinity]) {
      assert.throws(() => native.open(job, { ...complete, startall: number }, () => undefined), {
        argument: 'startall',
      });
    }
  });
});

describe('stats()', () => {
  const expected = (...fabrics: string[]): string[] =>
    Object.entries(COUNTERS)
      .filter(([, row]) => row.fabrics.some((fabric) => fabrics.includes(fabric)))
      .map(([name]) => name)
      .sort();

  for (const [transport, fabrics] of [
    ['shm', ['shm']],
    ['tcp', ['tcp']],
  ] as const) {
    it(`has the counters whose rows name '${transport}', and no others`, async () => {
      const world = await init({ transport });
      const names = Object.keys(world.stats()).sort();
      const peers = world.peers();
      await world.close();
      assert.deepEqual(names, expected(...fabrics));
      assert.deepEqual(peers, [{ network: transport }]);
    });
  }

  it('is described, counter by counter, in docs/counters.md', () => {
    const text = readFileSync(join(ROOT, 'docs/counters.md'), 'utf8');
    const rows = [...text.matchAll(/^\| `(\w+)`\s*\| (.*?)\s*\| (.*?)\s*\| (.*?)\s*\|$/gm)].map((match) =>
      match.slice(1),
    );
    assert.deepEqual(
      rows,
      Object.entries(COUNTERS).map(([name, { unit, fabrics, description }]) => [
        name,
        unit,
        (fabrics as readonly string[]).length === 3 ? 'all' : fabrics.join(', '),
        description,
      ]),
    );
  });
});

describe('errors of system calls', () => {
  it('have errno as a property', () => {
    // An address that is reserved for documentation: no machine has it.
    const listen = (): unknown => native.listenTcp('192.0.2.1');
    assert.throws(listen, (thrown: unknown) => {
      const error = errorFromNative(thrown, { rank: 0, operation: 'init' });
      assert.ok(error instanceof NbcError, String(error));
      assert.equal(error.code, 'ERR_NBC_TRANSPORT');
      assert.equal(error.errno, constants.errno.EADDRNOTAVAIL);
      assert.match(error.message, /192\.0\.2\.1.*: Cannot assign requested address/);
      return true;
    });
  });
});

describe('errors of requests', () => {
  it('have the peer and the sizes as properties, not only in the text', async () => {
    const env = { TEST_PAIRS: JSON.stringify([[500, 300]]) };
    const results = await runRanks('errors', { size: 2, args: ['fields'], env });
    const [zero, one] = reports<Record<string, unknown>>(results);
    assert.deepEqual(zero, { name: 'TruncatedError', rank: 0, peer: 1, bytesHere: 500, bytesThere: 300 });
    assert.deepEqual(one, { name: 'TruncatedError', rank: 1, peer: 0, bytesHere: 300, bytesThere: 500 });
  });
});
