/**
 * Over a network that takes its time: two ranks on two devices, joined by a link with a delay. Not a *.test.ts: it
 * needs the links vc and vd of `scripts/rdma-guest --link both`, and `npm run test:verbs` runs it there.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { BYTES, firstTests } from './support/first-tests.js';

const LINKS = ['vc', 'vd'];
const ENV = { NBC_TRANSPORT: 'verbs', NBC_VERBS_DEVICE: 'rxc,rxd' };

/** More packets than rxe has on its way at any time; netem's own limit of 1000 would drop what exceeds it. */
const QUEUE = '100000';

/**
 * Computations of so many exchanges, which take some tenths of a second each here: enough for one that shares the
 * processors with them.
 */
const TIMES = 8;

/** Each direction of the link takes that long. */
function delay(ms: number): void {
  for (const link of LINKS) {
    execFileSync('tc', ['qdisc', 'replace', 'dev', link, 'root', 'netem', 'delay', `${ms}ms`, 'limit', QUEUE]);
  }
}

/** Bytes that have left by this end. */
const sent = (link: string): number => Number(readFileSync(`/sys/class/net/${link}/statistics/tx_bytes`, 'latin1'));

describe('two ranks on two devices with a delay between them', () => {
  after(() => {
    for (const link of LINKS) execFileSync('tc', ['qdisc', 'del', 'dev', link, 'root']);
  });

  for (const ms of [0, 1, 10]) {
    it(`ialltoall goes on by itself: ${ms} ms`, async () => {
      delay(ms);
      const before = LINKS.map(sent);
      assert.deepEqual(await firstTests(2, ENV, 'plain', TIMES), [true, true]);
      // Each rank's block to the other, at least once, and over the link.
      LINKS.forEach((link, i) => assert(sent(link) - before[i] > BYTES / 2, `${link}: ${before[i]}, ${sent(link)}`));
    });
  }

  it("does not go on in 'manual' mode: 10 ms", async () => {
    delay(10);
    assert.deepEqual(await firstTests(2, { ...ENV, NBC_PROGRESS: 'manual' }, 'plain', TIMES), [false, false]);
  });
});
