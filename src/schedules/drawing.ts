/** Schedules as a picture: who does what in which round, and which messages travel between them. */
import { ScheduleError } from '../errors.js';
import { checkSchedules } from './check.js';
import { decodeSchedule, type DecodedSchedule, Schedule, type ScheduleElement } from './schedule.js';

export interface DrawingOptions {
  /** Stands above the picture. */
  title?: string;
}

/** One round of a rank, and the steps between which it runs. */
interface Box {
  rank: number;
  round: number;
  from: number;
  to: number;
  elements: readonly ScheduleElement[];
}

/** A message: it leaves when its sender's round begins, and its receiver's round ends with it or later. */
interface Message {
  from: Box;
  to: Box;
  bytes: number;
}

/** All lengths are pixels. */
const STEP = 150;
const LANE = 64;
const BOX = 30;
const GAP = 10;
const LEFT = 70;
const TOP = 26;
const TITLE = 26;

/**
 * Draws the schedules of all ranks of a communicator, in the order of the ranks, as SVG. Each rank has a lane, each of
 * its rounds a box, and each message an arrow with its bytes. Time goes to the right, in steps: a round takes one, and
 * longer where it waits for a message of a rank that comes later. Copies and reductions are named in their box.
 *
 * ```ts
 * const schedules = Array.from({ length: 8 }, (_, rank) => bcastBinomial({ rank, size: 8, root: 0, bytes: 1024 }));
 * writeFileSync('bcast.svg', svg(schedules, { title: 'Broadcast, binomial tree' }));
 * ```
 *
 * The picture has light and dark colours; the viewer chooses.
 *
 * @throws {ScheduleError} if the schedules do not fit together: see {@link checkSchedules}
 */
export function svg(schedules: readonly (Schedule | DecodedSchedule)[], { title }: DrawingOptions = {}): string {
  const problems = checkSchedules(schedules);
  if (problems.length > 0) throw new ScheduleError(`cannot be drawn: ${problems[0].message}`);
  const decoded = schedules.map((one) => (one instanceof Schedule ? decodeSchedule(one.encode()) : one));
  const { boxes, messages } = layOut(decoded);
  const steps = Math.max(1, ...boxes.flat().map(({ to }) => to));
  const above = title === undefined ? 0 : TITLE;
  const width = LEFT + steps * STEP + GAP;
  const height = above + TOP + schedules.length * LANE;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}">`,
    STYLE,
    ...(title === undefined ? [] : [`<text class="title" x="${GAP}" y="18">${escape(title)}</text>`]),
    `<g transform="translate(0 ${above + TOP})">`,
    ...Array.from({ length: steps }, (_, step) => drawStep(step, schedules.length)),
    ...boxes.flatMap((row, rank) => [drawLane(rank, steps), ...row.map(drawBox)]),
    ...messages.map(drawMessage),
    '</g>',
    '</svg>',
    '',
  ].join('\n');
}

/** Lets all ranks run: a round ends a step after it began, and a step after each message to it has left. */
function layOut(schedules: readonly DecodedSchedule[]): { boxes: Box[][]; messages: Message[] } {
  const boxes: Box[][] = schedules.map(() => []);
  const messages: Message[] = [];
  /** By sender and receiver: messages that have left and have not been received, in their order. */
  const underWay = new Map<string, { from: Box; bytes: number }[]>();
  const stream = (from: number, to: number): { from: Box; bytes: number }[] => {
    const key = `${from} ${to}`;
    const found = underWay.get(key) ?? [];
    underWay.set(key, found);
    return found;
  };
  const begin = (rank: number): void => {
    const row = boxes[rank];
    const round = row.length;
    if (round === schedules[rank].rounds.length) return;
    const from = row.at(-1)?.to ?? 0;
    const box = { rank, round, from, to: 0, elements: schedules[rank].rounds[round] };
    row.push(box);
    for (const element of box.elements) {
      if (element.kind === 'send') stream(rank, element.peer).push({ from: box, bytes: element.bytes });
    }
  };
  /** False: a message to this round has not left yet. */
  const end = (box: Box): boolean => {
    const peers = box.elements.filter((element) => element.kind === 'recv').map(({ peer }) => peer);
    const wanted = (peer: number): number => peers.filter((other) => other === peer).length;
    if (peers.some((peer) => stream(peer, box.rank).length < wanted(peer))) return false;
    box.to = box.from + 1;
    for (const peer of peers) {
      const { from, bytes } = stream(peer, box.rank).shift()!;
      messages.push({ from, to: box, bytes });
      box.to = Math.max(box.to, from.from + 1);
    }
    return true;
  };
  for (const rank of schedules.keys()) begin(rank);
  for (let moved = true; moved;) {
    moved = false;
    for (const [rank, row] of boxes.entries()) {
      const box = row.at(-1);
      if (box === undefined || box.to > 0 || !end(box)) continue;
      begin(rank);
      moved = true;
    }
  }
  return { boxes, messages };
}

