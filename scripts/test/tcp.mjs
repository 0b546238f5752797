/** Of the tests in TypeScript, those whose jobs can run over any transport, over TCP: each scenario once. */
import * as mocha from './mocha.mjs';

export const title = 'mocha over TCP';

const SUITES = [
  'collectives',
  'communicator',
  'errors',
  'exits',
  'igatherv',
  'lifetime',
  'p2p',
  'progress',
  'property',
  'requests',
  'views',
  'waiting',
];
const ENV = { NBC_TRANSPORT: 'tcp', NBC_TEST_BRIEF: '1', NBC_TEST_RUNS: '6' };

/** A filter is "tcp", or "tcp/" and a part of a name. */
export function select(filters) {
  const wanted = (name) => filters.some((filter) => filter.startsWith('tcp') && `tcp/${name}`.includes(filter));
  return SUITES.filter((name) => filters.length === 0 || wanted(name));
}

export async function runAll(suites, { grep }) {
  const files = suites.map((name) => `${name}.test`);
  const { leftOut, ...result } = await mocha.runAll(files, { grep, env: ENV });
  return { ...result, leftOut: leftOut.map(({ why }) => ({ what: 'a test of mocha over TCP', why })) };
}
