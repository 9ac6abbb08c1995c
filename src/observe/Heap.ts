/** Binary min-heap; equal keys leave in the order they came, so that a schedule is reproducible. */
export class Heap<Item> {
  readonly #keyOf: (item: Item) => number;
  readonly #items: { readonly item: Item; readonly key: number; readonly order: number }[] = [];
  #order = 0;

  constructor(keyOf: (item: Item) => number) {
    this.#keyOf = keyOf;
  }

  get size(): number {
    return this.#items.length;
  }

  peek(): Item | null {
    return this.#items[0]?.item ?? null;
  }

  push(item: Item): void {
    this.#items.push({ item, key: this.#keyOf(item), order: this.#order++ });
    for (let at = this.#items.length - 1; at > 0; ) {
      const parent = (at - 1) >> 1;
      if (!this.#before(at, parent)) break;
      this.#swap(at, parent);
      at = parent;
    }
  }

  pop(): Item | null {
    const top = this.#items[0];
    if (top === undefined) return null;
    const last = this.#items.pop()!;
    if (this.#items.length > 0) {
      this.#items[0] = last;
      this.#sink();
    }
    return top.item;
  }

  /** Drops every item that `keep` refuses, in time proportional to what is held; the order of the others stays. */
  retain(keep: (item: Item) => boolean): void {
    let kept = 0;
    for (const entry of this.#items) if (keep(entry.item)) this.#items[kept++] = entry;
    this.#items.length = kept;
    for (let at = (kept >> 1) - 1; at >= 0; at--) this.#sink(at);
  }

  #sink(from = 0): void {
    for (let at = from; ; ) {
      let least = at;
      for (const child of [2 * at + 1, 2 * at + 2]) if (child < this.#items.length && this.#before(child, least)) least = child;
      if (least === at) return;
      this.#swap(at, least);
      at = least;
    }
  }

  #before(a: number, b: number): boolean {
    const first = this.#items[a]!;
    const second = this.#items[b]!;
    return first.key < second.key || (first.key === second.key && first.order < second.order);
  }

  #swap(a: number, b: number): void {
    const item = this.#items[a]!;
    this.#items[a] = this.#items[b]!;
    this.#items[b] = item;
  }
}
