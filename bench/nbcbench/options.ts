/** What the command line of nbcbench may say, and what it means. */
import { InvalidArgumentError } from 'commander';
import { OPS, type Op } from './operations.js';
import { peerNames } from './peers.js';
import { WAYS, type Way } from './ways.js';
import { BUFFER_KINDS, FORMS, STARTS, type BufferKind, type Form, type Start } from './wire.js';

const units: Record<string, number> = { '': 1, K: 1024, M: 1024 ** 2, G: 1024 ** 3 };

/** "8", "16K", "1MiB" → bytes. Units are binary. */
export function parseBytes(text: string): number {
  const match = /^(\d+)([KMG]?)(?:i?B)?$/i.exec(text.trim());
  if (match === null) throw new InvalidArgumentError(`"${text}" is not a size, such as 8, 16K or 1M.`);
  const bytes = Number(match[1]) * units[match[2].toUpperCase()];
  if (bytes > 2 ** 31 - 1) throw new InvalidArgumentError(`${text} is more than an MPI count can hold (2G - 1).`);
  return bytes;
}

/** "8,16K" → [8, 16384]; "1K..8K" → [1024, 2048, 4096, 8192]. */
export function parseSizes(text: string): number[] {
  return list(text).flatMap((part) => {
    const ends = part.split('..');
    const first = parseBytes(ends[0]);
    if (ends.length === 1) return first;
    const last = parseBytes(ends[1]);
    if (first === 0 || last < first) throw new InvalidArgumentError(`"${part}" is not a range: FROM..TO doubles FROM.`);
    const result = [];
    for (let bytes = first; bytes <= last; bytes *= 2) result.push(bytes);
    return result;
  });
}

/** "0,1024" → [0, 1024] */
export const parseIntervals = (text: string): number[] => list(text).map(parseBytes);

export const parseRanks = (text: string): number[] => list(text).map((part) => parseCount(part, 'a number of ranks'));

export function parsePositive(text: string): number {
  return parseCount(text, 'a positive whole number');
}

export function parseSeconds(text: string): number {
  const seconds = Number(text);
  if (!(seconds > 0 && seconds < 1e6)) throw new InvalidArgumentError(`"${text}" is not a number of seconds.`);
  return seconds;
}

/** "0,1,10" → [0, 1, 10]: milliseconds */
export function parseDelays(text: string): number[] {
  return list(text).map((part) => {
    const ms = Number(part);
    if (!(ms >= 0 && ms <= 10_000)) throw new InvalidArgumentError(`"${part}" is not a delay in milliseconds.`);
    return ms;
  });
}

export const parseInterfaces = (text: string): string[] => list(text);

function parseCount(text: string, what: string): number {
  const count = Number(text);
  if (!/^\d+$/.test(text) || count < 1 || count > 1e7) throw new InvalidArgumentError(`"${text}" is not ${what}.`);
  return count;
}

/** "all" → every operation there is */
export function parseOps(text: string): Op[] {
  const found = words(text, ['all', ...OPS] as const);
  return found.includes('all') ? [...OPS] : (found as Op[]);
}
export const parseForms = (text: string): Form[] => words(text, FORMS);
export const parseProgress = (text: string): string[] => words(text, ['thread', 'manual'] as const);
export const parseWays = (text: string): Way[] => words(text, WAYS);
export const parseStart = (text: string): Start | 'auto' => words(text, ['auto', ...STARTS] as const)[0];
export const parsePeers = (text: string): string[] => words(text, peerNames);
export const parseTransports = list;

export function parseBuffers(text: string): BufferKind[] {
  const kinds = words(text, [...BUFFER_KINDS, 'both'] as const);
  return kinds.includes('both') ? [...BUFFER_KINDS] : (kinds as BufferKind[]);
}

function list(text: string): string[] {
  const parts = text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');
  if (parts.length === 0) throw new InvalidArgumentError('The list is empty.');
  return [...new Set(parts)];
}

function words<Word extends string>(text: string, known: readonly Word[]): Word[] {
  return list(text).map((part) => {
    const word = known.find((candidate) => candidate === part);
    if (word === undefined) throw new InvalidArgumentError(`"${part}" is not one of ${known.join(', ')}.`);
    return word;
  });
}

/** 16384 → "16 KiB" */
export function formatBytes(bytes: number): string {
  for (const [unit, factor] of [
    ['GiB', 1024 ** 3],
    ['MiB', 1024 ** 2],
    ['KiB', 1024],
  ] as const) {
    if (bytes >= factor && bytes % factor === 0) return `${bytes / factor} ${unit}`;
  }
  return `${bytes} B`;
}

/** 0 → "no tests", 1024 → "a test every 1 KiB" */
export const formatInterval = (interval: number): string =>
  interval === 0 ? 'no tests' : `a test every ${formatBytes(interval)}`;
