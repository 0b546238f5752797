/** Every algorithm against what the operation is defined to do, on the simulator: no native code involved. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import {
  chooseIalltoall,
  chooseIbcast,
  chooseIgather,
  decodeSchedule,
  IALLTOALL_ALGORITHMS,
  ialltoallSchedule,
  IBCAST_ALGORITHMS,
  IBCAST_CHAIN_MIN_BYTES,
  IBCAST_MAX_SEGMENTS,
  ibcastChain,
  ibcastSchedule,
  ibcastSegment,
  IGATHER_ALGORITHMS,
  igatherSchedule,
  type IalltoallAlgorithm,
  type IbcastAlgorithm,
  type IgatherAlgorithm,
  type Schedule,
} from 'node-nbc/schedules';
import { simulate } from './simulator.js';

const MAX_RANKS = 17;
const SMALL_SIZES = [0, 1, 7, 254, 255, 256];

/** Bytes that tell where they come from: every rank, block and position has its own. */
function pattern(length: number, seed: number): Uint8Array {
  const bytes = new Uint8Array(length);
  let state = (seed * 2654435761 + 1) >>> 0;
  for (let i = 0; i < length; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    bytes[i] = state >>> 24;
  }
  return bytes;
}

function decoded(schedule: Schedule): ReturnType<typeof decodeSchedule> {
  return decodeSchedule(schedule.encode());
}

function same(actual: Uint8Array, expected: Uint8Array, what: string): void {
  assert.ok(Buffer.compare(actual, expected) === 0, what);
}

function checkIbcast(build: (rank: number) => Schedule, size: number, root: number, bytes: number): void {
  const message = pattern(bytes, 1);
  const buffers = Array.from({ length: size }, (_, rank) =>
    rank === root ? message.slice() : pattern(bytes, 2 + rank),
  );
  simulate(buffers.map((receive, rank) => ({ schedule: decoded(build(rank)), send: null, receive })));
  for (const [rank, buffer] of buffers.entries()) same(buffer, message, `rank ${rank} of ${size}, root ${root}`);
}

function checkIgather(algorithm: IgatherAlgorithm, size: number, root: number, bytes: number, inPlace: boolean): void {
  const blocks = Array.from({ length: size }, (_, rank) => pattern(bytes, 1 + rank));
  const expected = new Uint8Array(Buffer.concat(blocks));
  const gathered = pattern(size * bytes, 99);
  if (inPlace) gathered.set(blocks[root], root * bytes);
  simulate(
    blocks.map((block, rank) => ({
      schedule: decoded(igatherSchedule(algorithm, rank, size, root, bytes, inPlace && rank === root)),
      send: inPlace && rank === root ? null : block.slice(),
      receive: rank === root ? gathered : null,
    })),
  );
  same(gathered, expected, `${size} ranks, root ${root}, ${bytes} B`);
}

function checkIalltoall(algorithm: IalltoallAlgorithm, size: number, bytes: number, inPlace: boolean): void {
  const block = (from: number, to: number): Uint8Array => pattern(bytes, 1 + from * size + to);
  const all = Array.from({ length: size }, (_, i) => i);
  const sends = all.map((from) => new Uint8Array(Buffer.concat(all.map((to) => block(from, to)))));
  const receives = all.map((rank) => (inPlace ? sends[rank].slice() : pattern(size * bytes, 9999 + rank)));
  simulate(
    all.map((rank) => ({
      schedule: decoded(ialltoallSchedule(algorithm, rank, size, bytes, inPlace)),
      send: inPlace ? null : sends[rank],
      receive: receives[rank],
    })),
  );
  for (const to of all) {
    const expected = new Uint8Array(Buffer.concat(all.map((from) => block(from, to))));
    same(receives[to], expected, `rank ${to} of ${size}, ${bytes} B`);
  }
}

for (const algorithm of IBCAST_ALGORITHMS) {
  describe(`ibcast, ${algorithm}`, () => {
    const check = (size: number, root: number, bytes: number): void =>
      checkIbcast((rank) => ibcastSchedule(algorithm, rank, size, root, bytes), size, root, bytes);

    it(`1 to ${MAX_RANKS} ranks, every root, small sizes`, () => {
      for (let size = 1; size <= MAX_RANKS; size++) {
        for (let root = 0; root < size; root++) for (const bytes of SMALL_SIZES) check(size, root, bytes);
      }
    });
    it('larger sizes', () => {
      for (const bytes of [65535, 65537, 3 * 1024 * 1024]) for (const size of [2, 3, 5]) check(size, size - 1, bytes);
    });
  });
}

