/** The paper's three modes: what a call does beyond noting what is to be done. */
export const WAYS = ['no test-on-init', 'test-on-init', 'wait-on-send'] as const;
export type Way = (typeof WAYS)[number];

/** Longer than a receiver that takes part needs; a send that waits longer has lost it. Microseconds. */
const WAIT_US = '1000000';

/** The settings of node-nbc that make each. */
export const VARIABLES: Record<Way, Record<string, string>> = {
  'no test-on-init': { NBC_TEST_ON_INIT: '0', NBC_WAIT_ON_SEND: '0' },
  'test-on-init': { NBC_TEST_ON_INIT: '1', NBC_WAIT_ON_SEND: '0' },
  'wait-on-send': { NBC_TEST_ON_INIT: '1', NBC_WAIT_ON_SEND: WAIT_US },
};
