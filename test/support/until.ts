/** Waits for something that another process does; fails loudly, and says what was waited for, if it never does. */
const LIMIT_MS = 60_000;
const PAUSE_MS = 10;

export async function until<T>(what: string, look: () => T | undefined | false): Promise<T> {
  const end = performance.now() + LIMIT_MS;
  for (;;) {
    const found = look();
    if (found !== undefined && found !== false) return found;
    if (performance.now() > end) throw new Error(`waited ${LIMIT_MS / 1000} s in vain: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}
