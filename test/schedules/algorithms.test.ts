/** Every algorithm of every operation against the oracle, on the simulator: no message is sent. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import {
  alltoallBruck,
  alltoallPairwise,
  BCAST_MAX_SEGMENTS,
  bcastBinomial,
  bcastChain,
  bcastCirculant,
  bcastSegment,
  CIRCULANT_MAX_BLOCKS,
  circulantBlocks,
  type DecodedSchedule,
  decodeSchedule,
  OPERATIONS,
  type OperationName,
  Operator,
  Order,
  type Schedule,
  type Shape,
} from 'node-nbc/schedules';
import { arrange, type Case, COMPOSE, compose, ORACLES, ranksOf, withOperator } from '../oracle.js';
import { assertAgrees, fill } from './agree.js';
import { capture } from './captured.js';
import { runLocal } from './local.js';
import { simulate } from './simulator.js';

const BRIEF = process.env['NBC_TEST_BRIEF'] === '1';
const MAX_RANKS = BRIEF ? 9 : 17;
const SMALL_COUNTS = [0, 1, 7, 254, 255, 256];
const LARGE_COUNTS = BRIEF ? [65537] : [65535, 65537];
/** Of reductions, which the simulator computes byte by byte. */
const FEW_COUNTS = [0, 1, 7, 40];
const LARGE_REDUCED = [4097];
const CHOSEN = undefined;

function check(
  name: OperationName,
  c: Omit<Case, 'op'>,
  algorithm: string | undefined,
  hosts?: readonly number[],
  crowded?: boolean,
): void {
  assertAgrees(name, withOperator(c, c.size + c.root + c.count), { algorithm, hosts, crowded });
}

/** The roots that an operation has. */
const rootsOf = (name: OperationName, size: number): number[] => (ORACLES[name].rooted ? ranksOf({ size }) : [0]);
const both = (possible: boolean): boolean[] => (possible ? [false, true] : [false]);

describe('the table', () => {
  it('has an oracle for each operation, and no other', () => {
    assert.deepEqual(Object.keys(ORACLES).sort(), OPERATIONS.map(({ name }) => name).sort());
  });

  it('names every operation and algorithm once, and has parameters, steps, bytes, use and source of each', () => {
    assert.equal(new Set(OPERATIONS.map(({ name }) => name)).size, OPERATIONS.length);
    for (const { name, mpi, summary, algorithms } of OPERATIONS) {
      assert.equal(mpi.toLowerCase().replaceAll('_', ''), `mpi${name.toLowerCase()}`);
      assert.match(summary, /\.$/);
      assert.equal(new Set(algorithms.map((row) => row.name)).size, algorithms.length);
      for (const row of algorithms) {
        for (const key of ['steps', 'bytes', 'when', 'source'] as const) assert.ok(row[key] !== '', `${name} ${key}`);
      }
    }
  });
});

for (const { name, algorithms, parameters } of OPERATIONS) {
  const { inPlace: places, listed } = ORACLES[name];
  const reduces = parameters.includes('op');
  for (const algorithm of algorithms.map((row) => row.name)) {
    describe(`${name}, ${algorithm}`, () => {
      for (const inPlace of both(places)) {
        for (const gaps of both(listed)) {
          const title = `${inPlace ? ', in place' : ''}${gaps ? ', with gaps' : ''}`;
          it(`1 to ${MAX_RANKS} ranks, every root, small sizes${title}`, () => {
            for (let size = 1; size <= MAX_RANKS; size++) {
              for (const root of rootsOf(name, size)) {
                for (const count of reduces ? FEW_COUNTS : SMALL_COUNTS)
                  check(name, { size, root, count, inPlace, gaps }, algorithm);
              }
            }
          });
        }
        it(`larger sizes${inPlace ? ', in place' : ''}`, () => {
          for (const count of reduces ? LARGE_REDUCED : LARGE_COUNTS) {
            for (const size of [2, 3, 6]) check(name, { size, root: size - 1, count, inPlace, gaps: false }, algorithm);
          }
        });
      }
    });
  }
}

