import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../binaries.js';

/** The version of this package. */
export const version = (JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string }).version;
