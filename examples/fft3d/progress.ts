import { Presets, SingleBar } from 'cli-progress';

/**
 * Shows how far the work is: a bar where someone watches a terminal, a line for each stage elsewhere, nothing on the
 * other ranks.
 */
export class Progress {
  readonly #show: boolean;
  readonly #bar: SingleBar | undefined;

  /** @param show is this the rank that speaks? */
  constructor(show: boolean) {
    this.#show = show;
    if (!show || !process.stderr.isTTY) return;
    this.#bar = new SingleBar(
      // The terminal's settings are left alone: a killed job could not restore them.
      { format: '{bar} {percentage} %  {stage}', clearOnComplete: true, hideCursor: null, linewrap: null },
      Presets.shades_classic,
    );
  }

  /** @param steps how many times `step` will be called */
  start(steps: number): void {
    this.#bar?.start(steps, 0, { stage: '' });
  }

  stage(name: string): void {
    if (this.#bar) this.#bar.update({ stage: name });
    else if (this.#show) process.stderr.write(`${name}\n`);
  }

  step(): void {
    this.#bar?.increment();
  }

  /** Takes the bar away, or ends the lines with an empty one. */
  stop(): void {
    if (this.#bar) this.#bar.stop();
    else if (this.#show) process.stderr.write('\n');
  }
}