/** Where the ranks of a job can be. */
const PLACEMENTS: Record<string, (rank: number, size: number) => number> = {
  'neighbours on two hosts': (rank, size) => Number(rank >= size / 2),
  'three hosts in turns': (rank) => (rank + 1) % 3,
  'three ranks to a host, numbers of any size': (rank) => 1000 - Math.floor(rank / 3),
  'one rank apart from the others': (rank) => Number(rank === 1),
  'one host for each rank': (rank) => rank,
  'one host': () => 7,
};

for (const { name, algorithms, parameters } of OPERATIONS) {
  if (!algorithms.some((row) => row.name === 'hierarchical')) continue;
  const { inPlace: places, listed } = ORACLES[name];
  const reduces = parameters.includes('op');
  describe(`${name}, hierarchical, on several hosts`, () => {
    for (const [placement, hostOf] of Object.entries(PLACEMENTS)) {
      for (const inPlace of both(places)) {
        it(`${placement}${inPlace ? ', in place' : ''}`, () => {
          for (let size = 1; size <= MAX_RANKS; size++) {
            const hosts = ranksOf({ size }).map((rank) => hostOf(rank, size));
            for (const root of rootsOf(name, size)) {
              for (const count of [0, 1, 7])
                check(name, { size, root, count, inPlace, gaps: false }, 'hierarchical', hosts);
            }
            if (![2, 6, 7].includes(size)) continue;
            // Beyond the slots of alltoallv, and the limits between algorithms inside a host.
            for (const count of reduces ? [20_000] : [511, 512, 513, 1025, 40_000]) {
              check(name, { size, root: size - 1, count, inPlace, gaps: listed }, 'hierarchical', hosts);
            }
          }
        });
      }
    }
  });
}

describe('which algorithm is taken on several hosts', () => {
  const chosen = (name: OperationName, bytes: number, hosts: readonly number[], more: object = {}): string => {
    const row = OPERATIONS.find((operation) => operation.name === name)!;
    return row.choose({ rank: 0, size: hosts.length, root: 0, bytes, inPlace: false, hosts, ...more } as never);
  };
  const reduction = { commutes: true, unit: 1 };

  for (const name of ['ibarrier', 'ibcast', 'iallgather', 'ialltoall', 'ireduce', 'iallreduce'] as const) {
    it(`${name}: the hierarchical one where a host has several ranks`, () => {
      for (const hosts of [
        [0, 0, 1],
        [0, 1, 0, 1],
        [3, 1, 1],
      ]) {
        assert.equal(chosen(name, 8, hosts, reduction), 'hierarchical');
      }
      for (const hosts of [[0], [0, 0, 0], [0, 1, 2]]) {
        assert.notEqual(chosen(name, 8, hosts, reduction), 'hierarchical');
      }
    });
  }

  it('none that packs large blocks, or reorders operands that must not change places', () => {
    assert.notEqual(chosen('ialltoall', 100_000, [0, 0, 1, 1]), 'hierarchical');
    for (const name of ['ireduce', 'iallreduce'] as const) {
      assert.notEqual(chosen(name, 8, [0, 0, 1, 1], { ...reduction, commutes: false }), 'hierarchical');
    }
  });
});

