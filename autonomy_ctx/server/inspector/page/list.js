// A list of any length whose rows exist only while they are in sight.
//
// Rows have one height, so the place of row 80,000 is a product, not a measurement. A row that is unfolded
// is taller; the few of them are kept in a map.

import { h } from "./dom.js";

const MARGIN_ROWS = 12;

export class WindowedList {
  /**
   * `row(index)` makes a row and returns its element; `load(first, last)` is asked for rows that come into
   * sight, and `redraw` shows them once they are there.
   */
  constructor({ length, rowHeight, row, load, label }) {
    Object.assign(this, { length, rowHeight, row, load });
    this.tall = new Map();
    this.rows = new Map();
    this.element = h("div", { class: "window", role: "list", "aria-label": label });
    this.onScroll = () => {
      if (this.frame) return;
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        this.draw();
      });
    };
    addEventListener("scroll", this.onScroll, { passive: true });
    addEventListener("resize", this.onScroll, { passive: true });
    this.resize(length);
  }

  close() {
    removeEventListener("scroll", this.onScroll);
    removeEventListener("resize", this.onScroll);
    cancelAnimationFrame(this.frame);
  }

  resize(length) {
    this.length = length;
    this.element.style.setProperty("height", `${this.offset(length)}px`);
  }

  /** Where a row begins, in pixels from the top of the list. */
  offset(index) {
    let extra = 0;
    for (const [at, height] of this.tall) if (at < index) extra += height - this.rowHeight;
    return index * this.rowHeight + extra;
  }

  /** The row at a height. */
  indexAt(offset) {
    let low = 0;
    let high = Math.max(0, this.length - 1);
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (this.offset(middle) <= offset) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  draw() {
    if (!this.element.isConnected) return;
    const top = this.element.getBoundingClientRect().top;
    const first = Math.max(0, this.indexAt(-top) - MARGIN_ROWS);
    const last = Math.min(this.length - 1, this.indexAt(innerHeight - top) + MARGIN_ROWS);
    for (const [index, element] of this.rows) {
      if (index < first || index > last) {
        element.remove();
        this.rows.delete(index);
      }
    }
    if (last < first) return;
    for (let index = first; index <= last; index += 1) {
      if (!this.rows.has(index)) this.add(index);
      this.rows.get(index).style.setProperty("transform", `translateY(${this.offset(index)}px)`);
    }
    this.load(first, last);
  }

  add(index) {
    const element = this.row(index);
    element.classList.add("item");
    element.setAttribute("role", "listitem");
    element.setAttribute("aria-setsize", this.length);
    element.setAttribute("aria-posinset", index + 1);
    const next = this.rows.get(index + 1);
    // Rows stand in the document in their order, so that Tab goes down.
    if (next) next.before(element);
    else {
      let before = null;
      for (const [at, one] of this.rows) if (at < index && (before === null || at > before[0])) before = [at, one];
      if (before) before[1].after(element);
      else this.element.prepend(element);
    }
    this.rows.set(index, element);
  }

  /** Make rows anew, such as those that have arrived. */
  redraw(first, last) {
    for (const [index, old] of [...this.rows]) {
      if (index < first || index > last) continue;
      const hadFocus = old.contains(document.activeElement);
      this.rows.delete(index);
      old.remove();
      this.add(index);
      if (hadFocus) this.rows.get(index).querySelector("button")?.focus({ preventScroll: true });
    }
    this.draw();
    this.focusWanted();
  }

  /** Say how tall an unfolded row is; null folds it. */
  setHeight(index, height) {
    if (height === null) this.tall.delete(index);
    else this.tall.set(index, height);
    this.resize(this.length);
    this.draw();
  }

  /** Bring a row into sight, below what sticks to the top. */
  reveal(index, { focus = false } = {}) {
    const top = this.element.getBoundingClientRect().top + scrollY;
    scrollTo({ top: top + this.offset(index) - innerHeight / 3, behavior: "instant" });
    this.draw();
    // A row that is not there yet gets the focus when it is.
    this.wanted = focus ? index : null;
    this.focusWanted();
  }

  focusWanted() {
    const button = this.rows.get(this.wanted)?.querySelector("button:not([disabled])");
    if (!button) return;
    button.focus({ preventScroll: true });
    this.wanted = null;
  }
}
