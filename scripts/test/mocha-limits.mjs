/**
 * Loaded into mocha: the time that a test, or a hook, may take follows what the machine can do (limit.mjs). Mocha's own
 * limit is a wall clock, so it is turned off while something runs. When the limit is hit, this says what every process
 * did that the test had started; ranks say what they waited for, on their standard error.
 */
import Mocha from 'mocha';
import { describeHang, familyOf, REPORT_ENV } from './hang.mjs';
import { Limit } from './limit.mjs';

// For all that tests start.
Object.assign(process.env, REPORT_ENV);

const { prototype } = Mocha.Runnable;
const { run, timeout } = prototype;

prototype.run = function (done) {
  let ms = timeout.call(this);
  let limit;
  const begin = () => {
    limit?.stop();
    limit = ms === 0 ? undefined : new Limit(ms / 1000, hit);
  };
  const hit = async () => {
    const what = `it did not end within ${ms / 1000} s, counted as on an idle machine (docs/testing.md)`;
    const [, ...started] = familyOf(process.pid);
    const doing = started.length === 0 ? '' : `\n${await describeHang(started)}`;
    this.callback(new Error(what + doing));
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
