/** Files of /proc. */

/** In bytes: a field of smaps_rollup or status, for example `Pss`. NaN: the text has none. */
export function fieldOf(text: string, name: string): number {
  return Number(new RegExp(`^${name}:\\s*(\\d+) kB`, 'm').exec(text)?.[1] ?? NaN) * 1024;
}
