/**
 * For programs that have several scenarios: the first argument names the one to play, or several with commas between
 * them. Others belong to the scenario.
 */
import { writeSync } from 'node:fs';

export type Scenarios = Record<string, () => Promise<void> | void>;

/**
 * Plays the scenarios that the command line names, in this order. An assertion that fails ends the rank with exit code
 * 1, as any uncaught error.
 */
export async function play(scenarios: Scenarios): Promise<void> {
  for (const name of (process.argv[2] ?? '').split(',')) {
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
