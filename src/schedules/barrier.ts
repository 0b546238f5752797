/**
 * Barriers: no rank ends before every rank has started.
 *
 * Source: MPI 4.1, 6.3 (MPI_BARRIER).
 */
import { Role, Schedule } from './schedule.js';
import type { Shape } from './shape.js';

/**
 * In step k every rank tells rank + 2^k that it is there, and hears it from rank − 2^k. After k steps a rank has heard,
 * by way of others, from 2^k ranks. A message is one byte without meaning.
 */
export function barrierDissemination({ rank, size }: Shape): Schedule {
  const schedule = new Schedule();
  let step = 1;
  for (let distance = 1; distance < size; distance *= 2) {
    schedule.send((rank + distance) % size, Role.TEMP, 0, 1);
    schedule.recv((rank - distance + size) % size, Role.TEMP, step++, 1).round();
  }
  return schedule;
}

/** Every rank tells rank 0, which then tells every rank. */
export function barrierLinear({ rank, size }: Shape): Schedule {
  const schedule = new Schedule();
  if (rank !== 0) return schedule.send(0, Role.TEMP, 0, 1).round().recv(0, Role.TEMP, 1, 1);
  for (let peer = 1; peer < size; peer++) schedule.recv(peer, Role.TEMP, peer, 1);
  schedule.round();
  for (let peer = 1; peer < size; peer++) schedule.send(peer, Role.TEMP, 0, 1);
  return schedule;
}
