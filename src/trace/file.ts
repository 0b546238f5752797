/** Writes traces: the file of the option `trace`. */
import { closeSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { os } from '../builtins.js';
import { OptionError } from '../errors.js';
import type { Native } from '../native.js';
import { type ChromeEvent, chromeEvents, type TraceMetadata } from './chrome.js';

/** Characters that are written at a time. */
const PIECE = 1 << 20;

/** The trace of the open world of this process, which is written once: when it closes, or when the process exits. */
export class TraceWriter {
  private readonly atExit = (): void => this.finish();

  /** @throws {OptionError} if the file cannot be written */
  constructor(
    private readonly native: Native,
    private readonly file: string,
    private readonly rank: number,
    private readonly size: number,
  ) {
    try {
      closeSync(openSync(file, 'w'));
    } catch (error) {
      throw new OptionError('trace', `cannot be written: ${(error as Error).message}`, { rank, operation: 'init' });
    }
  }

  /** Once native code is open. */
  begin(): void {
    process.on('exit', this.atExit);
  }

  /** Writes what has happened so far. Native code must not have closed. */
  finish(): void {
    process.off('exit', this.atExit);
    const { native, file, rank, size } = this;
    try {
      const trace = native.trace();
      const epoch = Date.now() * 1000 - monotonic();
      const metadata = { rank, size, boot: bootId(), epoch, leftOut: trace.leftOut };
      writeChrome(file, chromeEvents(rank, trace), metadata);
    } catch (error) {
      process.emitWarning(`the trace of rank ${rank} is lost: ${(error as Error).message}`, 'TraceWarning');
    }
  }
}

export function writeChrome(
  file: string,
  events: Iterable<ChromeEvent>,
  metadata: TraceMetadata | TraceMetadata[],
): void {
  const fd = openSync(file, 'w');
  try {
    let text = '{"traceEvents":[\n';
    let separator = '';
    for (const event of events) {
      text += separator + JSON.stringify(event);
      separator = ',\n';
      if (text.length < PIECE) continue;
      writeFileSync(fd, text);
      text = '';
    }
    writeFileSync(fd, `${text}\n],"displayTimeUnit":"ns","metadata":${JSON.stringify(metadata)}}\n`);
  } finally {
    closeSync(fd);
  }
}

/** Microseconds of CLOCK_MONOTONIC, which events have. */
function monotonic(): number {
  return Number(process.hrtime.bigint()) / 1000;
}

/** Of the kernel. Containers of a machine have the same. */
function bootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return os().hostname();
  }
}
