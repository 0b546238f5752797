/**
 * Loaded into mocha: the time that a test, or a hook, may take follows what the machine can do (limit.mjs). Mocha's own
 * limit is a wall clock, so it is turned off while something runs.
 */
import Mocha from 'mocha';
import { Limit } from './limit.mjs';

const { prototype } = Mocha.Runnable;
const { run } = prototype;

prototype.run = function (done) {
  const ms = this.timeout();
  if (ms === 0) {
    run.call(this, done);
    return;
  }
  this.timeout(0);
  const limit = new Limit(ms / 1000, () => {
    this.callback(new Error(`it did not end within ${ms / 1000} s, counted as on an idle machine (docs/testing.md)`));
    this.timedOut = true;
  });
  run.call(this, (error) => {
    limit.stop();
    this.timeout(ms);
    this.clearTimeout(); // timeout() has started mocha's clock again
    done(error);
  });
};
