/**
 * With transport 'auto', in a job on several hosts: the network between each two ranks, chosen before the first message
 * by what each has told about its RDMA device. It is verbs where the two reach each other by it, else TCP.
 */
import type { Native, VerbsOffer, Way } from '../native.js';
import type { Directory } from './directory/directory.js';
import { exchange, isObjectOf, isText } from './directory/told.js';
import { nativeOptions, type Settings, turnOnHost } from './options.js';

/** How a rank reaches the others. */
export interface Ways {
  /** By rank; 'none': itself and the ranks of its host. */
  ways: Way[];
  /** Why not by verbs, by rank; '': for no reason. */
  reasons: string[];
}

const hasDevice = isObjectOf<{ device: string; offer: string }>({ device: isText, offer: isText });
const hasReason = isObjectOf<{ why: string }>({ why: isText });
const isOffer = (value: unknown): value is VerbsOffer =>
  hasDevice(value) || (hasReason(value) && (value as VerbsOffer).offer === undefined);

/** All ranks call it, and both ranks of a pair find the same network. `hosts`: of all ranks, as numbers. */
export async function chooseNetworks(
  native: Pick<Native, 'verbsOffer' | 'whyNotByVerbs'>,
  directory: Directory,
  hosts: readonly number[],
  settings: Settings,
): Promise<Ways> {
  const { rank } = directory;
  const turn = turnOnHost(rank, hosts);
  const mine = native.verbsOffer(nativeOptions(settings, turn), turn);
  const offers = await exchange(directory, 'offer', mine, isOffer);
  const reasons = offers.map((theirs, other) => {
    if (hosts[other] === hosts[rank]) return '';
    if (mine.offer === undefined) return `rank ${rank} has no device: ${mine.why}`;
    if (theirs.offer === undefined) return `rank ${other} has no device: ${theirs.why}`;
    return native.whyNotByVerbs(mine.offer, theirs.offer, `rank ${other}`, mine.device);
  });
  const ways = reasons.map((why, other) => (hosts[other] === hosts[rank] ? 'none' : why === '' ? 'verbs' : 'tcp'));
  return { ways, reasons };
}

/** For people: by what a rank reaches each of the others, and why not by something better. */
export function describeWays(rank: number, { ways, reasons }: Ways): string {
  const others = [...ways.keys()].filter((other) => other !== rank);
  const by = (way: Way): number[] => others.filter((other) => ways[other] === way);
  const names: [Way, string][] = [
    ['none', 'shared memory'],
    ['verbs', 'verbs'],
    ['tcp', 'tcp'],
  ];
  const reached = names.filter(([way]) => by(way).length > 0).map(([way, name]) => `${listOf(by(way))} by ${name}`);
  const refused = [...new Set(reasons)].filter((why) => why !== '');
  const why = refused.map((text) => {
    const concerned = others.filter((other) => reasons[other] === text);
    return `; ${listOf(concerned)} not by verbs, because ${text}`;
  });
  return `rank ${rank} reaches ${reached.join(', ')}${why.join('')}`;
}

/** 'ranks 1-3, 7' */
function listOf(ranks: readonly number[]): string {
  const runs: [first: number, last: number][] = [];
  for (const rank of ranks) {
    const run = runs.at(-1);
    if (run?.[1] === rank - 1) run[1] = rank;
    else runs.push([rank, rank]);
  }
  const text = runs.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(', ');
  return `${ranks.length === 1 ? 'rank' : 'ranks'} ${text}`;
}
