import { Role, type Schedule } from './schedule.js';

/**
 * The jumps of Bruck's algorithm: in step k every rank packs all blocks whose distance has bit k, sends them as one
 * message to rank + 2^k, and has those of rank − 2^k instead. The block for distance d stands in temporary memory at
 * `start` + d × `bytes`; behind the blocks there is one area for what is sent and one for what is received.
 */
export function travel(schedule: Schedule, rank: number, size: number, bytes: number, start: number): void {
  const pack = start + size * bytes;
  const arrivals = pack + Math.floor(size / 2) * bytes;
  for (let bit = 1; bit < size; bit *= 2) {
    // Distances that have the bit come in runs of that length; the last one may be shorter.
    const runs = Math.floor(size / (2 * bit));
    const [run, apart] = [bit * bytes, 2 * bit * bytes];
    const rest = Math.max((size % (2 * bit)) - bit, 0) * bytes;
    const restAt = start + run + runs * apart;
    const length = runs * run + rest;
    const out = { count: runs, sourceStride: apart, targetStride: run };
    schedule.strided(Role.TEMP, start + run, Role.TEMP, pack, run, [out]);
    schedule.copy(Role.TEMP, restAt, Role.TEMP, pack + runs * run, rest).round();
    schedule.send((rank + bit) % size, Role.TEMP, pack, length);
    schedule.recv((rank - bit + size) % size, Role.TEMP, arrivals, length).round();
    const back = { count: runs, sourceStride: run, targetStride: apart };
    schedule.strided(Role.TEMP, arrivals, Role.TEMP, start + run, run, [back]);
    schedule.copy(Role.TEMP, arrivals + runs * run, Role.TEMP, restAt, rest);
  }
}
