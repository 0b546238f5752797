/** Waits for something that another process does; fails loudly, and says what was waited for, if it never does. */
import { Limit, LIMIT_S } from './limit.js';

const PAUSE_MS = 10;

/** `explain` is asked for more to say, when the limit is hit. */
export async function until<T>(
  what: string,
  look: () => T | undefined | false | Promise<T | undefined | false>,
  explain: () => Promise<string> = async () => '',
): Promise<T> {
  const late = new AbortController();
  const limit = new Limit(LIMIT_S.wait, () => late.abort());
  try {
    for (;;) {
      const found = await look();
      if (found !== undefined && found !== false) return found;
      if (late.signal.aborted) throw new Error(`waited ${LIMIT_S.wait} s in vain: ${what}\n${await explain()}`);
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  } finally {
    limit.stop();
  }
}
