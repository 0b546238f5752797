/** Programs in C++ that take a part in bench:targets. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { at } from './rows.js';

/**
 * Builds a program, and gives it to `use` with a folder of its own. Both are gone afterwards.
 * @param sources from the project's root
 */
export function withProgram<T>(
  name: string,
  sources: readonly string[],
  flags: readonly string[],
  use: (program: string, folder: string) => T,
): T {
  const folder = mkdtempSync(join(tmpdir(), `nbc-${name}-`));
  try {
    const program = join(folder, name);
    const all = ['-std=c++20', '-O3', ...flags, ...sources.map(at), '-o', program];
    execFileSync(process.env['CXX'] ?? 'g++', all, { stdio: 'pipe' });
    return use(program, folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