describe('which algorithm is taken where ranks share processors', () => {
  const chosen = (name: OperationName, size: number, bytes: number, more: object = {}): string => {
    const row = OPERATIONS.find((operation) => operation.name === name)!;
    const shape = { rank: 0, size, root: 0, bytes, inPlace: false, crowded: true, commutes: true, unit: 1, ...more };
    const blocks = Array.from({ length: size }, (_, rank) => ({ offset: rank * bytes, bytes }));
    return row.choose({ ...shape, blocks } as never);
  };

  for (const [name, central, above, elsewhere, limit] of [
    ['ibarrier', 'linear', 'linear', 'dissemination', 0],
    ['ireduce', 'linear', 'binomial', 'binomial', 131_072],
    ['iallreduce', 'linear', 'rabenseifner', 'rabenseifner', 131_072],
    ['ireduceScatterBlock', 'linear', 'recursive-halving', 'pairwise', 32_768],
    ['ireduceScatter', 'linear', 'recursive-halving', 'pairwise', 32_768],
    ['iscan', 'central', 'linear', 'recursive-doubling', 131_072],
    ['iexscan', 'central', 'linear', 'recursive-doubling', 131_072],
    ['iallgather', 'central', 'linear', 'linear', 65_536],
    ['iallgatherv', 'central', 'linear', 'linear', 65_536],
    ['ialltoall', 'central', 'linear', 'linear', 256],
  ] as const) {
    it(`${name}: that of rank 0 for small messages of more than four ranks`, () => {
      assert.equal(chosen(name, 8, limit), central);
      assert.equal(chosen(name, 8, limit + 8), above);
      assert.equal(chosen(name, 8, limit, { crowded: false }), elsewhere);
      assert.equal(chosen(name, 33, 8), chosen(name, 33, 8, { crowded: false }));
      assert.equal(chosen(name, 4, 8), chosen(name, 4, 8, { crowded: false }));
    });
  }

  it('what is large: few steps, too', () => {
    const [large, larger] = [1 << 20, 1 << 24];
    const lone = { crowded: false };
    for (const [name, ranks, bytes, together, apart] of [
      ['ibcast', 16, larger, 'linear', 'chain'],
      ['ibcast', 32, larger, 'binomial', 'chain'],
      ['ibcast', 33, larger, 'chain', 'chain'],
      ['iallgather', 16, large, 'linear', 'ring'],
      ['ireduceScatterBlock', 16, large / 8, 'recursive-halving', 'pairwise'],
      ['ireduceScatterBlock', 16, large / 4, 'pairwise', 'pairwise'],
    ] as const) {
      assert.equal(chosen(name, ranks, bytes), together, `${name}, ${ranks} ranks, ${bytes} bytes`);
      assert.equal(chosen(name, ranks, bytes, lone), apart, `${name}, ${ranks} ranks, ${bytes} bytes, not crowded`);
    }
  });

  it("functions of the program's own run where each algorithm wants them", () => {
    for (const name of ['iallreduce', 'ireduce', 'iscan', 'ireduceScatterBlock'] as const) {
      for (const bytes of [8, 1 << 20]) {
        const own = { operator: Operator.USER };
        assert.equal(chosen(name, 8, bytes, own), chosen(name, 8, bytes, { ...own, crowded: false }));
      }
    }
  });
});

describe('operations, any shape', () => {
  for (const { name, algorithms } of OPERATIONS) {
    it(`${name}, chosen or forced`, () => {
      const shape = fc.record({
        size: fc.integer({ min: 1, max: 40 }),
        root: fc.nat(39),
        count: fc.nat(600),
        inPlace: fc.boolean(),
        gaps: fc.boolean(),
        hosts: fc.option(fc.array(fc.nat(4), { minLength: 40, maxLength: 40 })),
        crowded: fc.boolean(),
      });
      const property = fc.property(
        shape,
        fc.constantFrom(CHOSEN, ...algorithms.map((row) => row.name)),
        ({ hosts, crowded, ...c }, algorithm) => {
          const { rooted, inPlace } = ORACLES[name];
          const root = rooted ? c.root % c.size : 0;
          check(
            name,
            { ...c, root, inPlace: inPlace && c.inPlace },
            algorithm,
            hosts?.slice(0, c.size),
            crowded && hosts === null,
          );
        },
      );
      fc.assert(property, { numRuns: BRIEF ? 20 : 60 });
    });
  }
});

