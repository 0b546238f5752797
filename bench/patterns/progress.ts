/** How far a run is, on standard error: a bar on a terminal, a line for each sweep elsewhere. */
import { Presets, SingleBar } from 'cli-progress';

export class Progress {
  readonly #bar: SingleBar | undefined;
  #stage = '';

  constructor(steps: number) {
    if (!process.stderr.isTTY) return;
    this.#bar = new SingleBar(
      // The terminal's settings are left alone: a killed process could not restore them.
      { format: '{bar} {value}/{total}  {stage}', clearOnComplete: true, hideCursor: null, linewrap: null },
      Presets.shades_classic,
    );
    this.#bar.start(steps, 0, { stage: '' });
  }

  /** The next step begins: `stage` is common to several, `detail` its own. */
  step(stage: string, detail: string): void {
    if (this.#bar === undefined) {
      if (stage !== this.#stage) process.stderr.write(`${stage}\n`);
      this.#stage = stage;
      return;
    }
    if (this.#stage !== '') this.#bar.increment();
    this.#stage = stage;
    const room = Math.max(20, (process.stderr.columns || 80) - 60);
    this.#bar.update({ stage: `${stage}: ${detail}`.slice(0, room) });
  }

  stop(): void {
    this.#bar?.stop();
  }
}
