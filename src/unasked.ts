/** Failures that nobody has asked about: a warning at the end of the process, as Node.js has it for promises. */
import { AbortError, type NbcError } from './errors.js';

/** Errors that are kept. A program that loses more of them learns that there are more. */
const MOST = 1000;

const unasked = new Set<NbcError>();
let watching = false;

/** A request has failed, and nobody waits for it. That the program has aborted it, it knows. */
export function failedUnseen(error: NbcError): void {
  if (error instanceof AbortError) return;
  if (!watching) {
    watching = true;
    process.on('exit', report);
  }
  if (unasked.size < MOST) unasked.add(error);
}

/** The program learns of this error now. */
export function seen(error: NbcError): NbcError {
  unasked.delete(error);
  return error;
}

/** At the end of the process `process.emitWarning` would come too late: it waits for the next tick. */
function report(): void {
  if (unasked.size === 0) return;
  const [first] = unasked;
  const { size } = unasked;
  const count = size === MOST ? `${MOST} requests or more` : size === 1 ? 'a request' : `${size} requests`;
  const asked = 'and the program has not asked how (await, wait, test)';
  const warning = new Error(`${count} failed, ${asked}; the first: ${first.message}`, { cause: first });
  warning.name = 'UnaskedFailureWarning';
  unasked.clear();
  process.emit('warning', warning);
}
