/** Maps x → p x + q of numbers below 16, p and q in one byte: a then b is what `a` makes of what `b` makes. */
export default function AFFINE(a: Uint8Array, b: Uint8Array): void {
  for (let i = 0; i < b.length; i++) {
    const [p, q, r, s] = [a[i] >> 4, a[i] & 15, b[i] >> 4, b[i] & 15];
    b[i] = (((p * r) & 15) << 4) | ((p * s + q) & 15);
  }
}
