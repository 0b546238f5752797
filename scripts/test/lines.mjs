/**
 * Finds lines of comments and documents that are longer than 120 columns. Strings and tables of Markdown are not
 * counted.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './process.mjs';

const COLUMNS = 120;

/** A line that is a comment, or ends with one. Strings are taken out before. */
const comment = { code: /^\s*\/?\*|(^|\s)\/[/*]/, hash: /(^|\s)#/ };
const STRINGS = /'(\\.|[^'\\])*'|"(\\.|[^"\\])*"|`(\\.|[^`\\])*`/g;

const kinds = [
  { files: /\.(cc|h|c|ts|cts|mjs|js|pml)$/, counts: (line) => comment.code.test(line.replace(STRINGS, '')) },
  {
    files: /(\.(sh|py|ya?ml)|Makefile|Dockerfile|scripts\/(rdma-guest|slow-link|guest\/\w+)|\.ci\/run)$/,
    counts: (line) => comment.hash.test(line.replace(STRINGS, '')),
  },
  { files: /\.md$/, counts: (line) => !line.startsWith('|') && !/https?:\/\/\S{80}/.test(line) },
];

/** "file:line: columns" for every line that is too long. */
export function longLines() {
  const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
    cwd: ROOT,
    encoding: 'utf8',
  });
  const found = [];
  for (const file of files.split('\n')) {
    const kind = kinds.find(({ files: pattern }) => pattern.test(file));
    if (kind === undefined || !existsSync(join(ROOT, file))) continue;
    for (const [index, line] of readFileSync(join(ROOT, file), 'utf8').split('\n').entries()) {
      const columns = [...line].length;
      if (columns > COLUMNS && kind.counts(line)) found.push(`${file}:${index + 1}: ${columns} columns`);
    }
  }
  return found;
}