describe('an operator that does not commute', () => {
  const local: Parameters<typeof simulate>[1] = (element, bytes) => {
    if (element.kind !== 'reduce') {
      runLocal(element, bytes);
      return;
    }
    const source = bytes(element.sourceRole, element.sourceOffset, element.bytes);
    const target = bytes(element.targetRole, element.targetOffset, element.bytes);
    if (element.order === Order.SOURCE_FIRST) compose(target, source, target);
    else compose(target, target, source);
  };

  for (const { name, algorithms, parameters } of OPERATIONS) {
    if (!parameters.includes('op')) continue;
    const rows: readonly { name: string; reorders?: boolean }[] = algorithms;
    for (const algorithm of [CHOSEN, ...rows.filter((row) => row.reorders !== true).map((row) => row.name)]) {
      it(`${name}, ${algorithm ?? 'chosen'}: has its operands in the order of the ranks`, () => {
        for (let size = 1; size <= MAX_RANKS; size++) {
          for (const root of rootsOf(name, size)) {
            for (const inPlace of both(ORACLES[name].inPlace)) {
              for (const count of [2, 32 * 1024]) {
                if (count > 2 && (size !== 7 || root > 0)) continue;
                const c: Case = { size, root, count, inPlace, gaps: false, op: COMPOSE };
                assertAgrees(name, c, { algorithm, local });
              }
            }
          }
        }
      });
    }
    for (const { name: algorithm } of rows.filter((row) => row.reorders === true)) {
      it(`${name}, ${algorithm}: is refused`, () => {
        const c: Case = { size: 4, root: 0, count: 4, inPlace: false, gaps: false, op: COMPOSE };
        const { args } = arrange(ORACLES[name], c, 1, (length) => new Uint8Array(length));
        assert.throws(() => capture(name, 1, 4, args, { algorithm }), {
          name: 'ArgumentError',
          message: `algorithm: ${algorithm} needs an operator that commutes`,
        });
      });
    }
  }
});

