/** How a thread loads the module of the program that it runs. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { importFrom, IS_NODE } from './code.cjs';

const require = createRequire(import.meta.url);

export interface Exports {
  readonly default?: unknown;
}

/** A file that may be an ES module. `import()` refuses the two encoded characters. */
const FILE = /^file:\/\/((?!.*%(?:2[fF]|5[cC]))\/[^?#]*\.m?js)$/;
/** Options of Node.js, on its command line or in NODE_OPTIONS, that may change how modules are loaded. */
const LOADS = /-r\b|--(?:require|import|loader|experimental-loader|experimental-(?:default-)?config-file)\b/;

/** Nothing of a program has been loaded in this thread. */
let isFirst = true;

/**
 * As `import()`, which takes a thread a tenth of what it takes to start, most of it for Node.js's own code: Node.js 20
 * and 22 read ES modules asynchronously. `require()` loads ES modules, too, where `process.features` says so. It does
 * the same with a file, unless the module waits for something, or a loader has been put in. Another module, which ran
 * here before, may have done that.
 * @param path {@link requirablePath} of it
 */
export async function loadModule(module: string, path: string | undefined): Promise<Exports> {
  const requires = isFirst && path !== undefined;
  isFirst = false;
  if (!requires) return (await importFrom(module)) as Exports;
  try {
    const loaded: unknown = require(path);
    if (isNamespace(loaded) && !('then' in loaded)) return loaded;
  } catch (error) {
    return await importAfter(error, module);
  }
  return (await importFrom(module)) as Exports;
}

/**
 * What require() refuses, import() may take. What has thrown does not run again: import() throws the same. What is
 * wrong before that it may say better; some versions of Node.js cannot.
 */
async function importAfter(first: unknown, module: string): Promise<Exports> {
  try {
    return (await importFrom(module)) as Exports;
  } catch (error) {
    throw (error as { code?: unknown } | null | undefined)?.code === 'ERR_INTERNAL_ASSERTION' ? first : error;
  }
}

/** Otherwise it is what the module exports as `module.exports`, which import() does not heed. */
const isNamespace = (loaded: unknown): loaded is Exports =>
  typeof loaded === 'object' &&
  loaded !== null &&
  Symbol.toStringTag in loaded &&
  loaded[Symbol.toStringTag] === 'Module';

/** Of an ES module, where threads of this process may require it; otherwise undefined. */
export function requirablePath(module: string): string | undefined {
  const encoded = FILE.exec(module)?.[1];
  if (encoded === undefined || !requiresAll()) return undefined;
  try {
    if (hasLoader()) return undefined;
    const path = decodeURIComponent(encoded);
    // Another file (a link leads there), or none: import() knows what to do.
    return require.resolve(path) === path && isEsModule(path) ? path : undefined;
  } catch {
    return undefined;
  }
}

/** Before 22.13 and 23.5, Node.js warns of it. */
function requiresAll(): boolean {
  const { require_module: says } = process.features as { require_module?: boolean };
  const [major, minor] = process.versions.node.split('.').map(Number);
  return IS_NODE && says === true && !(major === 22 && minor < 13) && !(major === 23 && minor < 5);
}

/** With what the process was started with: the program may have changed its variables. */
function hasLoader(): boolean {
  const variables = readFileSync('/proc/self/environ', 'latin1').split('\0');
  const started = variables.filter((variable) => variable.startsWith('NODE_OPTIONS='));
  const options = [...process.execArgv, process.env['NODE_OPTIONS'], ...started];
  return LOADS.test(options.join(' ').replaceAll('_', '-'));
}

/** What is not sure to be one may be CommonJS, which `require()` and `import()` treat differently. */
function isEsModule(path: string): boolean {
  if (path.endsWith('.mjs')) return true;
  for (let folder = dirname(path); !folder.endsWith('/node_modules'); folder = dirname(folder)) {
    try {
      const { type } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { type?: unknown };
      return type === 'module';
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || folder === '/') return false;
    }
  }
  return false;
}
