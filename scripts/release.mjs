#!/usr/bin/env node
/**
 * `npm run release`: makes what is published, the same bytes each time: the package with the prebuilt native parts, and
 * checksums.
 *
 * With the tools of one release of Debian the bytes are the same on every machine; .github/workflows/release.yml uses
 * Debian 12. Its glibc is newer than the one that the result may need: release/glibc.mjs.
 */
import { createHash } from 'node:crypto';
import { copyFileSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { build } from './build.mjs';
import { GLIBC, compareVersions, makeStubs, neededVersions, tool } from './release/glibc.mjs';
import { ROOT } from './test/process.mjs';

/** What the names of their compilers begin with, where they are not the machine's own. */
const ARCHITECTURES = { x64: 'x86_64-linux-gnu-', arm64: 'aarch64-linux-gnu-' };
const NATIVE = ['nbc.node', 'nbc-rank'];
/** Folders of /usr/include, and the package of Debian that has them. */
const HEADERS = { infiniband: 'libibverbs-dev', ucp: 'libucx-dev', ucs: 'libucx-dev' };
const at = (...path) => join(ROOT, ...path);

const HELP = `npm run release [-- ARCHITECTURE…] [--to FOLDER] [--built] [--to-publish]

Makes the package, with prebuilt native parts for ${Object.keys(ARCHITECTURES).join(' and ')} or for those that are named, and SHA256SUMS in
build/release or FOLDER. --built: npm run build has been done. --to-publish: fails where package.json lacks what npm needs
to publish with provenance; without, says so. Needs g++, the other architecture's g++ and
libibverbs-dev and libucx-dev; on Debian 12 on x64: apt install g++ make libibverbs-dev libucx-dev
g++-aarch64-linux-gnu`;

const args = process.argv.slice(2);
const toAt = args.indexOf('--to');
const [, folderGiven = ''] = toAt < 0 ? [] : args.splice(toAt, 2);
const to = toAt < 0 ? at('build/release') : resolve(folderGiven);
const named = args.filter((arg) => !['--built', '--to-publish'].includes(arg));
if (named.some((arch) => !(arch in ARCHITECTURES)) || (toAt >= 0 && folderGiven === '')) {
  console.log(HELP);
  process.exit(named.includes('--help') ? 0 : 1);
}
const wanted = named.length > 0 ? named : Object.keys(ARCHITECTURES);

try {
  checkRepository(args.includes('--to-publish'));
  if (!args.includes('--built')) build();
  pack(wanted.map((arch) => [`prebuilds/linux-${arch}`, prebuild(arch)]));
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}

/** npm publishes with provenance only a package that names the repository which it comes from. */
function checkRepository(mustBe) {
  const { repository } = JSON.parse(readFileSync(at('package.json'), 'utf8'));
  if (/^git\+https:\/\/\S+/.test(repository?.url ?? '')) return;
  const message = `package.json has no repository ("git+https://…"): npm refuses to publish it with provenance. Fill it in as docs/install.md says.`;
  if (mustBe) throw new Error(message);
  console.warn(`Warning: ${message}`);
}

/** The folder with the native parts for an architecture. */
function prebuild(arch) {
  // The compiler of this machine has made most of its own objects already.
  const own = arch === process.arch;
  const prefix = own ? '' : ARCHITECTURES[arch];
  const folder = at('build/prebuild', arch);
  const stubs = join(folder, 'stubs');
  rmSync(stubs, { recursive: true, force: true });
  makeStubs(prefix, stubs);
  for (const [name, debian] of Object.entries(HEADERS)) {
    const headers = join('/usr/include', name);
    if (!existsSync(headers)) throw new Error(`${headers} is missing (Debian: apt install ${debian})`);
    if (!own) cpSync(headers, join(stubs, 'include', name), { recursive: true });
  }
  const variables = { OUT: folder, PORTABLE: stubs };
  if (own) variables.OBJECTS = at('build/Release/obj');
  else variables.CXX = `${prefix}g++`;
  tool('make', '-s', '-C', at('native'), ...Object.entries(variables).map((pair) => pair.join('=')));
  for (const name of NATIVE) {
    const { GLIBC: needed } = neededVersions(join(folder, name));
    if (compareVersions(needed, GLIBC) > 0) throw new Error(`${name} needs glibc ${needed}, and may need ${GLIBC}`);
    console.log(`linux-${arch}: ${name} needs glibc ${needed}`);
  }
  return folder;
}

/** Lays the package out in a folder of its own, and packs that. */
function pack(prebuilt) {
  const folder = join(to, 'package');
  rmSync(folder, { recursive: true, force: true });
  for (const name of existsSync(to) ? readdirSync(to) : []) {
    if (/^node-nbc-.*\.tgz$|^SHA256SUMS$/.test(name)) rmSync(join(to, name));
  }
  const copy = (from, path) => {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    copyFileSync(from, join(folder, path));
  };
  const options = ['--json', '--ignore-scripts'];
  const [{ files }] = JSON.parse(tool('npm', 'pack', '--dry-run', ...options, ROOT));
  for (const { path } of files) copy(at(path), path);
  const native = prebuilt.flatMap(([path, from]) => NATIVE.map((name) => [join(from, name), join(path, name)]));
  for (const [from, path] of native) copy(from, path);
  const [{ filename, size }] = JSON.parse(tool('npm', 'pack', ...options, '--pack-destination', to, folder));

  const sum = (file) => createHash('sha256').update(readFileSync(file)).digest('hex');
  const sums = [[join(to, filename), filename], ...native].map(([file, name]) => `${sum(file)}  ${name}\n`);
  writeFileSync(join(to, 'SHA256SUMS'), sums.join(''));
  console.log(`${join(to, filename)}: ${(size / 1e6).toFixed(1)} MB\n${sums.join('')}`);
}
