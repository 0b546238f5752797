/**
 * What a thread has thrown, on its way to another one. A structured clone of an error loses its class and its
 * properties; those of this library get them back.
 */
import * as errors from './errors.js';

export interface ToldError {
  readonly value: unknown;
  /** Of an error of this library. */
  readonly name: string | undefined;
  /** What an error has besides, as far as it can be copied. */
  readonly properties: Record<string, unknown>;
}

/** Something that `postMessage()` takes, whatever was thrown. */
export function toldError(thrown: unknown): ToldError {
  const name = thrown instanceof errors.NbcError ? thrown.name : undefined;
  const properties: Record<string, unknown> = {};
  if (thrown instanceof Error) {
    for (const [key, value] of Object.entries(thrown)) if (copied(value) !== undefined) properties[key] = value;
  }
  const value = copied(thrown)?.copy;
  // Errors of the runtime that are no plain errors (DOMException) become objects.
  const lost = value === undefined ? thrown !== undefined : thrown instanceof Error && !(value instanceof Error);
  return { value: lost ? new Error(textOf(thrown)) : value, name, properties };
}

/** On the other thread. */
export function valueOf({ value, name, properties }: ToldError): unknown {
  if (!(value instanceof Error)) return value;
  const Class = (errors as Record<string, unknown>)[name ?? ''];
  if (typeof Class === 'function' && Class.prototype instanceof Error) {
    Object.setPrototypeOf(value, Class.prototype);
    delete (value as { name?: string }).name;
  }
  return Object.assign(value, properties);
}

function copied(value: unknown): { copy: unknown } | undefined {
  try {
    return { copy: structuredClone(value) };
  } catch {
    return undefined;
  }
}

function textOf(thrown: unknown): string {
  try {
    return thrown instanceof Error ? thrown.message : String(thrown);
  } catch {
    return 'something that is no error, and cannot be shown';
  }
}
