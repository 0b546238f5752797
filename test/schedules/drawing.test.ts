/** Pictures of schedules: what is in them, and that they show the order of things. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import {
  alltoallBruck,
  barrierDissemination,
  bcastBinomial,
  bcastChain,
  decodeSchedule,
  Role,
  Schedule,
  ScheduleError,
  svg,
} from 'node-nbc/schedules';
import { ROOT } from '../support/launch.js';

const shape = (rank: number, size: number) => ({ rank, size, root: 0, bytes: 1024, inPlace: false });
const ofAll = (make: (one: ReturnType<typeof shape>) => Schedule, size: number): Schedule[] =>
  Array.from({ length: size }, (_, rank) => make(shape(rank, size)));

interface Line {
  x1: number;
  y1: number;
  x2: number;
  y2: number;
}

/** The arrows of messages. */
function arrowsOf(text: string): Line[] {
  return [...text.matchAll(/<g class="message">.*?<line ([^/]*)\/>/g)].map(([, attributes]) => {
    const number = (name: string): number => Number(new RegExp(`${name}="(-?[\\d.]+)"`).exec(attributes)![1]);
    return { x1: number('x1'), y1: number('y1'), x2: number('x2'), y2: number('y2') };
  });
}

/** Fails where an element is not closed, or an attribute is not quoted: viewers show nothing then. */
function assertWellFormed(text: string): void {
  const open: string[] = [];
  for (const [tag, end, name, attributes, closed] of text.matchAll(/<(\/?)(\w+)([^<>]*?)(\/?)>/g)) {
    assert.match(attributes, /^( [\w:-]+="[^"<&]*")*$/, tag);
    if (end === '/') assert.equal(open.pop(), name);
    else if (closed === '') open.push(name);
  }
  assert.deepEqual(open, []);
  assert.doesNotMatch(text.replaceAll(/<[^<>]*>/g, ''), /[<>]|&(?!amp;|lt;|gt;)/);
}

describe('svg', () => {
  for (const [name, make] of Object.entries({ bcastBinomial, bcastChain, alltoallBruck, barrierDissemination })) {
    it(`draws every round and message of ${name}, and no message goes back in time`, () => {
      for (const size of [1, 2, 5, 8]) {
        const schedules = ofAll(make, size);
        const text = svg(schedules);
        assertWellFormed(text);
        const rounds = schedules.map((one) => decodeSchedule(one.encode()).rounds);
        const sends = rounds.flat(2).filter(({ kind }) => kind === 'send');
        assert.equal([...text.matchAll(/<g class="round">/g)].length, rounds.flat().length);
        const arrows = arrowsOf(text);
        assert.equal(arrows.length, sends.length);
        for (const { x1, x2 } of arrows) assert(x1 < x2, `${name} on ${size} ranks: from ${x1} to ${x2}`);
        const [, width, height] = /viewBox="0 0 (\d+) (\d+)"/.exec(text)!.map(Number);
        for (const { x2, y1, y2 } of arrows) assert(x2 < width && Math.max(y1, y2) < height);
      }
    });
  }

  it('has a step for each hop of a chain, and one for all sends of a root', () => {
    const hop = (rank: number): Schedule => {
      const one = new Schedule();
      if (rank > 0) one.recv(rank - 1, Role.RECEIVE, 0, 8).round();
      return rank < 3 ? one.send(rank + 1, Role.RECEIVE, 0, 8) : one;
    };
    const chain = arrowsOf(svg([0, 1, 2, 3].map(hop)));
    assert.deepEqual(
      chain.map(({ x1 }) => x1 - chain[0].x1),
      [0, 150, 300],
    );
    const root = new Schedule();
    for (const peer of [1, 2, 3]) root.send(peer, Role.SEND, 0, 8);
    const leaves = [1, 2, 3].map(() => new Schedule().recv(0, Role.RECEIVE, 0, 8));
    assert.equal(new Set(arrowsOf(svg([root, ...leaves])).map(({ x2 }) => x2)).size, 1);
  });

  it('names what a round copies and reduces, and its title as it was given', () => {
    const one = new Schedule().copy(Role.SEND, 0, Role.RECEIVE, 0, 8);
    const text = svg([one], { title: 'a < b & c' });
    assertWellFormed(text);
    assert.match(text, /<text class="title"[^>]*>a &lt; b &amp; c<\/text>/);
    assert.match(text, />round 0, copy</);
  });

  it('refuses schedules that do not fit together, and says why', () => {
    const lonely = [new Schedule().send(1, Role.SEND, 0, 8), new Schedule()];
    assert.throws(
      () => svg(lonely),
      (error: unknown) =>
        error instanceof ScheduleError && /cannot be drawn: .*does not receive them/.test(error.message),
    );
  });

  it('made the picture of docs/schedules.md', async () => {
    const script = (await import(pathToFileURL(join(ROOT, 'scripts/algorithms.mjs')).href)) as {
      picture: (schedules: unknown) => string;
    };
    const file = readFileSync(join(ROOT, 'docs/figures/schedule.svg'), 'utf8');
    assert.equal(file, script.picture({ bcastBinomial, svg }), 'run node scripts/algorithms.mjs');
  });
});
