/** What a job of this process could leave behind: files, descriptors, memory. For a test that plays many. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { removeSockets } from '#library/monitor.js';
import { until } from './until.js';

/** Names in /dev/shm that this library could have made. Other programs have theirs. */
const sharedFiles = (): string[] => readdirSync('/dev/shm').filter((name) => /nbc/i.test(name));

const descriptors = (): string[] => readdirSync('/proc/self/fd');

function describe(numbers: readonly string[]): string {
  const targets = numbers.map((number) => {
    try {
      return `${number} → ${readlinkSync(`/proc/self/fd/${number}`)}`;
    } catch {
      return `${number} closed meanwhile`;
    }
  });
  return targets.join('\n');
}

/** With the first process whose output it reads Node.js opens /dev/null, and keeps that. */
let firstProcess: Promise<unknown> | undefined;

/** Made before the job, looked at behind it. */
export class Leftovers {
  static async before(): Promise<Leftovers> {
    await (firstProcess ??= once(spawn('true', { stdio: ['ignore', 'pipe', 'ignore'] }), 'close'));
    return new Leftovers();
  }

  /** The temporary folder of the ranks: nobody else makes files there. */
  private readonly folder = mkdtempSync(join(tmpdir(), 'nbc-leftovers-'));
  private readonly shared = sharedFiles();
  private readonly open = descriptors();

  private constructor() {}

  get environment(): Record<string, string> {
    // With what ranks make files for: the sockets of nbctop.
    return { TMPDIR: this.folder, XDG_RUNTIME_DIR: this.folder, NBC_MONITOR: 'on' };
  }

  /**
   * @param killed processes that could not remove their sockets: nbcrun does that for them, and so does this
   * @throws {Error} naming what is left
   */
  async check(what: string, killed: readonly number[]): Promise<void> {
    for (const pid of killed) removeSockets(join(this.folder, 'node-nbc'), pid);
    const files = readdirSync(this.folder, { recursive: true, withFileTypes: true }).filter(
      (entry) => !entry.isDirectory(),
    );
    assert.deepEqual(
      files.map(({ name }) => name),
      [],
      `${what}: temporary files are left`,
    );
    const shared = sharedFiles().filter((name) => !this.shared.includes(name));
    assert.deepEqual(shared, [], `${what}: files in /dev/shm are left`);
    // Sockets close in later turns of the event loop.
    await until(
      `${what}: this process has as many descriptors as before`,
      () => descriptors().length <= this.open.length,
      async () => describe(descriptors()),
    );
    const maps = readFileSync('/proc/self/maps', 'latin1').match(/^.*nbc-job.*$/gm) ?? [];
    assert.deepEqual(maps, [], `${what}: memory of the job is mapped`);
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}
