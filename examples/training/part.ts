/** The part of `count` things that belongs to number `index` of `parts`: as equal as can be. */
export function partOf(count: number, parts: number, index: number): [first: number, count: number] {
  const first = Math.floor((count * index) / parts);
  return [first, Math.floor((count * (index + 1)) / parts) - first];
}
