/**
 * Loaded into mocha: the time that a test, or a hook, may take follows what the machine can do (limit.mjs). Mocha's own
 * limit is a wall clock, so it is turned off while something runs.
 */
import Mocha from 'mocha';
import { Limit } from './limit.mjs';

const { prototype } = Mocha.Runnable;
const { run, timeout } = prototype;

prototype.run = function (done) {
  let ms = timeout.call(this);
  let limit;
  const begin = () => {
    limit?.stop();
    limit = ms === 0 ? undefined : new Limit(ms / 1000, hit);
  };
  const hit = () => {
    this.callback(new Error(`it did not end within ${ms / 1000} s, counted as on an idle machine (docs/testing.md)`));
    this.timedOut = true;
  };
  this.resetTimeout = () => {}; // mocha's own clock never starts
  // What the test itself sets, while it runs.
  this.timeout = (...value) => {
    const result = timeout.apply(this, value);
    if (value.length === 0) return result;
    ms = timeout.call(this);
    begin();
    return this;
  };
  begin();
  run.call(this, (error) => {
    limit?.stop();
    delete this.timeout;
    delete this.resetTimeout;
    done(error);
  });
};
