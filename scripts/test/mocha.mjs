/** The tests in TypeScript, by mocha. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT, run } from './process.mjs';

export const title = 'mocha';

/** The test files; a filter is a part of the name. */
export function select(filters) {
  const files = readdirSync(join(ROOT, 'test'), { recursive: true })
    .filter((path) => path.endsWith('.test.ts'))
    .map((path) => path.slice(0, -'.ts'.length))
    .sort();
  return files.filter((path) => filters.length === 0 || filters.some((filter) => path.includes(filter)));
}

/** `env`: variables that the tests find beside those of this process. */
export async function runAll(files, { grep, env }) {
  const args = [
    'node_modules/mocha/bin/mocha.js',
    '--no-config',
    ...settings(),
    ...files.map((path) => `out/test/${path}.js`),
  ];
  if (grep !== undefined) args.push('--grep', grep);
  if (process.stdout.isTTY) args.push('--color');
  const { ok, how, output } = await run(process.execPath, args, { live: true, env });

  // eslint-disable-next-line no-control-regex
  const plain = output.replace(/\x1b\[[0-9;]*m/g, '');
  const total = (what) => Number(new RegExp(`^ +(\\d+) ${what}\\b`, 'm').exec(plain)?.[1] ?? 0);
  const [passed, failed, pending] = ['passing', 'failing', 'pending'].map(total);
  const leftOut = reasons(plain, pending);
  if (ok || failed > 0) return { passed, failed, leftOut, failures: report(plain) };
  const why = `mocha did not end as it should: ${how}`;
  console.log(why);
  return { passed, failed: 1, leftOut, failures: [why] };
}

/** What mocha says of the tests that failed, after all others. */
function report(output) {
  const at = output.search(/^ +\d+ failing$/m);
  return at < 0 ? [] : [output.slice(output.indexOf('\n', at)).trim()];
}

/** What .mocharc.json says, without its list of files: mocha would add that to ours. */
function settings() {
  const all = JSON.parse(readFileSync(join(ROOT, '.mocharc.json'), 'utf8'));
  delete all.spec;
  return Object.entries(all).map(([name, value]) => (value === true ? `--${name}` : `--${name}=${value}`));
}

/** Tests that skip themselves print why (skip() in test/helpers.ts). The rest are marked in the source. */
function reasons(output, pending) {
  const result = [...output.matchAll(/^ *skipped: (.*)$/gm)].map(([, why]) => ({ what: 'a test of mocha', why }));
  while (result.length < pending) result.push({ what: 'a test of mocha', why: 'it gives no reason' });
  return result;
}