describe('ibcast, chain in many segments', () => {
  it(`1 to ${MAX_RANKS} ranks, every root, whole and broken last segments`, () => {
    for (let size = 1; size <= MAX_RANKS; size++) {
      for (let root = 0; root < size; root++) {
        for (const bytes of [1, 63, 64, 65, 1000]) {
          checkIbcast((rank) => ibcastChain(rank, size, root, bytes, 64), size, root, bytes);
        }
      }
    }
  });

  it('is a pipeline: rank v is done after v + segments rounds', () => {
    const segments = 10;
    for (let rank = 1; rank < 4; rank++) {
      const { rounds } = decoded(ibcastChain(rank, 5, 0, 640, 64));
      assert.equal(rounds.length, segments + 1);
      for (const round of rounds.slice(1, -1)) assert.deepEqual(round.map((e) => e.kind).sort(), ['recv', 'send']);
    }
  });

  it('keeps the number of segments bounded', () => {
    for (const bytes of [IBCAST_CHAIN_MIN_BYTES, 2 ** 25 + 1, 2 ** 32 - 1, 2 ** 40]) {
      assert.ok(Math.ceil(bytes / ibcastSegment(bytes)) <= IBCAST_MAX_SEGMENTS, `${bytes} B`);
    }
  });
});

for (const algorithm of IGATHER_ALGORITHMS) {
  describe(`igather, ${algorithm}`, () => {
    for (const inPlace of [false, true]) {
      it(`1 to ${MAX_RANKS} ranks, every root, small sizes${inPlace ? ', in place' : ''}`, () => {
        for (let size = 1; size <= MAX_RANKS; size++) {
          for (let root = 0; root < size; root++) {
            for (const bytes of SMALL_SIZES) checkIgather(algorithm, size, root, bytes, inPlace);
          }
        }
      });
    }
    it('larger sizes', () => {
      for (const bytes of [65535, 65537, 524289]) {
        for (const size of [2, 3, 6]) checkIgather(algorithm, size, size - 1, bytes, false);
      }
    });
  });
}

for (const algorithm of IALLTOALL_ALGORITHMS) {
  describe(`ialltoall, ${algorithm}`, () => {
    for (const inPlace of [false, true]) {
      it(`1 to ${MAX_RANKS} ranks, small sizes${inPlace ? ', in place' : ''}`, () => {
        for (let size = 1; size <= MAX_RANKS; size++) {
          for (const bytes of SMALL_SIZES) checkIalltoall(algorithm, size, bytes, inPlace);
        }
      });
      it(`larger sizes${inPlace ? ', in place' : ''}`, () => {
        for (const bytes of [65535, 65537, 524289])
          for (const size of [2, 3]) checkIalltoall(algorithm, size, bytes, inPlace);
      });
    }
  });
}

describe('algorithms, in general', () => {
  const shape = fc
    .record({ size: fc.integer({ min: 1, max: 40 }), bytes: fc.nat(600), inPlace: fc.boolean() })
    .chain((rest) => fc.record({ root: fc.nat(rest.size - 1), rest: fc.constant(rest) }))
    .map(({ root, rest }) => ({ root, ...rest }));

  it('any shape, chosen or forced', () => {
    const property = fc.property(
      shape,
      fc.constantFrom<IbcastAlgorithm | null>(null, ...IBCAST_ALGORITHMS),
      fc.constantFrom<IgatherAlgorithm | null>(null, ...IGATHER_ALGORITHMS),
      fc.constantFrom<IalltoallAlgorithm | null>(null, ...IALLTOALL_ALGORITHMS),
      ({ size, root, bytes, inPlace }, bcast, gather, alltoall) => {
        bcast ??= chooseIbcast(bytes, size);
        checkIbcast((rank) => ibcastSchedule(bcast, rank, size, root, bytes), size, root, bytes);
        checkIgather(gather ?? chooseIgather(bytes, size), size, root, bytes, inPlace);
        checkIalltoall(alltoall ?? chooseIalltoall(bytes, size), size, bytes, inPlace);
      },
    );
    fc.assert(property, { numRuns: 100 });
  });

  it('a binomial tree is logarithmically deep and moves the fewest bytes', () => {
    for (let size = 2; size <= 64; size++) {
      let sends = 0;
      for (let rank = 0; rank < size; rank++) {
        const schedule = decoded(ibcastSchedule('binomial', rank, size, 0, 8));
        const own = schedule.rounds.flat().filter((element) => element.kind === 'send').length;
        assert.ok(own <= Math.ceil(Math.log2(size)), `rank ${rank} of ${size} sends ${own} times`);
        sends += own;
      }
      assert.equal(sends, size - 1);
    }
  });

  it('Bruck sends one message per bit of the number of ranks', () => {
    for (let size = 1; size <= 64; size++) {
      const elements = decoded(ialltoallSchedule('bruck', size - 1, size, 8)).rounds.flat();
      assert.equal(elements.filter((element) => element.kind === 'send').length, Math.ceil(Math.log2(size)));
    }
  });

  it('pairwise meets one partner at a time', () => {
    const { rounds } = decoded(ialltoallSchedule('pairwise', 3, 9, 8));
    assert.equal(rounds.length, 8);
    for (const round of rounds) assert.equal(round.filter((element) => element.kind === 'send').length, 1);
  });
});
