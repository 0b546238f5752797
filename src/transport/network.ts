/**
 * With transport 'auto', in a job on several hosts: all ranks choose one network between hosts before the first
 * message, by what each has told about its RDMA device. It is verbs if every rank reaches all ranks of other hosts by
 * it, else TCP.
 */
import type { Native, VerbsOffer } from '../native.js';
import type { Directory } from './directory/directory.js';
import { exchange, isObjectOf, isText } from './directory/told.js';
import { nativeOptions, type Settings } from './options.js';

export interface Network {
  name: 'tcp' | 'verbs';
  /** Why it is not verbs. */
  why: string;
}

const hasDevice = isObjectOf<{ device: string; offer: string }>({ device: isText, offer: isText });
const hasReason = isObjectOf<{ why: string }>({ why: isText });
const isOffer = (value: unknown): value is VerbsOffer =>
  hasDevice(value) || (hasReason(value) && (value as VerbsOffer).offer === undefined);

/** All ranks call it, and find the same network. `hosts`: of all ranks, as numbers. */
export async function agreeOnNetwork(
  native: Pick<Native, 'verbsOffer' | 'whyNotByVerbs'>,
  directory: Directory,
  hosts: readonly number[],
  settings: Settings,
): Promise<Network> {
  const { rank } = directory;
  const turn = hosts.slice(0, rank).filter((host) => host === hosts[rank]).length;
  const mine = native.verbsOffer(nativeOptions(settings, rank), turn);
  const offers = await exchange(directory, 'offer', mine, isOffer);
  const objections = await exchange(directory, 'network', objection(native, offers, hosts, rank), isText);
  const first = objections.find((why) => why !== '');
  if (first === undefined) return { name: 'verbs', why: '' };
  return { name: 'tcp', why: objections[rank] === '' ? first : objections[rank] };
}

/** Why this rank does not reach all ranks of other hosts by verbs; '': it does. */
function objection(
  native: Pick<Native, 'whyNotByVerbs'>,
  offers: readonly VerbsOffer[],
  hosts: readonly number[],
  rank: number,
): string {
  const mine = offers[rank];
  if (mine.offer === undefined) return `rank ${rank} has no device: ${mine.why}`;
  for (const [other, { offer }] of offers.entries()) {
    // That rank says why.
    if (offer === undefined || hosts[other] === hosts[rank]) continue;
    const why = native.whyNotByVerbs(mine.offer, offer, `rank ${other}`, mine.device);
    if (why !== '') return why;
  }
  return '';
}

/** For people: by what a rank reaches each of the others, and why not by something better. */
export function describeRoutes(rank: number, hosts: readonly number[], { name, why }: Network): string {
  const others = [...hosts.keys()].filter((other) => other !== rank);
  const near = others.filter((other) => hosts[other] === hosts[rank]);
  const far = others.filter((other) => hosts[other] !== hosts[rank]);
  const ways = [
    ...(near.length > 0 ? [`${listOf(near)} by shared memory`] : []),
    ...(far.length > 0 ? [`${listOf(far)} by ${name}`] : []),
  ];
  const reason = far.length > 0 && why !== '' ? `; not by verbs, because ${why}` : '';
  return `rank ${rank} reaches ${ways.join(', ')}${reason}`;
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
