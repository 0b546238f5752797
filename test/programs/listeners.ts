/** Which process listens where, as the kernel says. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

/** The state in /proc/net/tcp. */
const LISTEN = '0A';

/** The addresses at which this process listens over TCP, or anybody in this network namespace. */
export function listeners(who: 'process' | 'namespace'): string[] {
  const own = new Set(readdirSync('/proc/self/fd').map(target));
  return ['tcp', 'tcp6'].flatMap((file) =>
    readFileSync(`/proc/self/net/${file}`, 'latin1')
      .split('\n')
      .map((line) => line.trim().split(/\s+/))
      .filter((fields) => fields[3] === LISTEN && (who === 'namespace' || own.has(`socket:[${fields[9]}]`)))
      .map((fields) => addressOf(fields[1].split(':')[0])),
  );
}

/** Empty for the descriptor that listed the directory and is gone. */
function target(fd: string): string {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`);
  } catch {
    return '';
  }
}

/**
 * "0100007F" → "127.0.0.1": the kernel writes an address as words of 32 bits, each as the number that it is on this
 * machine.
 */
function addressOf(text: string): string {
  const words = text.match(/.{8}/g)!.map((word) => Uint32Array.of(parseInt(word, 16)));
  const bytes = words.flatMap((word) => [...new Uint8Array(word.buffer)]);
  return bytes.length === 4 ? bytes.join('.') : Buffer.from(bytes).toString('hex');
}
