#!/usr/bin/env node
/** `npm run docs:tables`: writes docs/counters.md from the rows of src/counters.ts. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { format, resolveConfig } from 'prettier';
import { build } from './build.mjs';
import { ROOT } from './test/process.mjs';

build();
const { COUNTERS } = await import(pathToFileURL(join(ROOT, 'dist/counters.js')).href);
const rows = Object.entries(COUNTERS).map(([name, { unit, fabrics, description }]) => {
  const where = fabrics.length === 3 ? 'all' : fabrics.join(', ');
  return `| \`${name}\` | ${unit} | ${where} | ${description} |`;
});
const text = `# Counters

What does \`world.stats()\` count? Each counter belongs to one rank and counts from \`init()\` on. A counter that only
some transports have is missing on the others. Where a rank reaches some peers over shared memory and others over a
network, it has the counters of both.

A message is _small_ up to the eager limit (options \`eagerLimit\` and \`tcp.eagerLimit\`), and _large_ above it.
[architecture/protocol.md](architecture/protocol.md) says what RTR, RTS and credits are.

| Counter | Unit | Transports | What it counts |
| --- | --- | --- | --- |
${rows.join('\n')}
`;
const file = join(ROOT, 'docs/counters.md');
const config = await resolveConfig(file);
writeFileSync(file, await format(text, { ...config, filepath: file }));
