/** The processors that the calling thread may use. */
import { readFileSync } from 'node:fs';

const { parseCpuList } = (await import(
  new URL('../../../dist/processors.js', import.meta.url).href
)) as typeof import('../../src/processors.js');

export function allowedHere(): number[] {
  const status = readFileSync('/proc/thread-self/status', 'latin1');
  return parseCpuList(/^Cpus_allowed_list:\s*(.*)$/m.exec(status)![1]);
}
