/** Throws on the world rank that this module's URL names, in the manner that it names. */
const { searchParams } = new URL(import.meta.url);

export default function throwing(a: Float64Array, b: Float64Array): unknown {
  if (searchParams.get('rank') === process.env['NBC_RANK']) {
    switch (searchParams.get('manner')) {
      case 'error':
        throw new RangeError('thrown in a worker', { cause: 'the cause' });
      case 'function':
        throw (() => 'cannot be cloned') as unknown as Error;
      case 'promise':
        return Promise.reject(new Error('nobody sees this'));
      case 'exit':
        process.exit();
    }
  }
  for (let i = 0; i < b.length; i++) b[i] += a[i];
  return undefined;
}
