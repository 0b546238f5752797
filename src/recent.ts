/** How many are kept: most programs repeat one call, or take turns with a few. */
const MAX_RECENT = 4;

/** The last things that were added. */
export class Recent<Item> {
  /** In no order. */
  readonly items: Item[] = [];
  /** The one that makes room for the next. */
  private oldest = 0;

  /** What makes room for it; undefined: nothing has to. */
  add(item: Item): Item | undefined {
    const makesRoom = this.items[this.oldest] as Item | undefined;
    this.items[this.oldest] = item;
    this.oldest = (this.oldest + 1) % MAX_RECENT;
    return makesRoom;
  }

  clear(): void {
    this.items.length = 0;
    this.oldest = 0;
  }
}
