/** `npm run soak -- --minutes N [--transport T]` runs this, and says what each rank held early and late. */
import { parseArgs } from 'node:util';
import { soak } from './soak.js';

const text = { type: 'string' } as const;
const { values } = parseArgs({ options: { minutes: text, transport: text } });
const seconds = Number(values.minutes ?? 10) * 60;
for (const transport of values.transport === undefined ? ['shm', 'tcp'] : [values.transport]) {
  for (const [rank, { actions, early, late }] of (await soak(seconds, { NBC_TRANSPORT: transport })).entries()) {
    console.log(`${transport}, rank ${rank}, ${actions} actions`);
    console.table({ 'second quarter': early, 'last quarter': late });
  }
}
