/**
 * What it costs that ranks meet through a store, without what it costs to start their processes: all ranks are in this
 * process, with the store, and do what `init()` does until their world could open.
 *
 * `node out/bench/meeting.js [--ranks N] [--transport auto|tcp]` prints the processor time of all ranks together.
 * With 'auto', ranks of a host also make a file that they share.
 */
import { parseArgs } from 'node:util';
import { native } from '#library/native.js';
import { readBootstrap } from '#library/transport/bootstrap.js';
import { type Endpoints, meet } from '#library/transport/meeting.js';
import { resolveOptions } from '#library/transport/options.js';
import { openLocalStore } from '#library/transport/store/local.js';

const { values } = parseArgs({
  options: { ranks: { type: 'string', default: '400' }, transport: { type: 'string', default: 'auto' } },
});
const RANKS = Number(values.ranks);
const TIMEOUT_MS = 600_000;

async function meetAll(): Promise<Endpoints[]> {
  const store = await openLocalStore(RANKS, TIMEOUT_MS);
  const settings = resolveOptions({}, { NBC_TRANSPORT: values.transport, NBC_JOIN_TIMEOUT: `${TIMEOUT_MS}` });
  try {
    return await Promise.all(
      Array.from({ length: RANKS }, (_, rank) => {
        const bootstrap = readBootstrap({ ...store.environment, NBC_RANK: `${rank}`, NBC_SIZE: `${RANKS}` });
        return meet(native, bootstrap, settings);
      }),
    );
  } finally {
    store.close();
  }
}

const [cpu, begun] = [process.cpuUsage(), performance.now()];
const met = await meetAll();
const { user, system } = process.cpuUsage(cpu);
const seconds = (performance.now() - begun) / 1e3;
for (const { tcp, closeFile } of met) {
  if (tcp !== undefined) native.closeDescriptor(tcp.listener);
  closeFile();
}
console.log(
  `${RANKS} ranks have met: ${(user / 1e6).toFixed(2)} s of processor time, ${(system / 1e6).toFixed(2)} s of the system, ` +
    `${seconds.toFixed(2)} s in all`,
);
