/** How a thread loads the module of the program that it runs. */
import { createRequire } from 'node:module';
import { importFrom, IS_NODE } from './code.cjs';

const require = createRequire(import.meta.url);

/** Options of Node.js, on its command line or in NODE_OPTIONS, that load what may change how modules are loaded. */
const LOADS = /(?:^|\s)(?:-r|--(?:require|import|loader|experimental-loader))\b/;
/** A file that `require()` takes for the same kind of module as `import()` does. */
const FILE = /^file:\/\/(\/[^?#]*\.[cm]?js)$/;

/** Nothing of a program has been loaded in this thread. */
let isFirst = true;

/**
 * What the module exports as `default`. `import()` takes a thread a tenth of what it takes to start, most of it for
 * Node.js's own code: Node.js 20 and 22 read ES modules asynchronously. `require()` loads ES modules, too, where
 * `process.features` says so. With one of these files it does the same, unless the module waits for something, or a
 * loader has been put in. Another module, which ran here before, may have done that.
 */
export async function defaultExport(module: string): Promise<unknown> {
  const path = isFirst && !hasLoader() ? pathOf(module) : undefined;
  isFirst = false;
  if (path !== undefined) {
    try {
      const loaded: unknown = require(path);
      return isNamespace(loaded) ? loaded.default : loaded;
    } catch (error) {
      // Nothing of it has run.
      if ((error as { code?: unknown } | null | undefined)?.code !== 'ERR_REQUIRE_ASYNC_MODULE') throw error;
    }
  }
  return ((await importFrom(module)) as { default?: unknown }).default;
}

/** Of the file, where `require()` can do it. */
function pathOf(module: string): string | undefined {
  const { require_module: takesAll } = process.features as { require_module?: boolean };
  const path = FILE.exec(module)?.[1];
  if (!IS_NODE || takesAll !== true || path === undefined) return undefined;
  try {
    const decoded = decodeURIComponent(path);
    // Another file (a link leads there, or the name is short of something), or none: import() knows what to do.
    return require.resolve(decoded) === decoded ? decoded : undefined;
  } catch {
    return undefined;
  }
}

const hasLoader = (): boolean => LOADS.test([...process.execArgv, process.env['NODE_OPTIONS']].join(' '));

/** Otherwise it is what a CommonJS module exports. */
const isNamespace = (loaded: unknown): loaded is { default?: unknown } =>
  typeof loaded === 'object' &&
  loaded !== null &&
  Symbol.toStringTag in loaded &&
  loaded[Symbol.toStringTag] === 'Module';
