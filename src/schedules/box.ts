/** Boxes: bytes at regular distances in several dimensions, as a strided copy reads or writes them. */

/** A dimension: how often what is inside it comes, and how many bytes apart. */
export interface Step {
  readonly count: number;
  readonly stride: number;
}

/** Blocks of equal length, the steps with the outermost first. Without steps: one block. All in bytes. */
export interface Box {
  readonly offset: number;
  readonly block: number;
  readonly steps: readonly Step[];
}

/** A box in its simplest form: no dimensions of one block, and none whose blocks are neighbours. */
export function simplified(offset: number, block: number, given: readonly Step[]): Box {
  if (given.some(({ count }) => count === 0)) return contiguous(offset, 0);
  const steps: Step[] = [];
  for (const step of given.toReversed()) {
    const inner = steps[0] as Step | undefined;
    if (step.count === 1) continue;
    if (inner === undefined && step.stride === block) block *= step.count;
    else if (inner !== undefined && step.stride === inner.count * inner.stride) {
      steps[0] = { count: inner.count * step.count, stride: inner.stride };
    } else steps.unshift(step);
  }
  return { offset, block, steps };
}

export function contiguous(offset: number, bytes: number): Box {
  return { offset, block: bytes, steps: [] };
}

/** Whether boxes have the same form, wherever they are. */
export function equalBoxes(a: Box, b: Box): boolean {
  if (a.block !== b.block || a.steps.length !== b.steps.length) return false;
  return a.steps.every(
    ({ count, stride }, index) => count === b.steps[index].count && stride === b.steps[index].stride,
  );
}

/** Bytes in all blocks. */
export function bytesOfBox({ block, steps }: Box): number {
  let bytes = block;
  for (const { count } of steps) bytes *= count;
  return bytes;
}

/** Bytes from the first to the last one. */
export function extentOf({ block, steps }: Box): number {
  let bytes = block;
  for (const { count, stride } of steps) bytes += (count - 1) * stride;
  return bytes;
}

/** No byte belongs to two blocks: each dimension steps over all of the dimensions with shorter strides. */
export function isDistinct({ block, steps }: Box): boolean {
  let extent = block;
  return [...steps]
    .sort((a, b) => a.stride - b.stride)
    .every(({ count, stride }) => {
      const over = stride >= extent;
      extent += (count - 1) * stride;
      return over;
    });
}

/** Calls back with the offset of each block, in the order of the dimensions. */
export function eachBlock({ offset, steps }: Box, visit: (offset: number) => void): void {
  const walk = (dimension: number, at: number): void => {
    if (dimension === steps.length) {
      visit(at);
      return;
    }
    const { count, stride } = steps[dimension];
    for (let index = 0; index < count; index++) walk(dimension + 1, at + index * stride);
  };
  walk(0, offset);
}

/** As part of what tells shapes apart. */
export function textOfBox({ offset, block, steps }: Box): string {
  let text = `${offset}:${block}`;
  for (const { count, stride } of steps) text += `*${count}+${stride}`;
  return text;
}
