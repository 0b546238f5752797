#!/usr/bin/env node
/**
 * Writes docs/algorithms.md, the index of algorithms, from the table of operations. A test checks that it is current.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { format } from 'prettier';

const ROOT = resolve(dirname(fileURLToPath(import.meta.url)), '..');
const TARGET = resolve(ROOT, 'docs/algorithms.md');

/** The document, for the table that it is given. */
export async function render(operations) {
  const lines = [
    '# Algorithms',
    '',
    'Which algorithms does each collective have, what do they cost, and when is each one taken?',
    '',
    'Every collective takes an algorithm by name: `world.iallgather(send, recv, { algorithm: "ring" })`. All ranks name',
    'the same one. _p_ is the number of ranks, _n_ the bytes of the message, or of one block. Steps are messages that',
    'follow each other; bytes are those that the busiest rank sends or receives.',
    '',
    '`hierarchical` is for several hosts, _h_ of them: inside a host, ranks share memory with its leader, and only leaders',
    'reach other hosts. It is taken where the hosts of all ranks are known: where ranks met through a store, PMI or PMIx.',
    '',
    'Where ranks share processors, few steps count: `linear` and `central` let rank 0 do what is small, and what is larger',
    'takes no pipelines and few trees. That is where all ranks share memory, with at least four ranks a processor, and have',
    '1 MiB of exposed memory (`exposedBytes`) for each rank. With operators of `createOp` ranks count as if they did not.',
    'The processors are those that the launcher may use, in a container no more than its limit of processor time. Where',
    'ranks met through a store, PMI or PMIx, they are those of all ranks together.',
    '',
    'This page is made from `src/operations` by `node scripts/algorithms.mjs`.',
  ];
  for (const { name, mpi, summary, parameters, algorithms } of operations) {
    lines.push('', `## ${name}`, '', `\`${name}(${parameters.join(', ')})\`, ${mpi}. ${summary}`, '');
    for (const row of algorithms) {
      lines.push(
        `- **${row.name}**`,
        `  - steps: ${row.steps}`,
        `  - bytes: ${row.bytes}`,
        `  - when: ${row.when}`,
        `  - source: ${row.source}`,
      );
    }
  }
  const options = JSON.parse(readFileSync(resolve(ROOT, '.prettierrc'), 'utf8'));
  return format(`${lines.join('\n')}\n`, { ...options, parser: 'markdown', proseWrap: 'always' });
}

/** The picture of docs/schedules.md, drawn by the library. */
export function picture({ bcastBinomial, svg }) {
  const ranks = Array.from({ length: 8 }, (_, rank) => rank);
  const shapes = ranks.map((rank) => ({ rank, size: 8, root: 0, bytes: 1024, inPlace: false }));
  return svg(shapes.map(bcastBinomial), { title: 'ibcast of 1 KiB, binomial tree, 8 ranks' });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { OPERATIONS } = await import('../dist/operations/index.js');
  const { NEIGHBOR_OPERATIONS } = await import('../dist/operations/neighbor.js');
  const schedules = await import('../dist/schedules/index.js');
  writeFileSync(TARGET, await render([...OPERATIONS, ...NEIGHBOR_OPERATIONS]));
  writeFileSync(resolve(ROOT, 'docs/figures/schedule.svg'), picture(schedules));
}
