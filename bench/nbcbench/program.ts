/** What programs that measure have in common: the line of progress, what could not be measured, and how they end. */
import type { Listener } from './measure.js';
import { ProgressLine } from './progress.js';

export const line = new ProgressLine();

const failures: Error[] = [];

/** @param name of the program, in front of its messages */
export function listenerOf(name: string): Listener {
  return {
    progress: (fraction, text) => line.update(fraction, text),
    note: (text) => line.log(`  ${text}`),
    failure(error) {
      failures.push(error);
      line.log(`${name}: ${error.message}\n  goes on without it`);
    },
  };
}

/** Ends with 0 if all was measured, with 1 if anything failed. Jobs and files go in handlers of 'exit'. */
export async function runProgram(name: string, main: () => Promise<unknown>): Promise<void> {
  for (const [signal, code] of [
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const) {
    process.on(signal, () => {
      line.clear();
      process.exit(code);
    });
  }
  try {
    await main();
    process.exitCode = failures.length > 0 ? 1 : 0;
  } catch (error) {
    line.clear();
    process.stderr.write(`${name}: ${error instanceof Error ? error.message : String(error)}\n`);
    process.exit(1);
  }
}