describe('algorithms', () => {
  const decoded = (schedule: Schedule): DecodedSchedule => decodeSchedule(schedule.encode());
  const shape = (rank: number, size: number, bytes: number): Shape => ({ rank, size, root: 0, bytes, inPlace: false });
  const sendsOf = ({ rounds }: DecodedSchedule): number => rounds.flat().filter(({ kind }) => kind === 'send').length;

  it('ibcast, chain: any number of segments, whole and broken last ones', () => {
    for (let size = 1; size <= MAX_RANKS; size++) {
      for (const bytes of [1, 63, 64, 65, 1000]) {
        const message = fill(new Uint8Array(bytes), 1);
        const states = ranksOf({ size }).map((rank) => ({
          schedule: decoded(bcastChain(shape(rank, size, bytes), 64)),
          send: null,
          receive: rank === 0 ? message.slice() : new Uint8Array(bytes),
        }));
        simulate(states);
        for (const { receive } of states) assert.deepEqual(receive, message);
      }
    }
  });

  it('ibcast, chain: a pipeline; rank v is done after v + segments rounds', () => {
    const segments = 10;
    for (let rank = 1; rank < 4; rank++) {
      const { rounds } = decoded(bcastChain(shape(rank, 5, 640), 64));
      assert.equal(rounds.length, segments + 1);
      for (const round of rounds.slice(1, -1)) assert.deepEqual(round.map((e) => e.kind).sort(), ['recv', 'send']);
    }
  });

  it('ibcast, chain: a bounded number of segments', () => {
    for (const bytes of [2 ** 20, 2 ** 25 + 1, 2 ** 32 - 1, 2 ** 40]) {
      assert.ok(Math.ceil(bytes / bcastSegment(bytes)) <= BCAST_MAX_SEGMENTS, `${bytes} B`);
    }
  });

  it('ibcast, circulant: ⌈log₂ p⌉ − 1 + n steps for n blocks, of at most one send and one receive', () => {
    for (let size = 2; size <= 34; size++) {
      for (const blocks of [1, 2, 3, 4, 5, 6, 7, 8, 19]) {
        for (const root of new Set([0, size - 1])) {
          const bytes = 3 * blocks;
          const message = fill(new Uint8Array(bytes), 1);
          const states = ranksOf({ size }).map((rank) => ({
            schedule: decoded(bcastCirculant({ ...shape(rank, size, bytes), root }, blocks)),
            send: null,
            receive: rank === root ? message.slice() : new Uint8Array(bytes),
          }));
          const what = `${size} ranks, ${blocks} blocks`;
          assert.equal(simulate(states), Math.ceil(Math.log2(size)) - 1 + blocks, what);
          for (const { schedule, receive } of states) {
            assert.deepEqual(receive, message, what);
            for (const round of schedule.rounds) {
              const kinds = round.map(({ kind }) => kind);
              assert.equal(new Set(kinds).size, kinds.length, what);
            }
          }
        }
      }
    }
  });

  it('ibcast, circulant: each rank receives each byte once, on any number of ranks', () => {
    for (const size of [100, 129, 500, 777]) {
      for (const rank of [1, 2, size >> 1, size - 1]) {
        const received = decoded(bcastCirculant(shape(rank, size, 40), 40))
          .rounds.flat()
          .flatMap((element) => (element.kind === 'recv' ? [element.offset] : []));
        assert.deepEqual(
          received.sort((a, b) => a - b),
          Array.from({ length: 40 }, (_, i) => i),
          `rank ${rank} of ${size}`,
        );
      }
    }
  });

  it('ibcast, circulant: a bounded number of blocks', () => {
    for (const bytes of [0, 1, 2 ** 20, 2 ** 40]) {
      for (const size of [1, 2, 3, 1000]) {
        const blocks = circulantBlocks(size, bytes);
        assert.ok(blocks >= 1 && blocks <= CIRCULANT_MAX_BLOCKS, `${size} ranks, ${bytes} B: ${blocks}`);
      }
    }
  });

  it('a binomial tree is logarithmically deep and moves the fewest bytes', () => {
    for (let size = 2; size <= 64; size++) {
      const sends = ranksOf({ size }).map((rank) => sendsOf(decoded(bcastBinomial(shape(rank, size, 8)))));
      for (const own of sends) assert.ok(own <= Math.ceil(Math.log2(size)));
      assert.equal(
        sends.reduce((sum, own) => sum + own, 0),
        size - 1,
      );
    }
  });

  it('Bruck sends one message per bit of the number of ranks', () => {
    for (let size = 1; size <= 64; size++) {
      assert.equal(sendsOf(decoded(alltoallBruck(shape(size - 1, size, 8)))), Math.ceil(Math.log2(size)));
    }
  });

  for (const { name } of OPERATIONS.find((operation) => operation.name === 'ibarrier')!.algorithms) {
    it(`ibarrier, ${name}: no rank passes while one is absent`, () => {
      for (let size = 2; size <= MAX_RANKS; size++) {
        const hosts = ranksOf({ size }).map((rank) => rank % 3);
        for (const absent of ranksOf({ size })) {
          const states = ranksOf({ size }).map((rank) => {
            const { schedule } = capture('ibarrier', rank, size, [], { algorithm: name, hosts });
            return { schedule: rank === absent ? { ...schedule, rounds: [] } : schedule, send: null, receive: null };
          });
          const others = ranksOf({ size }).filter((rank) => rank !== absent);
          const stuck = others.map((rank) => `rank ${rank} in round \\d+`).join(', ');
          assert.throws(
            () => {
              simulate(states);
            },
            new RegExp(`^Error: deadlock: ${stuck}$`),
          );
        }
      }
    });
  }

  it('hierarchical: one message from each host to each other one, whatever the ranks of a host', () => {
    const hosts = [0, 1, 0, 1, 2, 2, 1, 0, 2];
    const size = hosts.length;
    const count = (name: OperationName): number => {
      const c = withOperator({ size, root: 4, count: 8, inPlace: false, gaps: false }, 0);
      return ranksOf(c).reduce((sum, rank) => {
        const { args } = arrange(ORACLES[name], c, rank, (length) => new Uint8Array(length));
        const { rounds } = capture(name, rank, size, args, { algorithm: 'hierarchical', hosts }).schedule;
        const far = rounds.flat().filter((element) => element.kind === 'send' && hosts[element.peer] !== hosts[rank]);
        return sum + far.length;
      }, 0);
    };
    assert.deepEqual(
      (['ibcast', 'ireduce', 'iallgather', 'ialltoall'] as const).map(count),
      // Down or up a tree of three hosts; and from each of three to two others.
      [2, 2, 6, 6],
    );
  });

  it('pairwise meets one partner at a time', () => {
    const { rounds } = decoded(alltoallPairwise(shape(3, 9, 8)));
    assert.equal(rounds.length, 8);
    for (const round of rounds) assert.equal(round.filter((element) => element.kind === 'send').length, 1);
  });
});
