/** The two loops in which a dense layer spends its time. Each takes four at a time: one store, or no wait, for four. */

/** Which scales are not 0: as many as there are inputs or samples, whatever is more. */
let chosen = new Uint32Array(1024);

/**
 * target[to + o] = Σ scales[first + k · stride] · rows[k · length + o], for k below `count` and o below `length`. Rows
 * whose scale is 0 are left out: paper, and neurons that are silent.
 */
export function combine(
  target: Float32Array,
  to: number,
  length: number,
  scales: Float32Array,
  first: number,
  stride: number,
  count: number,
  rows: Float32Array,
): void {
  if (count > chosen.length) chosen = new Uint32Array(count);
  let some = 0;
  for (let k = 0; k < count; k++) if (scales[first + k * stride] !== 0) chosen[some++] = k;

  target.fill(0, to, to + length);
  let at = 0;
  for (; at + 4 <= some; at += 4) {
    const [k0, k1, k2, k3] = [chosen[at], chosen[at + 1], chosen[at + 2], chosen[at + 3]];
    const [s0, s1] = [scales[first + k0 * stride], scales[first + k1 * stride]];
    const [s2, s3] = [scales[first + k2 * stride], scales[first + k3 * stride]];
    const [r0, r1, r2, r3] = [k0 * length, k1 * length, k2 * length, k3 * length];
    for (let o = 0; o < length; o++) {
      target[to + o] += s0 * rows[r0 + o] + s1 * rows[r1 + o] + s2 * rows[r2 + o] + s3 * rows[r3 + o];
    }
  }
  for (; at < some; at++) {
    const [scale, row] = [scales[first + chosen[at] * stride], chosen[at] * length];
    for (let o = 0; o < length; o++) target[to + o] += scale * rows[row + o];
  }
}

/** Σ a[fromA + o] · b[fromB + o], for o below `length`. */
export function dot(a: Float32Array, fromA: number, b: Float32Array, fromB: number, length: number): number {
  let [s0, s1, s2, s3] = [0, 0, 0, 0];
  let o = 0;
  for (; o + 4 <= length; o += 4) {
    s0 += a[fromA + o] * b[fromB + o];
    s1 += a[fromA + o + 1] * b[fromB + o + 1];
    s2 += a[fromA + o + 2] * b[fromB + o + 2];
    s3 += a[fromA + o + 3] * b[fromB + o + 3];
  }
  for (; o < length; o++) s0 += a[fromA + o] * b[fromB + o];
  return s0 + s1 + s2 + s3;
}
