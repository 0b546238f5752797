/** The processors that this process may use. */
import { readFileSync } from 'node:fs';

/** Expands a list as the kernel writes it: "0-2,5" is [0, 1, 2, 5]. */
export function parseCpuList(text: string): number[] {
  const result: number[] = [];
  for (const part of text.trim().split(',')) {
    if (part === '') continue;
    const [first, last = first] = part.split('-').map(Number);
    for (let cpu = first; cpu <= last; cpu++) result.push(cpu);
  }
  return result;
}

/** What containers and batch systems have left of the machine's processors, as the kernel writes it. */
export function allowedList(): string {
  return /^Cpus_allowed_list:\s*(.*)$/m.exec(readFileSync('/proc/self/status', 'latin1'))?.[1] ?? '';
}

export const allowedProcessors = (): number[] => parseCpuList(allowedList());
