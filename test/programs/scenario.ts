/**
 * For programs that have several scenarios: the arguments say which ones to play, in this order.
 */
import { writeSync } from 'node:fs';

export type Scenarios = Record<string, () => Promise<void> | void>;

/** Plays the scenarios named on the command line. An assertion that fails ends the rank with exit code 1, as any uncaught error. */
export async function play(scenarios: Scenarios): Promise<void> {
  const names = process.argv.length > 2 ? process.argv.slice(2) : [''];
  for (const name of names) {
    if (!Object.hasOwn(scenarios, name))
      throw new Error(`no scenario '${name}'; there are ${Object.keys(scenarios).join(', ')}`);
    await scenarios[name]();
  }
}

/** Tells the test a value. Written at once, so that it arrives even if the rank dies next. */
export function report(value: unknown): void {
  say(`report ${JSON.stringify(value)}`);
}

/** Prints a line at once, past all streams. */
export function say(line: string): void {
  writeSync(1, `${line}\n`);
}
