/**
 * Libraries to link against in place of the compiler's glibc, so that the result runs with glibc 2.28 and newer.
 *
 * A symbol of glibc has a version for each meaning that it ever had, and the linker takes the newest. Most versions
 * above 2.28 have no new meaning: in 2.34 libpthread and libdl moved into libc. So for each such symbol of the
 * compiler's libc a stub library has the newest version up to 2.28, under the name of the library where it was. What is
 * really newer has no older version, and native/portable/glibc.cc has it instead.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export const GLIBC = '2.28';

/**
 * Where symbols that moved or changed in glibc 2.34 were before; of others none is needed. __libc_start_main was in
 * libc, but a stub of that name would keep the linker from the real one. At run time only the version's name counts.
 */
function libraryOf(name) {
  if (/^(pthread|sem)_|^__libc_start_main$/.test(name)) return 'libpthread.so.0';
  return /^dl/.test(name) ? 'libdl.so.2' : undefined;
}

const numbers = (version) => version.split('.').map(Number);

/** As the comparing functions of sort(). */
export function compareVersions(a, b) {
  const [x, y] = [numbers(a), numbers(b)];
  for (let i = 0; i < Math.max(x.length, y.length); i++) {
    const difference = (x[i] ?? 0) - (y[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

/** Standard output of a tool; an error with what it said if it fails. */
export function tool(command, ...args) {
  const { status, error, stdout, stderr } = spawnSync(command, args, {
    encoding: 'utf8',
    maxBuffer: 2 ** 28,
    env: { ...process.env, LC_ALL: 'C' },
  });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}: ${error?.message ?? stderr}`);
  return stdout;
}

/** Makes the libraries in `folder` for compilers whose names begin with `prefix`, for example `aarch64-linux-gnu-`. */
export function makeStubs(prefix, folder) {
  mkdirSync(folder, { recursive: true });
  const libc = tool(`${prefix}g++`, '-print-file-name=libc.so.6').trim();
  const symbols = tool(`${prefix}readelf`, '--dyn-syms', '--wide', libc);
  const newest = new Map();
  const older = new Map();
  for (const [, name, mark, version] of symbols.matchAll(/ (\w+)(@@?)GLIBC_([\d.]+)$/gm)) {
    if (mark === '@@') newest.set(name, version);
    else if (compareVersions(version, GLIBC) <= 0 && compareVersions(version, older.get(name) ?? '0') > 0)
      older.set(name, version);
  }
  const libraries = {};
  for (const [name, version] of newest) {
    const library = libraryOf(name);
    if (library === undefined || compareVersions(version, GLIBC) <= 0 || !older.has(name)) continue;
    (libraries[library] ??= []).push(name);
  }
  for (const [library, names] of Object.entries(libraries)) {
    const versions = [...new Set(names.map((name) => older.get(name)))].sort(compareVersions);
    const assembly = names.map(
      (name) =>
        `.globl _${name}\n.type _${name}, %function\n_${name}: .symver _${name}, ${name}@@GLIBC_${older.get(name)}\n`,
    );
    const [source, script] = ['s', 'map'].map((type) => join(folder, library.replace(/so.*/, type)));
    writeFileSync(source, `.text\n${assembly.join('')}`);
    writeFileSync(script, versions.map((version) => `GLIBC_${version} { };\n`).join(''));
    const options = ['-shared', '-nostdlib', `-Wl,-soname,${library}`, `-Wl,--version-script,${script}`];
    tool(`${prefix}g++`, ...options, '-o', join(folder, library), source);
  }
}

/** The newest version of each family of symbols (GLIBC, GCC and so on) that a binary needs. */
export function neededVersions(file) {
  const needed = {};
  const text = tool('readelf', '--version-info', '--wide', file);
  for (const [, family, version] of text.matchAll(/Name: (\w+?)_([\d.]+) /g)) {
    if (compareVersions(version, needed[family] ?? '0') > 0) needed[family] = version;
  }
  return needed;
}
