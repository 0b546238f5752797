/** Adds numbers, after it has waited for the file that this module's URL names, if it names one. */
import { existsSync } from 'node:fs';

const file = new URL(import.meta.url).searchParams.get('file');
const nobody = new Int32Array(new SharedArrayBuffer(4));

export default function sum(a: Float64Array, b: Float64Array): void {
  while (file !== null && !existsSync(file)) Atomics.wait(nobody, 0, 0, 5);
  for (let i = 0; i < b.length; i++) b[i] += a[i];
}
