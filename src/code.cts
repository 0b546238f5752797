/**
 * Loads the parts of the bundle that a rank needs, which scripts/bundle.mjs makes CommonJS for that: of a script V8
 * gives away what it has compiled, of an ES module it does not. So the first rank of runRanks() that ends leaves for
 * the next ones what it has compiled (docs/architecture/threads.md).
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Script } from 'node:vm';
import { getEnvironmentData, isMainThread, setEnvironmentData } from 'node:worker_threads';

/** Of one file, in memory that all threads share. */
interface OfferedFile {
  readonly file: string;
  readonly text: Uint8Array;
  /** Room for V8's cache of what a rank has compiled, and how much of it is used once the state is KEPT. */
  readonly cache: Uint8Array;
  readonly cacheBytes: Int32Array;
}

interface Offer {
  readonly files: readonly OfferedFile[];
  /**
   * One word: NONE, WRITING, KEPT. The rank that exchanges NONE for WRITING writes all caches, then stores KEPT. Who
   * has loaded KEPT reads them, and nobody writes them again. (Atomics are sequentially consistent.)
   */
  readonly state: Int32Array;
}

const NONE = 0;
const WRITING = 1;
const KEPT = 2;

/** Of this copy of the package: a program may have several. scripts/bundle.mjs puts the hash in. */
const KEY = `node-nbc: compiled code of ${__dirname}, hash of the bundle`;
const HEAD = '(function (exports, require, module, __filename, __dirname) { ';
const TAIL = '\n});';
/** Deno and Bun have other caches, or none, and load modules in ways of their own. */
export const IS_NODE = process.versions['deno'] === undefined && process.versions['bun'] === undefined;

/** As long as this thread lives: what it has loaded once stays. */
const offer = isMainThread ? undefined : offerOf();
const loaded = new Map<string, { script: Script; exports: unknown }>();

/** What a file of the bundle exports, `./name.cjs`. */
export function load(file: string): unknown {
  const offered = offer?.files.find((each) => each.file === file);
  // eslint-disable-next-line @typescript-eslint/no-require-imports -- named when it runs
  if (offered === undefined) return require(file);
  const known = loaded.get(file);
  if (known !== undefined) return known.exports;
  const module = { exports: {} };
  const path = join(__dirname, file);
  const script = new Script(latin1(offered.text), { filename: path, cachedData: cacheOf(offered) });
  const run = script.runInThisContext() as (...given: unknown[]) => void;
  run(module.exports, require, module, path, __dirname);
  const { exports } = module;
  loaded.set(file, { script, exports });
  return exports;
}

/** `import()` for those files: in a script of node:vm there is none. */
export const importFrom = (specifier: string): Promise<unknown> => import(specifier);

/** Workers that are started from now on, by this thread and by those, load the files so that they can share them. */
export function offerCode(): void {
  if (!IS_NODE || offerOf() !== undefined) return;
  try {
    // eslint-disable-next-line @typescript-eslint/no-require-imports -- made by scripts/bundle.mjs
    const files = (require('./chunks.json') as string[]).map(offered);
    setEnvironmentData(KEY, { files, state: new Int32Array(shared(4).buffer) } satisfies Offer);
  } catch {
    // A file cannot be opened any more, say. Each worker tries it for itself.
  }
}

function offerOf(): Offer | undefined {
  return getEnvironmentData(KEY) as unknown as Offer | undefined;
}

function offered(file: string): OfferedFile {
  const text = Buffer.from(HEAD + readFileSync(join(__dirname, file), 'latin1') + TAIL, 'latin1');
  const copy = shared(text.length);
  copy.set(text);
  // A cache has 0.6 to 1.9 bytes for one of the text. What is never written takes no memory.
  return { file, text: copy, cache: shared(4 * text.length), cacheBytes: new Int32Array(shared(4).buffer) };
}

/** A rank that has ended has compiled what the next ones need. Takes one rank of a program 2 to 3 ms. */
export function keepCompiled(): void {
  if (offer === undefined || Atomics.compareExchange(offer.state, 0, NONE, WRITING) !== NONE) return;
  try {
    for (const { file, cache, cacheBytes } of offer.files) {
      const own = loaded.get(file)!.script.createCachedData();
      cache.set(own);
      cacheBytes[0] = own.length;
    }
    Atomics.store(offer.state, 0, KEPT);
  } catch {
    // There is no room for a cache, say. The next ranks compile for themselves.
  }
}

function cacheOf({ cache, cacheBytes }: OfferedFile): Buffer | undefined {
  return Atomics.load(offer!.state, 0) === KEPT ? Buffer.from(cache.buffer, 0, cacheBytes[0]) : undefined;
}

const latin1 = ({ buffer }: Uint8Array): string => Buffer.from(buffer).toString('latin1');

const shared = (bytes: number): Uint8Array => new Uint8Array(new SharedArrayBuffer(bytes));
