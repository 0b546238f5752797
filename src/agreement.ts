/**
 * How ranks agree on an outcome although some of them end meanwhile: the algorithm, as a state machine that knows
 * nothing of messages in flight. survivors.ts moves its messages; test/agreement.test.ts plays it with random crashes.
 *
 * The lowest rank that lives is the coordinator. Each rank reports to it what it wants, and the outcome that it has
 * accepted last, if any. When all living ranks have reported, the coordinator proposes: the accepted outcome of the
 * latest round, or, if there is none, a new one. Each rank accepts the proposal. When all living ranks have accepted,
 * the coordinator decides. A rank that decides tells all others, and is finished when all living ones have told it. If
 * the coordinator ends, the next living rank is the coordinator, and all report again.
 *
 * Why all decisions are equal, those of ranks that have ended, too: a coordinator decides when all living ranks have
 * accepted its outcome. Each later coordinator lives then, and hears of this outcome in every report. So it proposes no
 * other. This needs two properties of messages: those of one rank to another arrive in order, and none arrives after
 * the receiver counts the sender as lost.
 *
 * Source: consensus with a rotating coordinator (Chandra and Toueg, "Unreliable failure detectors for reliable
 * distributed systems"), with the end of MPIX_Comm_agree of ULFM: who returns needs to answer nobody any more.
 */

/** What is to be agreed. MIXED is an outcome only: ranks called different ones. */
export enum Purpose {
  MIXED,
  AGREE,
  SHRINK,
}

/** What a rank wants, or what is proposed. */
export interface Outcome {
  readonly purpose: Purpose;
  /** 32 bits: the bitwise AND over the ranks that are not in `lost`. */
  readonly value: number;
  /** Of the communicator to be made, in two words; 0, 0 where none is. */
  readonly context: { readonly high: number; readonly low: number };
  /** Ranks that have ended, ascending. */
  readonly lost: readonly number[];
}

export enum Kind {
  /** To the coordinator. `round` 0: what this rank wants; else the round in which it has accepted the outcome. */
  REPORT,
  PROPOSE,
  ACCEPT,
  /** The last message of a rank to another one. */
  DECIDE,
}

export interface Message {
  readonly kind: Kind;
  /** The round of a coordinator is its rank + 1. */
  readonly round: number;
  readonly outcome: Outcome;
}

/** What a rank has to say when it is asked. */
type Report = Pick<Message, 'round' | 'outcome'>;

/** What the state machine needs of its surroundings. */
export interface Surroundings {
  send(to: number, message: Message): void;
  /** Numbers that no other communicator has, asked for by a coordinator that proposes to shrink. */
  newContext(): Outcome['context'];
}

const NO_CONTEXT = { high: 0, low: 0 };

/** One agreement, on one rank. Call {@link begin} first, then {@link receive} and {@link lose} as things happen. */
export class Agreement {
  /** What was agreed; null until this rank knows it. */
  decision: Outcome | null = null;

  private readonly lost = new Set<number>();
  /** Ranks that have told their decision. */
  private readonly told = new Set<number>();
  /** What this rank would report. */
  private own: Report;
  /** Whom this rank has reported to last; -1: nobody. */
  private coordinator = -1;
  // Of a coordinator:
  private readonly reports = new Map<number, Report>();
  private readonly accepted = new Set<number>();
  private proposal: Outcome | null = null;

  constructor(
    private readonly size: number,
    private readonly rank: number,
    purpose: Purpose,
    value: number,
    private readonly surroundings: Surroundings,
  ) {
    this.own = { round: 0, outcome: { purpose, value, context: NO_CONTEXT, lost: [] } };
  }

  begin(): void {
    this.advance();
  }

  /** Nothing more comes from this rank: it has told its decision, or is lost. */
  isOver(peer: number): boolean {
    return this.told.has(peer) || this.lost.has(peer);
  }

  receive(from: number, { kind, round, outcome }: Message): void {
    if (kind === Kind.DECIDE) {
      this.told.add(from);
      this.decide(outcome);
    }
    if (this.decision !== null) return;
    if (kind === Kind.REPORT) this.reports.set(from, { round, outcome });
    if (kind === Kind.ACCEPT) this.accepted.add(from);
    if (kind === Kind.PROPOSE) {
      this.own = { round, outcome };
      this.surroundings.send(from, { kind: Kind.ACCEPT, round, outcome });
    }
    this.advance();
  }

  /** The peer has ended, and all that it has sent has been received. */
  lose(peer: number): void {
    this.lost.add(peer);
    this.advance();
  }

  private advance(): void {
    if (this.decision !== null) return;
    this.report();
    if (this.coordinator !== this.rank) return;
    if (this.proposal === null && this.living().every((peer) => this.reports.has(peer))) this.propose();
    if (this.proposal !== null && this.living().every((peer) => this.accepted.has(peer))) this.decide(this.proposal);
  }

  /** Tells each new coordinator once. */
  private report(): void {
    const coordinator = this.lowestLiving();
    if (coordinator === this.coordinator) return;
    this.coordinator = coordinator;
    if (this.own.round === 0) this.own = { round: 0, outcome: { ...this.own.outcome, lost: ascending(this.lost) } };
    if (coordinator === this.rank) this.reports.set(this.rank, this.own);
    else this.surroundings.send(coordinator, { kind: Kind.REPORT, ...this.own });
  }

  private propose(): void {
    let latest = this.own;
    for (const report of this.reports.values()) if (report.round > latest.round) latest = report;
    const outcome = latest.round > 0 ? latest.outcome : this.combined();
    const round = this.rank + 1;
    this.proposal = outcome;
    this.own = { round, outcome };
    this.accepted.add(this.rank);
    this.tellLiving({ kind: Kind.PROPOSE, round, outcome });
  }

  /** Of what all want. A rank that one of them has lost counts as lost, and what it wants does not count. */
  private combined(): Outcome {
    const lost = new Set(this.lost);
    for (const { outcome } of this.reports.values()) for (const rank of outcome.lost) lost.add(rank);
    const wishes = [...this.reports].filter(([rank]) => !lost.has(rank)).map(([, report]) => report.outcome);
    const { purpose: first } = this.own.outcome;
    const purpose = wishes.every(({ purpose }) => purpose === first) ? first : Purpose.MIXED;
    const value = wishes.reduce((all, wish) => all & wish.value, -1);
    const context = purpose === Purpose.SHRINK ? this.surroundings.newContext() : NO_CONTEXT;
    return { purpose, value, context, lost: ascending(lost) };
  }

  private decide(outcome: Outcome): void {
    if (this.decision !== null) return;
    this.decision = outcome;
    this.tellLiving({ kind: Kind.DECIDE, round: 0, outcome });
  }

  private tellLiving(message: Message): void {
    for (const peer of this.living()) if (peer !== this.rank) this.surroundings.send(peer, message);
  }

  private living(): number[] {
    return Array.from({ length: this.size }, (_, rank) => rank).filter((rank) => !this.lost.has(rank));
  }

  private lowestLiving(): number {
    for (let rank = 0; rank < this.rank; rank++) if (!this.lost.has(rank)) return rank;
    return this.rank;
  }
}

function ascending(ranks: Iterable<number>): number[] {
  return [...ranks].sort((a, b) => a - b);
}
