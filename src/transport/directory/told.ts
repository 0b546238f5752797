/**
 * What ranks tell each other before they are connected. It comes from outside: from another version of node-nbc,
 * perhaps, or from somebody who is no rank. So each value is looked at before anything is done with it.
 */
import { net } from '../../builtins.js';
import { BootstrapError } from '../../errors.js';
import type { Directory } from './directory.js';

export type Check<T> = (value: unknown) => value is T;

/** Linux has fewer in any configuration. A longer list would only take memory. */
const MOST_PROCESSORS = 65_536;
const MOST_PROCESSES = 2 ** 22;
/** How much of a value an error shows. */
const SHOWN = 60;

/**
 * What all ranks tell, by rank. All call it, each once for a name.
 * @throws {BootstrapError} if one of them is not what `is` expects
 */
export async function exchange<T>(directory: Directory, name: string, mine: T, is: Check<T>): Promise<T[]> {
  return mustAllBe(is, await directory.exchange(name, mine), directory, name);
}

/** @throws {BootstrapError} if one of those that were told as `name`, by rank, is not what `is` expects */
export function mustAllBe<T>(is: Check<T>, all: unknown[], { rank }: Directory, name: string): T[] {
  const wrong = all.findIndex((value) => !is(value));
  if (wrong < 0) return all as T[];
  const text = all[wrong] === undefined ? 'nothing' : shown(JSON.stringify(all[wrong]));
  throw new BootstrapError(
    `rank ${wrong} told ${text} as '${name}', which no rank of this version of node-nbc does`,
    rank,
  );
}

/** For errors: a long text is cut. */
export const shown = (text: string): string => (text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text);

export const isText: Check<string> = (value): value is string => typeof value === 'string';
export const isTextOf =
  (pattern: RegExp): Check<string> =>
  (value): value is string =>
    typeof value === 'string' && pattern.test(value);
export const isAddress: Check<string> = (value): value is string =>
  typeof value === 'string' && net().isIP(value) !== 0;
export const isAddresses: Check<string[]> = (value): value is string[] =>
  Array.isArray(value) && value.every(isAddress);
export const isPort: Check<number> = (value): value is number => isWhole(value, 1, 65_535);
export const isProcess: Check<number> = (value): value is number => isWhole(value, 1, MOST_PROCESSES);

/** Of processors, as the kernel writes it: '0-3,8'. */
export const isCpuList: Check<string> = (value): value is string => {
  if (typeof value !== 'string' || !/^(\d{1,5}(-\d{1,5})?(,|$))*$/.test(value)) return false;
  const parts = value.split(',').map((part) => part.split('-').map(Number));
  return parts.reduce((sum, [first, last = first]) => sum + last - first + 1, 0) <= MOST_PROCESSORS;
};

/** An object with these members, and perhaps others. */
export const isObjectOf =
  <T extends object>(members: { [K in keyof T]-?: Check<T[K]> }): Check<T> =>
  (value): value is T =>
    typeof value === 'object' &&
    value !== null &&
    Object.entries(members as Record<string, Check<unknown>>).every(
      ([name, is]) => Object.hasOwn(value, name) && is((value as Record<string, unknown>)[name]),
    );

function isWhole(value: unknown, least: number, most: number): value is number {
  return Number.isInteger(value) && (value as number) >= least && (value as number) <= most;
}
