/** Layouts: buffers whose elements are not one behind the other. */
import assert from 'node:assert/strict';
import { ArgumentError, strided } from 'node-nbc';
import { BRIEF, playEach, runRanks } from './helpers.js';
import { LIMIT_S } from './support/limit.js';

describe('strided', () => {
  const view = new Float64Array(12);
  const wrong: [argument: string, call: () => unknown][] = [
    ['view', () => strided([1, 2] as never, { shape: [1], strides: [1] })],
    ['view', () => strided(null as never, { shape: [1], strides: [1] })],
    ['options', () => strided(view, undefined as never)],
    ['options', () => strided(view, 3 as never)],
    ['shape', () => strided(view, { shape: [], strides: [] })],
    ['shape', () => strided(view, { shape: 3 as never, strides: [1] })],
    ['shape', () => strided(view, { shape: [-1], strides: [1] })],
    ['shape', () => strided(view, { shape: [1.5], strides: [1] })],
    ['shape', () => strided(view, { shape: new Array<number>(17).fill(1), strides: new Array<number>(17).fill(1) })],
    ['shape', () => strided(view, { shape: [13], strides: [1] })],
    ['shape', () => strided(view, { shape: [4, 4], strides: [3, 1] })],
    ['shape', () => strided(view, { shape: [2], strides: [2 ** 52] })],
    ['shape', () => strided(view, { shape: [2 ** 30, 2 ** 30], strides: [0, 0] })],
    ['shape', () => strided(view, { shape: [1], strides: [1], offset: 12 })],
    ['strides', () => strided(view, { shape: [2, 2], strides: [1] })],
    ['strides', () => strided(view, { shape: [2], strides: [-1], offset: 4 })],
    ['strides', () => strided(view, { shape: [2], strides: [NaN] })],
    ['strides', () => strided(view, { shape: [2] } as never)],
    ['offset', () => strided(view, { shape: [2], strides: [1], offset: -1 })],
    ['offset', () => strided(view, { shape: [2], strides: [1], offset: 0.5 })],
  ];
  for (const [index, [argument, call]] of wrong.entries()) {
    it(`names ${argument} where it is wrong (${index})`, () => {
      assert.throws(call, (error: unknown) => error instanceof ArgumentError && error.argument === argument);
    });
  }

  it('accepts what just fits, and boxes without elements', () => {
    assert.equal(strided(view, { shape: [4, 3], strides: [3, 1] }).length, 12);
    assert.equal(strided(view, { shape: [3, 2], strides: [4, 3] }).length, 6);
    assert.equal(strided(view, { shape: [5, 0], strides: [100, 100], offset: 50 }).length, 0);
    assert.equal(strided(view, { shape: [7], strides: [0] }).length, 7);
  });
});

describe('layouts', () => {
  for (const size of BRIEF ? [3] : [1, 2, 3, 4]) {
    it(`go wherever a buffer may be given, on ${size} ranks`, () =>
      runRanks('layouts', { size, args: ['operations'], limitS: LIMIT_S.long }));
  }
  for (const [name, env] of Object.entries({
    'the defaults': {},
    "no progress thread, and the paper's eager limit": { NBC_PROGRESS: 'manual', NBC_EAGER_LIMIT: '255' },
    TCP: { NBC_TRANSPORT: 'tcp' },
  })) {
    const play = (scenarios: string, size: number) => runRanks('layouts', { size, args: [scenarios], env });
    describe(`with ${name}`, () =>
      playEach(
        [
          ['go into messages', 'messages', 2],
          ['go into persistent requests', 'persistent,persistentMessages', 2],
          ['are refused by persistent messages where they do not fit', 'persistentErrors', 2],
          ["go into schedules of the program's own, on one rank", 'schedules', 1],
          ["go into schedules of the program's own, on 3 ranks", 'schedules', 3],
          ['are refused where such schedules cannot run', 'scheduleErrors', 2],
        ],
        play,
      ));
  }
});
