/** The permission model of Node.js (`node --permission`): what a process is allowed, and how to allow it. */

/** By the names of `process.permission.has()`. */
const OPTIONS = { child: '--allow-child-process', net: '--allow-net', worker: '--allow-worker' } as const;

type Scope = keyof typeof OPTIONS;

/** The options of Node.js that are missing, in words; undefined if all is allowed. */
export function missingPermissions(...scopes: Scope[]): string | undefined {
  const { permission } = process as { permission?: { has(scope: string): boolean } };
  if (permission === undefined) return undefined;
  const denied = (scope: Scope): boolean => {
    // Without the option the network is not part of the model (before Node.js 25), and not allowed in its words.
    if (scope === 'net' && !process.allowedNodeEnvironmentFlags.has(OPTIONS.net)) return false;
    return !permission.has(scope);
  };
  const options = scopes.filter(denied).map((scope) => OPTIONS[scope]);
  return options.length === 0 ? undefined : options.join(' and ');
}
