/** Schedules of some of the ranks as parts of a schedule of all. */
import { decodeSchedule, type Role, type Schedule, type ScheduleElement } from './schedule.js';

/** Where in the memory of the whole a buffer of the part begins. */
export interface Place {
  readonly role: Role;
  readonly offset: number;
}

export interface Part {
  /** The rank behind each rank of the part. */
  readonly ranks: readonly number[];
  /** Where its buffers are, by role: send, receive, temp. Those that it does not use can be anywhere. */
  readonly places: readonly [send: Place, receive: Place, temp: Place];
}

/** Appends the rounds of a part, in rounds of their own. */
export function appendPart(schedule: Schedule, part: Schedule, { ranks, places }: Part): Schedule {
  const at = (role: Role, offset: number): [Role, number] => [places[role].role, places[role].offset + offset];
  const append = (element: ScheduleElement): void => {
    if (element.kind === 'send' || element.kind === 'recv') {
      schedule[element.kind](ranks[element.peer], ...at(element.role, element.offset), element.bytes);
      return;
    }
    const source = at(element.sourceRole, element.sourceOffset);
    const target = at(element.targetRole, element.targetOffset);
    if (element.kind === 'copy') schedule.copy(...source, ...target, element.bytes);
    else if (element.kind === 'strided') schedule.strided(...source, ...target, element.blockBytes, element.dimensions);
    else schedule.reduce(element.operator, element.type, ...source, ...target, element.bytes, element.order);
  };
  schedule.round();
  for (const round of decodeSchedule(part.encode()).rounds) {
    round.forEach(append);
    schedule.round();
  }
  return schedule;
}
