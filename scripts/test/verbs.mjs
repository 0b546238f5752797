/** The tests over verbs, in the guest that has a software RDMA device (scripts/test-verbs.mjs). */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { result } from './pool.mjs';
import { ROOT, run } from './process.mjs';

/** Only a run of everything has it; `npm run test:verbs` runs it, or steps of it, by itself. */
export function tasks(filters, { all }) {
  return filters.length === 0 && all ? [{ name: 'verbs', long: true, run: inGuest }] : [];
}

async function inGuest() {
  const { stdout } = spawnSync(join(ROOT, 'scripts/rdma-guest'), ['--check'], { encoding: 'utf8' });
  const why = stdout.trim().replaceAll('\n', '; ');
  if (why !== '') return result({ leftOut: [{ what: 'verbs', why }], text: 'left out' });
  const { ok, how, output } = await run(process.execPath, ['scripts/test-verbs.mjs', '--built'], {
    live: true,
    seconds: 7200,
  });
  const [, passed, failed] = /^(\d+) passed, (\d+) failed$/m.exec(output) ?? ['', '0', '0'];
  const lost = !ok && failed === '0' ? 1 : 0;
  const said = output.split('\n').filter((line) => /^(FAILED|rdma-guest|scripts\/rdma-guest): /.test(line));
  return result({
    passed: Number(passed),
    failed: Number(failed) + lost,
    failures: ok ? [] : [`verbs: ${how}; what each step printed stands in build/verbs-results\n${said.join('\n')}`],
  });
}
