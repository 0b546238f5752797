/**
 * How far a long run has come, on standard error: one line that is rewritten on a terminal, a line a step elsewhere.
 */
export class ProgressLine {
  readonly #terminal = process.stderr.isTTY;
  readonly #began = performance.now();
  #shown = false;
  #lastText = '';

  /** @param fraction of the whole, 0 to 1 */
  update(fraction: number, text: string): void {
    if (!this.#terminal) {
      if (text !== this.#lastText) process.stderr.write(`[${percent(fraction)}] ${text}\n`);
      this.#lastText = text;
      return;
    }
    const bar = '█'.repeat(Math.round(fraction * 20)).padEnd(20, '·');
    const line = ` ${bar} ${percent(fraction)} ${this.#remaining(fraction)} ${text}`;
    process.stderr.write(`\r\x1b[K${line.slice(0, (process.stderr.columns || 80) - 1)}`);
    this.#shown = true;
  }

  /** Writes a line that stays. */
  log(text: string): void {
    this.clear();
    process.stderr.write(`${text}\n`);
  }

  clear(): void {
    if (this.#shown) process.stderr.write('\r\x1b[K');
    this.#shown = false;
  }

  #remaining(fraction: number): string {
    const elapsed = (performance.now() - this.#began) / 1000;
    if (fraction < 0.02 || elapsed < 2) return '       ';
    const seconds = Math.round((elapsed / fraction) * (1 - fraction));
    return `−${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`.padEnd(7);
  }
}

const percent = (fraction: number): string => `${Math.floor(fraction * 100)} %`.padStart(5);
