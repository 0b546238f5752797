/** What every rank runs: the program, in the runtime that nbcrun itself runs in. */

/** Options of the runtime, in front of the program, without which it would not run it as Node.js does. */
function ownOptions(): string[] {
  // Deno asks for each permission on the terminal, which ranks do not have. Native code is bound by none of them.
  return 'Deno' in globalThis ? ['run', '--allow-all'] : [];
}

export function commandOf(program: string, args: readonly string[], runtimeArgs: readonly string[]): string[] {
  return [process.execPath, ...ownOptions(), ...runtimeArgs, program, ...args];
}
