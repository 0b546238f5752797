/**
 * The same operations over our own networks and over UCX: for each network one nbcbench, in which the two take turns.
 */
import { nbcbench } from './nbcbench.mjs';

/** Our transport, the same one as UCX has it, and what both have to use. */
const TCP = { ours: 'tcp', title: 'TCP', theirs: 'UCX on `tcp`', env: { UCX_TLS: 'tcp', UCX_NET_DEVICES: 'lo' } };
const SM = { ours: 'shm', title: 'shm', theirs: 'UCX on `sm`', env: { UCX_TLS: 'sm,self' } };
/** UCX connects by datagrams, which Soft-RoCE delivers between link-local addresses only. */
const VERBS = {
  ours: 'verbs',
  title: 'verbs',
  theirs: 'UCX on `rc_verbs`',
  env: {
    NBC_VERBS_DEVICE: 'rxe0',
    UCX_TLS: 'rc_verbs,ud_verbs:aux',
    UCX_NET_DEVICES: 'rxe0:1',
    UCX_IB_GID_INDEX: '0',
  },
};

/** In the guest. */
export const measureUcx = (how) => measure([VERBS, TCP], how);
/** On this machine. */
export const measureUcxHere = (how) => measure([SM, TCP], how);

/** Rows { side, op, bytes, us }. Returns what went wrong. */
async function measure(networks, { quick, save, say }) {
  const found = [];
  const failures = [];
  for (const { ours, title, theirs, env } of networks) {
    say(`ucx: ${title} and ${theirs}`);
    const what = ['--ops', 'ibcast,ialltoall,iallreduce', '--sizes', '8,64K,1M', '--buffers', 'plain'];
    // In the guest a common instant becomes known too late, over TCP and over UCX.
    const where = ['--ranks', '2', '--transport', `${ours},ucx`, '--start', 'barrier'];
    const times = ['--repetitions', quick ? '10' : '200', '--max-seconds', quick ? '0.5' : '2'];
    const { rows, why } = await nbcbench([...what, ...where, ...times], { seconds: 230, env });
    if (why !== undefined) failures.push(`nbcbench, ${title}: ${why}`);
    for (const { transport, op, bytes, blocking_us } of rows)
      found.push({ side: transport === 'ucx' ? theirs : title, op, bytes, us: blocking_us });
    save(found);
  }
  return failures;
}
