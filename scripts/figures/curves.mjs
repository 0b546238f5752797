/** What the figures have in common: names, colours, numbers. */
import { COLOURS } from '../../dist/bench/nbcbench/panels.js';

const [BLUE, ORANGE, GREY, GREEN, RED, CYAN, BROWN] = COLOURS;

/** How node-nbc makes progress in the figures: the paper's three modes, and its own. */
export const THREAD = 'progress thread';
/** A kernel that calls test, as those of the paper did over MPI. */
export const TESTED = 'test-on-init, with tests';
const COLOUR = {
  'no test-on-init': ORANGE,
  'test-on-init': GREEN,
  'wait-on-send': RED,
  [THREAD]: BLUE,
  [TESTED]: BROWN,
  'Open MPI': CYAN,
  blocking: GREY,
};
export const colourOf = (mode) => COLOUR[mode];

/** `cards`: each rank has one; otherwise all share the rate. */
export const linkName = ({ rate, cards }) => `TCP at ${rate.replace('gbit', ' Gbit/s')}${cards ? ' each' : ''}`;

export const unique = (values) => [...new Set(values)];

/** Times as people read them: three digits. */
export const digits = (value) => (Number.isFinite(value) ? value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0) : '–');
export const percent = (share) => `${(100 * share).toFixed(Math.abs(share) < 0.1 ? 1 : 0)} %`;

/** Markdown, the first column flush left. */
export function table(head, body) {
  const line = (cells) => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map((_, i) => (i === 0 ? '---' : '--:'))), ...body.map(line)].join('\n');
}
