/** Programs that measure in the guest, and what perftest prints. */
import { run } from '../test/process.mjs';

/** A side that takes longer hangs. */
const SECONDS = 60;

/** Runs a program that prints what it did. Throws unless it ended well. */
export async function outputOf(command, args, env = {}) {
  const { ok, how, output } = await run(command, args, { seconds: SECONDS, env });
  if (!ok) throw new Error(`${how}\n${output}`);
  return output;
}

/**
 * The columns of the row of this size: bytes, iterations, then least, most, typical (the median, half a round trip, in
 * µs); or peak and average, in 2²⁰ bytes a second.
 */
export function numbersOf(program, output, bytes) {
  const row = output.split('\n').find((line) => line.trim().startsWith(`${bytes} `));
  const numbers = row?.trim().split(/\s+/).map(Number) ?? [];
  if (numbers.length < 5) throw new Error(`${program} printed no figures:\n${output}`);
  return numbers;
}
