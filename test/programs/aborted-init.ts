/** A rank whose init() is ended by its signal. Its argument: milliseconds until that, or "before". */
import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { AbortError, init } from 'node-nbc';

const [when] = process.argv.slice(2);
const controller = new AbortController();
const { signal } = controller;
const reason = new Error('no longer wanted');
if (when === 'before') controller.abort(reason);
else setTimeout(() => controller.abort(reason), Number(when));
await assert.rejects(init({ signal }), (error) => {
  assert(error instanceof AbortError, String(error));
  assert.deepEqual([error.code, error.cause], ['ERR_NBC_ABORTED', reason]);
  assert.equal(error.message, 'init was aborted by its signal: no longer wanted');
  return true;
});
assert.equal(getEventListeners(signal, 'abort').length, 0);
console.log('aborted');
// Nothing is left that keeps the process.
