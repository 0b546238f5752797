/** Ranks that talk, and report the addresses at which they listen: of all sockets of the process that the kernel says are listening. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { init } from 'node-nbc';
import { report } from './scenario.js';

const LISTENING = '0A';

/** The kernel writes an address as words of 32 bits, each as the number that it is on this machine. */
function addressOf(text: string): string {
  const words = text.match(/.{8}/g)!.map((word) => Uint32Array.of(parseInt(word, 16)));
  const bytes = words.flatMap((word) => [...new Uint8Array(word.buffer)]);
  return bytes.length === 4 ? bytes.join('.') : Buffer.from(bytes).toString('hex');
}

function listening(): string[] {
  const inodes = new Set<string>();
  for (const fd of readdirSync('/proc/self/fd')) {
    try {
      inodes.add(/^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/self/fd/${fd}`))?.[1] ?? '');
    } catch {
      // the descriptor by which they were listed
    }
  }
  const sockets = ['tcp', 'tcp6'].flatMap((file) =>
    readFileSync(`/proc/self/net/${file}`, 'latin1').trim().split('\n').slice(1),
  );
  return sockets
    .map((line) => line.trim().split(/\s+/))
    .filter((fields) => fields[3] === LISTENING && inodes.has(fields[9]))
    .map((fields) => addressOf(fields[1].split(':')[0]));
}

const world = await init();
const all = new Int32Array(world.size);
await world.ialltoall(new Int32Array(world.size), all);
report(listening());
await world.close();
