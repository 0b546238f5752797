/** Lists of processors as the kernel writes them: "0-2,5" is [0, 1, 2, 5]. */

export function parseCpuList(text: string): number[] {
  const result: number[] = [];
  for (const part of text.trim().split(',')) {
    if (part === '') continue;
    const [first, last = first] = part.split('-').map(Number);
    for (let cpu = first; cpu <= last; cpu++) result.push(cpu);
  }
  return result;
}

/** @param processors ascending */
export function formatCpuList(processors: readonly number[]): string {
  const parts: string[] = [];
  for (let first = 0, end; first < processors.length; first = end) {
    end = first + 1;
    while (processors[end] === processors[end - 1] + 1) end++;
    parts.push(end - first === 1 ? `${processors[first]}` : `${processors[first]}-${processors[end - 1]}`);
  }
  return parts.join(',');
}
