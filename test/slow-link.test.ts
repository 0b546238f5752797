/**
 * scripts/slow-link: what it promises, since the figures over TCP rest on it. Times are compared with each other and
 * with what the rate allows.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { program, skip } from './helpers.js';
import { run } from './support/commands.js';
import { type End, ROOT } from './support/launch.js';

const SCRIPT = join(ROOT, 'scripts/slow-link');
const [EX_USAGE, EX_UNAVAILABLE] = [64, 69];
const BYTES = 8 << 20;
/** Mbit/s, both so slow that a processor is not the reason for more, even one that others use, too. */
const [SLOW, FAST] = [100, 400];
/**
 * What the link carries beyond its rate: its burst at once, and to a packet at either end no count of packets is exact.
 */
const BURST = (256 + 2 * 64) << 10;

interface Best {
  alone: number;
  back: number;
  both: number;
}

const slowLink = (args: string[], env: NodeJS.ProcessEnv = {}): Promise<End> => run(SCRIPT, args, env);

describe('scripts/slow-link', () => {
  it('says how it is used', async () => {
    const { code, stdout } = await slowLink(['--help']);
    assert.equal(code, 0);
    assert.match(stdout, /^Usage: scripts\/slow-link .*--rate.*--burst.*--cards/);
  });

  for (const [what, args] of [
    ['no command', ['--rate', '1gbit']],
    ['an option that it has not', ['--speed', '1gbit', '--', 'true']],
    ['an option without its value', ['--rate']],
    ['more cards than addresses', ['--cards', '255', '--', 'true']],
    ['fewer cards than none', ['--cards', '-1', '--', 'true']],
    ['cards that are no number', ['--cards', 'two', '--', 'true']],
  ] as const) {
    it(`refuses ${what}`, async () => {
      const { code, stdout, stderr } = await slowLink([...args]);
      assert.equal(code, EX_USAGE, stderr);
      assert.match(stderr, /slow-link: /);
      assert.equal(stdout, '');
    });
  }

  it('says what is missing', () => {
    const bash = spawnSync('bash', ['-c', 'type -P bash getopt'], { encoding: 'utf8' }).stdout.split('\n');
    const { status: code, stderr } = spawnSync(
      bash[0],
      ['-c', `PATH=/nowhere; getopt() { ${bash[1]} "$@"; }; . ${SCRIPT} -- true`],
      {
        encoding: 'utf8',
      },
    );
    assert.equal(code, EX_UNAVAILABLE, stderr);
    assert.match(stderr, /slow-link: unshare is missing/);
  });

  describe('as root', () => {
    before(async function () {
      const { code, stderr } = await slowLink(['--', 'true']);
      if (code !== 0) skip(this, `no slow link can be made here: ${stderr.trim()}`);
    });

    it('ends as its command does', async () => {
      assert.equal((await slowLink(['--', 'sh', '-c', 'exit 7'])).code, 7);
    });

    it('runs nothing on a link that tc does not make', async () => {
      const { code, stdout, stderr } = await slowLink(['--rate', 'fast', '--', 'echo', 'ran']);
      assert.equal(code, EX_UNAVAILABLE);
      assert.match(stderr, /fast|rate/);
      assert.equal(stdout, '');
    });

    describe('carries', () => {
      /** Milliseconds that the rate allows no transfer to be faster than. */
      const least = (bytes: number, mbit: number): number => ((bytes - BURST) * 8) / (mbit * 1000);

      async function transfer(...link: string[]): Promise<Best> {
        const { code, stdout, stderr } = await slowLink([
          ...link,
          '--',
          process.execPath,
          program('transfer'),
          `${BYTES}`,
        ]);
        assert.equal(code, 0, stderr);
        return JSON.parse(stdout) as Best;
      }

      let slow: Best, fast: Best, cards: Best;
      before(async () => {
        slow = await transfer('--rate', `${SLOW}mbit`);
        fast = await transfer('--rate', `${FAST}mbit`);
        cards = await transfer('--rate', `${FAST}mbit`, '--cards', '2');
      });

      it('the rate asked for', () => {
        const said = JSON.stringify({ slow, fast });
        assert(slow.alone >= least(BYTES, SLOW), said);
        assert(fast.alone >= least(BYTES, FAST), said);
        assert(slow.alone < 1.5 * least(BYTES, SLOW), said);
        // Four times the rate.
        assert(slow.alone > 2.5 * fast.alone, said);
      });

      it('no more in both directions at once, without cards', () => {
        const said = JSON.stringify({ slow, fast });
        assert(slow.both >= least(2 * BYTES, SLOW) && fast.both >= least(2 * BYTES, FAST), said);
        assert(slow.both < 3 * slow.alone, said);
      });

      it('each direction as if it were alone, with a card for each address', () => {
        const said = JSON.stringify({ cards, fast });
        for (const time of [cards.alone, cards.back, cards.both]) assert(time >= least(BYTES, FAST), said);
        assert(cards.both < 1.5 * cards.alone, said);
        assert(cards.both < 0.75 * fast.both, said);
      });
    });

    it('gives ranks the addresses of its cards in turns', async () => {
      const nbcrun = [process.execPath, join(ROOT, 'dist/cli/nbcrun.js'), '-n', '5'];
      const command = [...nbcrun, program('listening')];
      const { code, stdout, stderr } = await slowLink(['--cards', '2', '--', ...command], {
        NBC_TRANSPORT: 'tcp',
        NBC_TCP_ADDRESS: undefined,
      });
      assert.equal(code, 0, stderr);
      const found = [...stdout.matchAll(/^report (.*)$/gm)]
        .map(([, text]) => JSON.parse(text) as { rank: number; listeners: string[] })
        .map(({ rank, listeners }) => `${rank}: ${listeners.join(' ')}`);
      const [one, two] = ['127.0.0.1', '127.0.0.2'];
      assert.deepEqual(found.sort(), [`0: ${one}`, `1: ${two}`, `2: ${one}`, `3: ${two}`, `4: ${one}`]);
    });
  });
});
