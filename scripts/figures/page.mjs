/** docs/figures/README.md: written by hand, but for the tables between marks, `<!-- NAME -->` and `<!-- /NAME -->`. */
import { existsSync, readFileSync } from 'node:fs';

/** The page with another table of this figure, or undefined where it has no place for one. */
export function withTable(page, name, table) {
  const [open, close] = [`<!-- ${name} -->`, `<!-- /${name} -->`];
  if (!existsSync(page)) return undefined;
  const text = readFileSync(page, 'utf8');
  const [from, to] = [text.indexOf(open), text.indexOf(close)];
  if (from < 0 || to < from) return undefined;
  return `${text.slice(0, from + open.length)}\n\n${table}\n\n${text.slice(to)}`;
}
