/**
 * Where the native parts are: the addon, and nbc-rank, which nbcrun starts for each rank.
 *
 * The package brings them for Linux with glibc on x64 and arm64 (`prebuilds/`). What was built here (native/Makefile)
 * comes first.
 */
import { existsSync } from 'node:fs';
import { dirname } from 'node:path';

export const ROOT = `${dirname(import.meta.dirname)}/`;

const folders = ['build/Release', `prebuilds/linux-${process.arch}`].map((path) => `${ROOT}${path}`);
const folder = folders.find((path) => existsSync(`${path}/nbc.node`)) ?? folders[0];

export const ADDON = `${folder}/nbc.node`;
export const STARTER = `${folder}/nbc-rank`;
