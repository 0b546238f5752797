/** Runs a collective of all ranks on the simulator, and compares what they end with with the oracle. */
import assert from 'node:assert/strict';
import type { NeighborOperationName } from 'node-nbc';
import type { OperationName } from 'node-nbc/schedules';
import type { Neighbors } from '../../src/topologies.js';
import type { Scattered } from '../layouts.js';
import { NEIGHBOR_ORACLES } from '../neighbors.js';
import { arrange, type Case, contribution, ORACLES, ranksOf } from '../oracle.js';
import { capture } from './captured.js';
import { simulate } from './simulator.js';

export interface Circumstances {
  /** The algorithm that is forced; default: the operation chooses. */
  algorithm?: string | undefined;
  /** The host of each rank. */
  hosts?: readonly number[] | undefined;
  /** Whether ranks share processors. */
  crowded?: boolean | undefined;
  /** What the library says of each rank, where the case has lists. */
  neighbors?: readonly Neighbors[];
  /** The layout of a buffer; null: a plain view. */
  scatter?: (length: number, role: 'send' | 'recv', rank: number) => Scattered | null;
  /** How the simulator runs local elements. */
  local?: Parameters<typeof simulate>[1];
}

/** Bytes that tell where they come from: every seed and position has its own. */
export function fill(bytes: Uint8Array, seed: number): Uint8Array {
  let state = (seed * 2654435761 + 1) >>> 0;
  for (let i = 0; i < bytes.length; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    bytes[i] = state >>> 24;
  }
  return bytes;
}

/** Receive buffers hold what they must, all other memory what it held. */
export function assertAgrees(
  name: OperationName | NeighborOperationName,
  c: Case,
  { algorithm, hosts, crowded, neighbors, scatter, local }: Circumstances = {},
): void {
  const oracle = { ...ORACLES, ...NEIGHBOR_ORACLES }[name];
  const parts = ranksOf(c).map((rank) => {
    const scattered = new Map<Uint8Array, Scattered>();
    const part = arrange(oracle, c, rank, (length, role) => {
      const bytes = fill(new Uint8Array(length), 1000 + rank);
      const memory = scatter?.(length, role, rank) ?? null;
      if (memory !== null) scattered.set(bytes, memory);
      return bytes;
    });
    const own = contribution(oracle, c, rank, part);
    if (own !== null) fill(own, 1 + rank);
    for (const [bytes, memory] of scattered) memory.write(bytes);
    const args = part.args.map((arg) => scattered.get(arg as Uint8Array)?.layout ?? arg);
    return { ...part, args, scattered, input: own?.slice() };
  });
  const expected = parts.map(({ recv }, rank) => {
    if (recv === null) return null;
    const result = recv.slice();
    oracle.result(c, rank, (from) => parts[from].input!, result);
    return result;
  });
  const sent = parts.map(({ send }) => send?.slice() ?? null);
  simulate(
    parts.map(({ args }, rank) => capture(name, rank, c.size, args, { algorithm, hosts, crowded, neighbors })),
    local,
  );
  for (const [rank, { send, recv, scattered }] of parts.entries()) {
    const what = (buffer: string): string =>
      `${name}, ${algorithm ?? 'chosen'}, rank ${rank}, ${buffer}: ${JSON.stringify({ ...c, op: c.op.name, hosts, crowded })}`;
    const assertHolds = (buffer: Uint8Array | null, right: Uint8Array | null, role: string): void => {
      if (buffer === null) return;
      const now = scattered.get(buffer)?.read() ?? buffer;
      // The comparison that shows the difference takes its time.
      if (Buffer.compare(now, right!) !== 0) assert.deepEqual(now, right, what(role));
    };
    assertHolds(recv, expected[rank], 'the receive buffer');
    assertHolds(send, sent[rank], 'the send buffer');
    for (const memory of scattered.values()) memory.assertBetween(what('a layout'));
  }
}
