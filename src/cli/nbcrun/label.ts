/**
 * Puts a label in front of every line of one stream and writes whole lines only, so that no rank tears the line of
 * another.
 */
import type { Readable, Writable } from 'node:stream';

const NEWLINE = 0x0a;
/** A line longer than this is written in pieces, in bytes: memory stays bounded whatever a rank prints. */
const LONGEST_LINE = 1 << 20;

/** Resolves when `source` has ended and everything is written. A last line without a newline gets one. */
export async function labelLines(source: Readable, sink: Writable, label: string): Promise<void> {
  const prefix = Buffer.from(label);
  let parts: Buffer[] = [];
  let held = 0;
  for await (const data of source as AsyncIterable<Buffer>) {
    const whole: Buffer[] = [];
    let start = 0;
    for (let end = data.indexOf(NEWLINE); end >= 0; end = data.indexOf(NEWLINE, start)) {
      whole.push(prefix, ...parts, data.subarray(start, end + 1));
      parts = [];
      held = 0;
      start = end + 1;
    }
    if (start < data.length) {
      parts.push(data.subarray(start));
      held += data.length - start;
    }
    if (held > LONGEST_LINE) {
      whole.push(prefix, ...parts, Buffer.of(NEWLINE));
      parts = [];
      held = 0;
    }
    if (whole.length > 0) await write(sink, Buffer.concat(whole));
  }
  if (held > 0) await write(sink, Buffer.concat([prefix, ...parts, Buffer.of(NEWLINE)]));
}

/**
 * One write for all lines: nothing comes between. Waits until the sink has taken it, which slows a rank that prints too
 * fast.
 */
function write(sink: Writable, data: Buffer): Promise<void> {
  return new Promise((resolve) => sink.write(data, () => resolve()));
}
