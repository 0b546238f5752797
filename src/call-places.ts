/** Where in the program requests were made, for errors: with option `debug`. */
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Files of this package, and of the runtime, are not the program's. */
const OWN = dirname(fileURLToPath(import.meta.url));

/** Calls of this package into itself, one inside of the other, are fewer than this. Node.js notes 10 by default. */
const DEEPEST = 30;

function stack(): string {
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = DEEPEST;
  const { stack = '' } = new Error();
  Error.stackTraceLimit = limit;
  return stack;
}

/** File, line and column of the innermost caller outside of this package: `file:///home/me/heat.js:12:5`. */
export function callPlace(): string | undefined {
  const frames = stack().split('\n').slice(1);
  for (const frame of frames) {
    const place = /\(?([^()\s]+:\d+:\d+)\)?$/.exec(frame)?.[1];
    if (place === undefined || place.startsWith('node:')) continue;
    const file = place.startsWith('file:') ? fileURLToPath(place.replace(/(:\d+){2}$/, '')) : place;
    if (!file.startsWith(OWN)) return place;
  }
  return undefined;
}