const x = (step: number): number => LEFT + step * STEP;
/** The middle of a rank's lane. */
const y = (rank: number): number => rank * LANE + LANE / 2;

function drawStep(step: number, ranks: number): string {
  const line = `<line class="step" x1="${x(step)}" y1="0" x2="${x(step)}" y2="${ranks * LANE}"/>`;
  return `${line}<text class="small" x="${x(step) + GAP}" y="-8">step ${step}</text>`;
}

function drawLane(rank: number, steps: number): string {
  const line = `<line class="lane" x1="${LEFT}" y1="${y(rank)}" x2="${x(steps)}" y2="${y(rank)}"/>`;
  return `${line}<text x="${GAP}" y="${y(rank) + 5}">rank ${rank}</text>`;
}

function drawBox({ rank, round, from, to, elements }: Box): string {
  const local = elements.filter(({ kind }) => kind !== 'send' && kind !== 'recv');
  const names = [...new Set(local.map(({ kind }) => (kind === 'reduce' ? 'reduce' : 'copy')))].join(' and ');
  const [left, top] = [x(from) + GAP, y(rank) - BOX / 2];
  const text = [`round ${round}`, ...(names === '' ? [] : [names])].join(', ');
  return (
    `<g class="round"><title>${escape(`rank ${rank}, round ${round}: ${listOf(elements)}`)}</title>` +
    `<rect class="${names === '' ? 'transfers' : 'works'}" x="${left}" y="${top}" ` +
    `width="${(to - from) * STEP - 2 * GAP}" height="${BOX}" rx="4"/>` +
    `<text class="small" x="${left + 6}" y="${y(rank) + 4}">${text}</text></g>`
  );
}

/** From the lower or upper edge of one box to that of the other. */
function drawMessage({ from, to, bytes }: Message): string {
  const down = to.rank > from.rank ? 1 : -1;
  const [x1, x2] = [x(from.from) + 2 * GAP, x(to.to) - 2 * GAP];
  const [y1, y2] = [y(from.rank) + (down * BOX) / 2, y(to.rank) - (down * BOX) / 2];
  const what = `rank ${from.rank} to rank ${to.rank}: ${bytes} bytes`;
  // The head: two strokes, turned as the line is.
  const turned = (Math.atan2(y2 - y1, x2 - x1) * 180) / Math.PI;
  return (
    `<g class="message"><title>${what}</title><line x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}"/>` +
    `<path d="M -7 -4 L 0 0 L -7 4" transform="translate(${x2} ${y2}) rotate(${turned.toFixed(1)})"/>` +
    `<text class="small" x="${x2 - 4}" y="${y2 - down * 6 + (down > 0 ? 0 : 10)}" text-anchor="end">${bytes} B</text></g>`
  );
}

function listOf(elements: readonly ScheduleElement[]): string {
  const words = elements.map((element) => {
    if (element.kind === 'send') return `sends ${element.bytes} bytes to rank ${element.peer}`;
    if (element.kind === 'recv') return `receives ${element.bytes} bytes from rank ${element.peer}`;
    return element.kind === 'reduce' ? `reduces ${element.bytes} bytes` : 'copies';
  });
  return words.join(', ');
}

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

const STYLE = `<style>
  svg { font: 13px system-ui, sans-serif; background: #ffffff; color: #1f2430; }
  text { fill: currentColor; }
  .title { font-size: 16px; font-weight: 600; }
  .small { font-size: 11px; }
  .lane, .step { stroke: #c9ced8; }
  .step { stroke-dasharray: 2 4; }
  .transfers { fill: #dbe9ff; stroke: #3b6fb6; }
  .works { fill: #ffe3c2; stroke: #b5722a; }
  .message line, .message path { stroke: #2f7d4f; fill: none; stroke-width: 1.3; }
  .message text { fill: #2f7d4f; paint-order: stroke; stroke: #ffffff; stroke-width: 3px; }
  @media (prefers-color-scheme: dark) {
    svg { background: #15181e; color: #e4e7ee; }
    .lane, .step { stroke: #3a404c; }
    .transfers { fill: #1d3557; stroke: #7fb0f5; }
    .works { fill: #4a3117; stroke: #e8a765; }
    .message line, .message path { stroke: #6fce97; }
    .message text { fill: #6fce97; stroke: #15181e; }
  }
</style>`;
