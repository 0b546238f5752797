/**
 * The watchdogs of several ranks find the same: each fires by itself, and ranks come to an operation that is stuck
 * after it has been reported. The job has one report of it.
 */
import { type Answer, type Answers, findCauses, type Stuck } from './report.js';

export class Watchdogs {
  /** What the ranks answered for the last report. */
  #told: Answers = new Map();
  /** Of them, those that kept others waiting. */
  #causes: ReadonlySet<number> = new Set();

  /** Whether the last report has told of the operation. */
  hasTold(stuck: Stuck): boolean {
    return isAsBefore(stuck, this.#told.get(stuck.rank));
  }

  /** Whether the last report has told of what the rank waits for, be it through others. */
  hasToldWhy({ rank }: Stuck, answers: Answers): boolean {
    const awaited = new Set([rank]);
    // Grows meanwhile.
    for (const one of awaited) {
      if (this.#causes.has(one) && isAsBefore(answers.get(one), this.#told.get(one))) return true;
      for (const peer of answers.get(one)?.peers ?? []) awaited.add(peer);
    }
    return false;
  }

  tell(answers: Answers): void {
    const { elsewhere, circle } = findCauses(answers);
    this.#told = answers;
    this.#causes = new Set([...elsewhere.map(([rank]) => rank), ...circle]);
  }
}

type Progress = Pick<Answer, 'steps' | 'pending'>;

/** A rank that cannot say (it is stopped, or has not called `init()`) is where it was. */
function isAsBefore(now: Progress | undefined, before: Progress | undefined): boolean {
  return now?.steps === before?.steps && now?.pending === before?.pending;
}
