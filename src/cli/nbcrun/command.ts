/** What processes of the job run, in the runtime that nbcrun itself runs in: the program, or several threads of it. */
import { ROOT } from '../../binaries.js';
import type { ProcessPlace } from './place.js';

const PROCESS = `${ROOT}dist/cli/nbcrun/process.js`;

/** Options of the runtime, in front of the program, without which it would not run it as Node.js does. */
function ownOptions(): string[] {
  // Deno asks for each permission on the terminal, which ranks do not have. Native code is bound by none of them.
  return 'Deno' in globalThis ? ['run', '--allow-all'] : [];
}

/** @param program an absolute path */
export function commandOf(program: string, args: readonly string[], runtimeArgs: readonly string[]): string[] {
  return [process.execPath, ...ownOptions(), ...runtimeArgs, program, ...args];
}

/** A process whose threads run the program. */
export function threadsCommandOf(
  place: ProcessPlace,
  program: string,
  args: readonly string[],
  runtimeArgs: readonly string[],
): string[] {
  return commandOf(PROCESS, [JSON.stringify(place), program, ...args], runtimeArgs);
}
