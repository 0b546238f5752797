/** Asks ranks what they do: each over its socket, which gives one line of JSON (native/addon/monitor.h). */
import { readdirSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import type { Stats } from '../../counters.js';
import { processOf, requireOwn } from '../../monitor.js';

/** Which rank this is. */
export interface Place {
  /**
   * Tells jobs apart. Of a launcher's job, the process that started its ranks; of a job of one rank, that rank. Of
   * `runRanks()`, the number of a file.
   */
  job: number;
  process: number;
  rank: number;
  size: number;
}

/** What a rank says: of {@link Engine::ask}, native/engine/status.h. */
export interface Sample extends Place {
  /** In the program, in `wait()`, or in the event loop where something is awaited. `silent`: see {@link Silent}. */
  caller: 'program' | 'waits' | 'awaits';
  /** Operations. */
  pending: number;
  /** The oldest of them first; not all, if they are many. */
  operations: { title: string; milliseconds: number }[];
  /** Ranks that they wait for. */
  peers: number[];
  /** Of the rank's clock, in microseconds. */
  time: number;
  /** Microseconds in wait(), and bytes of messages, since somebody looks. */
  waited: number;
  sent: number;
  received: number;
  counters: Stats;
}

/** A thread of the rank has its operations, and does not answer. */
export interface Silent extends Place {
  caller: 'silent';
}

/** How long a rank has to answer. */
const ANSWER_MS = 1500;
/** A longer line is none of a rank. */
const MAX_LINE = 2 ** 20;

/**
 * By name of a socket: what each rank of the folder says; undefined: it does not answer. What dead processes left is
 * removed.
 */
export async function askAll(
  folder: string,
  wanted: (name: string) => boolean,
): Promise<Map<string, Sample | Silent | undefined>> {
  let names: string[];
  try {
    names = readdirSync(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return new Map();
    throw error;
  }
  requireOwn(folder);
  const ranks = names.filter((name) => processOf(name) !== undefined && wanted(name));
  const answers = await Promise.all(ranks.map(async (name) => [name, await ask(join(folder, name))] as const));
  return new Map(answers.filter(([, answer]) => answer !== 'gone') as [string, Sample | undefined][]);
}

function ask(path: string): Promise<Sample | Silent | undefined | 'gone'> {
  return new Promise((resolve) => {
    let text = '';
    const socket = connect(path);
    const end = (answer: Sample | Silent | undefined | 'gone'): void => {
      clearTimeout(late);
      socket.destroy();
      resolve(answer);
    };
    const late = setTimeout(end, ANSWER_MS, undefined);
    socket.setEncoding('utf8');
    socket.on('data', (piece: string) => {
      text += piece;
      if (text.length > MAX_LINE) end(undefined);
    });
    socket.on('end', () => end(parse(text)));
    socket.on('error', ({ code }: NodeJS.ErrnoException) => {
      // Ranks rename their sockets once they listen, so nobody will.
      if (code === 'ECONNREFUSED') rmSync(path, { force: true });
      end(code === 'ECONNREFUSED' || code === 'ENOENT' ? 'gone' : undefined);
    });
  });
}

function parse(text: string): Sample | Silent | undefined {
  try {
    return JSON.parse(text) as Sample | Silent;
  } catch {
    return undefined; // the rank has ended in the middle
  }
}
