/**
 * Runs something with these variables in the environment, which afterwards is as it was. Ranks of later tests inherit
 * it.
 */
export async function withEnvironment<T>(variables: Record<string, string>, run: () => Promise<T>): Promise<T> {
  const before = Object.keys(variables).map((name) => [name, process.env[name]] as const);
  Object.assign(process.env, variables);
  try {
    return await run();
  } finally {
    for (const [name, value] of before) {
      if (value === undefined) Reflect.deleteProperty(process.env, name);
      else process.env[name] = value;
    }
  }
}
