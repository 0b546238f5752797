/**
 * Where the native parts are: the addon, and nbc-rank, which nbcrun starts for each rank.
 *
 * The package brings them for Linux with glibc on x64 and arm64 (`prebuilds/`). What was built here (native/Makefile)
 * comes first.
 */
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('..', import.meta.url));

const folders = ['build/Release', `prebuilds/linux-${process.arch}`].map((path) => `${ROOT}${path}`);
const folder = folders.find((path) => existsSync(`${path}/nbc.node`)) ?? folders[0];

export const ADDON = `${folder}/nbc.node`;
export const STARTER = `${folder}/nbc-rank`;
