/**
 * Over which networks UCX has carried a job. Its log says which it chose for each kind of endpoint, in UCX 1.13 "INFO
 * ep_cfg[0]: am(sysv/memory cma/memory)", later "cfg#0 am(…)".
 */
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Names that stand for several. */
const MEANT: Record<string, readonly string[]> = { sm: ['sysv', 'posix', 'cma'] };

/** What UCX_TLS names. What UCX only connects by it may ask whether a peer is alive, too. */
function named(): { lanes: readonly string[]; auxiliary: readonly string[] } {
  const names = (process.env['UCX_TLS'] ?? '').split(',');
  const lanes = names.filter((name) => !name.includes(':')).flatMap((name) => MEANT[name] ?? [name]);
  return { lanes, auxiliary: names.filter((name) => name.endsWith(':aux')).map((name) => name.split(':')[0]) };
}

/** Runs a job whose ranks have the given variables; asserts that UCX carried it over what UCX_TLS names only. */
export async function witnessLanes<T>(ranks: number, job: (env: Record<string, string>) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'nbc-ucx-'));
  try {
    const result = await job({ UCX_LOG_LEVEL: 'info', UCX_LOG_FILE: join(folder, '%p') });
    const logs = readdirSync(folder).map((name) => readFileSync(join(folder, name), 'utf8'));
    assert.equal(logs.length, ranks, 'each rank has loaded UCX');
    for (const log of logs) assertLanes(log);
    return result;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function assertLanes(log: string): void {
  const { lanes, auxiliary } = named();
  const endpoints = [...log.matchAll(/(?:ep_cfg\[\d+\]:|cfg#\d+) (.*)/g)].map(([, all]) => all);
  // "am(rc_verbs/rxe0:1) ka(ud_verbs/rxe0:1)": messages; and keeping alive.
  const uses = endpoints.flatMap((all) => [...all.matchAll(/(\w+)\(([^)]*)\)/g)]);
  assert(
    uses.some(([, use]) => use === 'am'),
    `UCX does not say what it has used\n${log}`,
  );
  for (const [whole, use, networks] of uses) {
    const may = use === 'ka' ? [...lanes, ...auxiliary] : lanes;
    for (const [, name] of networks.matchAll(/(\w+)\//g)) assert(may.includes(name), `UCX has used ${whole}`);
  }
}
