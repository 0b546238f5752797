#!/usr/bin/env node
/**
 * `npm run release`: makes what is published, the same bytes each time. The prebuilt native parts go to prebuilds/, the
 * tarball and the checksums of all to build/release/.
 *
 * With the tools of one release of Debian the bytes are the same on every machine; .github/workflows/release.yml uses
 * Debian 12. Its glibc is newer than what the result may need: release/glibc.mjs.
 */
import { createHash } from 'node:crypto';
import { copyFileSync, cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from './build.mjs';
import { GLIBC, compareVersions, makeStubs, neededVersions, tool } from './release/glibc.mjs';
import { ROOT } from './test/process.mjs';

const ARCHITECTURES = { x64: 'x86_64-linux-gnu', arm64: 'aarch64-linux-gnu' };
const NATIVE = ['nbc.node', 'nbc-rank'];
const VERBS = '/usr/include/infiniband';
const at = (...path) => join(ROOT, ...path);

const HELP = `npm run release [-- ARCHITECTURE…]

Makes the prebuilt native parts for ${Object.keys(ARCHITECTURES).join(' and ')}, or for those that are named, and the
package with them, in build/release. Needs g++, the other architecture's g++ and libibverbs-dev; on Debian 12 on x64:
apt install g++ make libibverbs-dev g++-aarch64-linux-gnu`;

const wanted = process.argv.slice(2);
if (wanted.some((arch) => !(arch in ARCHITECTURES))) {
  console.log(HELP);
  process.exit(wanted.includes('--help') ? 0 : 1);
}

const missing = [];
try {
  build();
  rmSync(at('prebuilds'), { recursive: true, force: true });
  for (const arch of wanted.length > 0 ? wanted : Object.keys(ARCHITECTURES)) prebuild(arch);
  pack();
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}

function prebuild(arch) {
  // The compiler of this machine has made most of its own objects already.
  const own = arch === process.arch;
  const prefix = own ? '' : `${ARCHITECTURES[arch]}-`;
  const [work, folder] = [at('build/prebuild', arch), at('prebuilds', `linux-${arch}`)];
  const stubs = join(work, 'stubs');
  rmSync(stubs, { recursive: true, force: true });
  makeStubs(prefix, stubs);
  if (!existsSync(VERBS)) throw new Error(`${VERBS} is missing (Debian: apt install libibverbs-dev)`);
  if (!own) cpSync(VERBS, join(stubs, 'include/infiniband'), { recursive: true });
  const variables = { OUT: work, PORTABLE: stubs, ...(own ? { OBJECTS: at('build/Release/obj') } : {}) };
  if (!own) variables.CXX = `${prefix}g++`;
  tool('make', '-s', '-C', at('native'), ...Object.entries(variables).map((pair) => pair.join('=')));
  mkdirSync(folder, { recursive: true });
  for (const name of NATIVE) {
    const file = join(work, name);
    const { GLIBC: needed } = neededVersions(file);
    if (compareVersions(needed, GLIBC) > 0) throw new Error(`${file} needs glibc ${needed}, and may need ${GLIBC}`);
    copyFileSync(file, join(folder, name));
    console.log(`prebuilds/linux-${arch}/${name}: needs glibc ${needed}`);
  }
}

function pack() {
  const folder = at('build/release');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const [{ filename, size }] = JSON.parse(
    tool('npm', 'pack', '--json', '--ignore-scripts', '--pack-destination', folder),
  );
  const files = [[filename, join(folder, filename)]];
  for (const arch of Object.keys(ARCHITECTURES))
    for (const name of NATIVE) {
      const path = `prebuilds/linux-${arch}/${name}`;
      if (existsSync(at(path))) files.push([path, at(path)]);
    }
  const sums = files.map(
    ([name, file]) => `${createHash('sha256').update(readFileSync(file)).digest('hex')}  ${name}\n`,
  );
  writeFileSync(join(folder, 'SHA256SUMS'), sums.join(''));
  console.log(`build/release/${filename}: ${(size / 1e6).toFixed(1)} MB\n${sums.join('')}`);
}
