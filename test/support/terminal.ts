/** Commands in a terminal of their own, a pseudo-terminal, at which somebody types. */
import { join } from 'node:path';
import { run } from './commands.js';
import { ROOT } from './launch.js';

/** What is typed once a text has been printed. Ctrl-C is \x03, Ctrl-D \x04, Ctrl-\ \x1c. */
export type Typed = [after: string, typed: string];

/** Runs a command in a terminal. `output`: what it has printed. The code is 100 if an expected text did not come. */
export async function inTerminal(
  typed: readonly Typed[],
  command: readonly string[],
  env: Record<string, string> = {},
): Promise<{ code: number | null; output: string }> {
  const helper = join(ROOT, 'test/support/terminal.py');
  const { code, stdout, stderr } = await run('python3', [helper, JSON.stringify(typed), ...command], env);
  return { code, output: stdout.replaceAll('\r', '') + stderr };
}

export const nbcrun = (...args: string[]): string[] => [process.execPath, join(ROOT, 'dist/cli/nbcrun.js'), ...args];
