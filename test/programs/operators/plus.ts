/** An operator that adds. */
export default function plus(a: Float64Array, b: Float64Array): void {
  for (let i = 0; i < b.length; i++) b[i] += a[i];
}
