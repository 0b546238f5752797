/** Limits of time that find hangs: scripts/test/limit.mjs, with its types. */
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

interface Limits {
  slowness: () => number;
  Limit: new (seconds: number, hit: () => void) => { stop: () => void };
}

const root = dirname(createRequire(import.meta.url).resolve('node-nbc/package.json'));
export const { slowness, Limit } = (await import(join(root, 'scripts/test/limit.mjs'))) as Limits;
