/**
 * Modules of Node.js that few ranks need: most look for others, which a thread of `runRanks()` has met already. Loading
 * these takes a tenth of what it takes to load the package, so the first who needs one loads it. They are parts of the
 * executable, so this works also where no file can be opened any more.
 */
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);

export const crypto = (): typeof import('node:crypto') => require('node:crypto') as typeof import('node:crypto');
export const dgram = (): typeof import('node:dgram') => require('node:dgram') as typeof import('node:dgram');
export const net = (): typeof import('node:net') => require('node:net') as typeof import('node:net');
export const os = (): typeof import('node:os') => require('node:os') as typeof import('node:os');
export const timers = (): typeof import('node:timers/promises') =>
  require('node:timers/promises') as typeof import('node:timers/promises');
export const url = (): typeof import('node:url') => require('node:url') as typeof import('node:url');
export const v8 = (): typeof import('node:v8') => require('node:v8') as typeof import('node:v8');
