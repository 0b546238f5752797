/** Where in the program requests were made, for errors: with option `debug`. */
import { sep } from 'node:path';
import { url } from './builtins.js';

/** Files of this package, and of the runtime, are not the program's. Frames name scripts by path, modules by URL. */
const OWN = `${import.meta.dirname}${sep}`;
let ownUrl: string | undefined;

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
  ownUrl ??= url().pathToFileURL(OWN).href;
  const frames = stack().split('\n').slice(1);
  for (const frame of frames) {
    // A path may have blanks and parentheses.
    const place = / \((.+:\d+:\d+)\)$/.exec(frame)?.[1] ?? /^ *at (?:async )?(.+:\d+:\d+)$/.exec(frame)?.[1];
    if (place === undefined || place.startsWith('node:')) continue;
    if (!place.startsWith(OWN) && !place.startsWith(ownUrl)) return place;
  }
  return undefined;
}
