// The life of a conversation in one drawing: the window between floor and ceiling, summaries over the range
// they cover, facts until they are replaced, the epochs of the recorded turns. The x axis is the position in the log.

import { h, icon, replace, svg } from "./dom.js";
import { count, counted, day, moment, plain } from "./text.js";

const WINDOW_HEIGHT = 112;
const SEGMENT_HEIGHT = 15;
const PAST_HEIGHT = 7;
const FACT_STEP = 9;
const FACT_ROWS = 9;
const EPOCH_HEIGHT = 13;
const LANE_GAP = 30;
// At the right, for the names of floor and ceiling.
const LIMIT_WIDTH = 62;

export class TimelineChart {
  /** `turnAddress(id)` and `messageAddress(position)` are where clicks lead; `zoom(first, last)` loads a range. */
  constructor({ turnAddress, messageAddress, zoom }) {
    Object.assign(this, { turnAddress, messageAddress, zoom });
    this.drawing = h("div");
    this.tip = h("div", { class: "tip", hidden: true, "aria-hidden": "true" });
    this.reset = h("button", { class: "button plain", type: "button", hidden: true, onclick: () => this.zoom(null, null) }, icon("reset"), "Whole conversation");
    this.element = h("div", { class: "timeline" }, this.drawing, this.tip);
    this.observer = new ResizeObserver(() => this.width !== this.drawing.clientWidth && this.data && this.draw());
    this.observer.observe(this.element);
    this.drawing.addEventListener("pointermove", (event) => this.follow(event));
    this.drawing.addEventListener("pointerleave", () => this.leave());
    this.drawing.addEventListener("pointerdown", (event) => this.press(event));
    this.drawing.addEventListener("pointerup", (event) => this.release(event));
  }

  close() {
    this.observer.disconnect();
  }

  show(data, turns) {
    this.data = data;
    this.turns = turns;
    this.reset.hidden = data.first <= 1 && data.last >= data.head;
    this.draw();
  }

  x(position) {
    const { first, last } = this.data;
    return ((position - first + 0.5) / Math.max(1, last - first + 1)) * this.plot;
  }

  position(x) {
    const { first, last } = this.data;
    const found = Math.round((x / this.plot) * (last - first + 1) - 0.5 + first);
    return Math.max(first, Math.min(last, found));
  }

  draw() {
    this.width = this.drawing.clientWidth;
    if (!this.width) return;
    this.plot = this.width - (this.data.ceiling === null ? 0 : LIMIT_WIDTH);
    const parts = [];
    let y = 16;
    y = this.drawWindow(parts, y) + LANE_GAP;
    y = this.drawSegments(parts, y);
    y = this.drawFacts(parts, y);
    y = this.drawEpochs(parts, y);
    y = this.drawAxis(parts, y);
    this.cursor = svg("line", { class: "cursor", y1: 8, y2: y - 18, visibility: "hidden" });
    this.brush = svg("rect", { class: "brush", y: 8, height: y - 26, visibility: "hidden" });
    const hatch = svg(
      "pattern",
      { id: "hatch", width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
      svg("line", { class: "hatch-line", x1: 0, y1: 0, x2: 0, y2: 5 }),
    );
    const drawing = svg(
      "svg",
      { width: this.width, height: y, role: "group", "aria-label": this.describe() },
      svg("defs", {}, hatch),
      this.brush,
      parts,
      this.cursor,
    );
    replace(this.drawing, drawing);
  }

  describe() {
    const { data } = this;
    const segments = data.segments.filter((one) => one.state === "in force").length;
    return `Timeline of messages ${data.first} to ${data.last}: ${counted(segments, "summary segment")}, ${counted(data.facts.length, "fact")}, ${counted(this.turns.length, "recorded turn")}.`;
  }

  drawWindow(parts, top) {
    const { data } = this;
    const largest = Math.max(4, data.ceiling ?? 0, ...data.points.map((point) => point.window));
    const bottom = top + WINDOW_HEIGHT;
    const y = (messages) => bottom - (messages / (largest * 1.12)) * (WINDOW_HEIGHT - 6);
    parts.push(svg("text", { class: "lane", x: 0, y: top - 4 }, "Messages in the window"));
    parts.push(svg("line", { class: "grid", x1: 0, x2: this.plot, y1: bottom, y2: bottom }));
    if (data.floor !== null && data.ceiling !== null) {
      parts.push(svg("rect", { class: "band", x: 0, width: this.plot, y: y(data.ceiling), height: y(data.floor) - y(data.ceiling) }));
    }
    if (data.points.length) {
      let edge = "";
      let before = null;
      for (const point of data.points) {
        const at = this.x(point.position);
        edge += before === null ? `M${at.toFixed(1)} ${y(point.window).toFixed(1)}` : `L${at.toFixed(1)} ${y(point.window).toFixed(1)}`;
        before = at;
      }
      const start = this.x(data.points[0].position).toFixed(1);
      parts.push(svg("path", { class: "area", d: `${edge}L${before.toFixed(1)} ${bottom}L${start} ${bottom}Z` }));
      parts.push(svg("path", { class: "edge", d: edge }));
      if (data.points.length === 1) parts.push(svg("circle", { class: "single", cx: before, cy: y(data.points[0].window), r: 3.5 }));
    }
    for (const [name, value] of [["ceiling", data.ceiling], ["floor", data.floor]]) {
      if (value === null || value === undefined) continue;
      parts.push(svg("line", { class: "limit", x1: 0, x2: this.plot, y1: y(value), y2: y(value) }));
      parts.push(svg("text", { x: this.plot + 8, y: y(value) + 4 }, `${name} ${value}`));
    }
    if (isFailing(data) && data.last >= data.head) {
      const x = this.plot - 6;
      parts.push(svg("path", { class: "failure", d: `M${x - 6} ${top - 2}h12l-6 9z` }, svg("title", {}, describeFailure(data.work))));
    }
    return bottom;
  }

  drawSegments(parts, top) {
    const { data } = this;
    if (!data.segments.length) return top;
    const inForce = data.segments.filter((one) => one.state === "in force");
    const past = data.segments.filter((one) => one.state !== "in force");
    // Higher levels stand above; a level without segments takes no room.
    const levels = [...new Set(inForce.map((one) => one.level))].sort((one, other) => other - one);
    const step = SEGMENT_HEIGHT + 3;
    parts.push(svg("text", { class: "lane", x: 0, y: top - 8 }, "Summary"));
    for (const segment of past) this.drawSegment(parts, segment, top + levels.length * step, PAST_HEIGHT);
    for (const segment of inForce) this.drawSegment(parts, segment, top + levels.indexOf(segment.level) * step, SEGMENT_HEIGHT);
    return top + levels.length * step + (past.length ? PAST_HEIGHT : 0) + LANE_GAP;
  }

  drawSegment(parts, segment, y, height) {
    const start = Math.max(0, this.x(segment.first - 0.5));
    const end = Math.min(this.plot, this.x(segment.last + 0.5));
    const look = ["segment", `level-${Math.min(segment.level, 2)}`, segment.is_digest && "digest", segment.state !== "in force" && "past"];
    parts.push(
      svg(
        "rect",
        { class: look.filter(Boolean).join(" "), x: start + 0.5, y, width: Math.max(2, end - start - 1.5), height, rx: Math.min(3, height / 2) },
        svg("title", {}, describeSegment(segment)),
      ),
    );
  }

  drawFacts(parts, top) {
    const { data } = this;
    if (!data.facts.length) return top;
    const rows = [];
    const places = new Map();
    let hidden = data.facts_left_out;
    for (const fact of data.facts) {
      const start = Math.max(0, this.x(fact.position));
      // Of a fact that is done, when it ended is not always known.
      const until = fact.state === "holds" ? this.plot : fact.ended_position === null ? start + 14 : this.x(fact.ended_position);
      const end = Math.min(this.plot, Math.max(start + 8, until));
      let row = rows.findIndex((taken) => taken + 10 < start);
      if (row < 0) row = rows.length;
      if (row >= FACT_ROWS) {
        hidden += 1;
        continue;
      }
      rows[row] = end;
      places.set(fact.id, { fact, start, end, y: top + row * FACT_STEP });
    }
    parts.push(svg("text", { class: "lane", x: 0, y: top - 10 }, "Facts"));
    if (hidden) parts.push(svg("text", { x: this.plot, y: top - 10, "text-anchor": "end" }, `and ${count(hidden)} more`));
    for (const { fact, start, end, y } of places.values()) {
      const next = fact.replaced_by && places.get(fact.replaced_by);
      if (next && next.y !== y) {
        parts.push(svg("path", { class: "handover", d: `M${end} ${y}C${end + 8} ${y} ${next.start - 8} ${next.y} ${next.start} ${next.y}` }));
      }
      parts.push(
        svg(
          "g",
          {},
          svg("line", { class: fact.state === "holds" ? "fact" : "fact ended", x1: start, x2: end - 2, y1: y, y2: y }),
          fact.position >= data.first && svg("circle", { class: "fact-start", cx: start, cy: y, r: 3.5 }),
          svg("title", {}, plain(`${fact.id} ${fact.kind}: ${fact.text}`)),
        ),
      );
    }
    return top + rows.length * FACT_STEP + LANE_GAP - 6;
  }

  /** Series of turns whose requests share a prefix; where one began, the reason why the previous one ended. */
  drawEpochs(parts, top) {
    const { data } = this;
    const epochs = epochsOf(this.turns).filter((epoch) => epoch.last >= data.first && epoch.first <= data.last);
    if (!epochs.length) return top;
    parts.push(svg("text", { class: "lane", x: 0, y: top - 8 }, "Epochs"));
    for (const epoch of epochs) {
      const start = Math.max(0, this.x(epoch.first - 0.5));
      const end = Math.min(this.plot, this.x(epoch.last + 0.5));
      const width = Math.max(2, end - start - 1.5);
      const label = [epoch.number, ...epoch.reasons].join(" ");
      const text = label.length * 6.4 < width ? label : String(epoch.number).length * 8 < width ? epoch.number : null;
      parts.push(
        svg(
          "g",
          { class: "epoch" },
          svg("rect", { class: epoch.reasons.length ? "began" : "", x: start + 0.5, y: top, width, height: EPOCH_HEIGHT, rx: 3 }),
          text !== null && svg("text", { x: start + 5, y: top + EPOCH_HEIGHT - 3 }, text),
          svg("title", {}, describeEpoch(epoch)),
        ),
      );
    }
    return top + EPOCH_HEIGHT + LANE_GAP;
  }

  drawAxis(parts, top) {
    const { data } = this;
    const y = top;
    parts.push(svg("text", { class: "lane", x: 0, y: y - 12 }, this.turns.length ? "Recorded turns" : "Position"));
    parts.push(svg("line", { class: "limit", x1: 0, x2: this.plot, y1: y, y2: y }));
    for (const position of data.pins) {
      const x = this.x(position);
      parts.push(svg("path", { class: "pinned", d: `M${x} ${y - 7}l4 4l-4 4l-4 -4z` }, svg("title", {}, `Message ${count(position)} is pinned`)));
    }
    let shown = -20;
    for (const turn of this.turns) {
      if (turn.position === null || turn.position < data.first || turn.position > data.last) continue;
      const x = this.x(turn.position);
      // Dots that would cover each other are left out here; the list below has all turns.
      if (x - shown < 9) continue;
      shown = x;
      parts.push(
        svg(
          "a",
          { href: this.turnAddress(turn.number ?? turn.id), "aria-label": `Turn ${turn.number ?? ""} at message ${turn.position}${turn.epoch === null ? "" : `, epoch ${turn.epoch}`}` },
          svg("circle", { cx: x, cy: y, r: 10, fill: "transparent" }),
          svg("circle", { class: "turn", cx: x, cy: y, r: 4 }),
        ),
      );
    }
    const step = niceStep((data.last - data.first + 1) / Math.max(2, this.plot / 90));
    for (let at = Math.ceil(data.first / step) * step; at <= data.last; at += step) {
      const x = this.x(at);
      if (x < 14 || x > this.plot - 14) continue;
      parts.push(svg("text", { x, y: y + 22, "text-anchor": "middle" }, count(at)));
    }
    const [start, end] = [data.points[0], data.points.at(-1)];
    if (start) parts.push(svg("text", { x: 0, y: y + 40 }, day(start.at)));
    if (end && day(end.at) !== day(start.at)) parts.push(svg("text", { x: this.plot, y: y + 40, "text-anchor": "end" }, day(end.at)));
    return y + 46;
  }

  nearest(position) {
    const { points } = this.data;
    let low = 0;
    let high = points.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (points[middle].position < position) low = middle + 1;
      else high = middle;
    }
    const before = points[Math.max(0, low - 1)];
    return before && Math.abs(before.position - position) < Math.abs(points[low].position - position) ? before : points[low];
  }

  follow(event) {
    if (!this.data?.points.length || !this.cursor) return;
    const box = this.drawing.getBoundingClientRect();
    const x = Math.max(0, Math.min(this.plot, event.clientX - box.left));
    if (this.pressed !== undefined && Math.abs(x - this.pressed) > 4) {
      this.brush.setAttribute("x", Math.min(x, this.pressed));
      this.brush.setAttribute("width", Math.abs(x - this.pressed));
      this.brush.setAttribute("visibility", "visible");
    }
    const point = this.nearest(this.position(x));
    const at = this.x(point.position);
    this.cursor.setAttribute("x1", at);
    this.cursor.setAttribute("x2", at);
    this.cursor.setAttribute("visibility", "visible");
    replace(
      this.tip,
      h("b", {}, `Message ${count(point.position)}`),
      h("p", {}, moment(point.at)),
      h("p", {}, `${counted(point.window, "message")} in the window`),
      point.covered > 0 && h("p", {}, `summary up to message ${count(point.covered)}`),
    );
    this.tip.hidden = false;
    const room = this.element.clientWidth - this.tip.offsetWidth - 8;
    const place = at + 18 + 14;
    this.tip.style.setProperty("left", `${place > room ? Math.max(4, at + 18 - 14 - this.tip.offsetWidth) : place}px`);
  }

  leave() {
    this.pressed = undefined;
    this.tip.hidden = true;
    this.cursor?.setAttribute("visibility", "hidden");
    this.brush?.setAttribute("visibility", "hidden");
  }

  press(event) {
    if (event.button !== 0 || event.target.closest("a")) return;
    this.pressed = event.clientX - this.drawing.getBoundingClientRect().left;
  }

  release(event) {
    if (this.pressed === undefined) return;
    const start = this.pressed;
    const end = event.clientX - this.drawing.getBoundingClientRect().left;
    this.leave();
    if (Math.abs(end - start) <= 4) {
      location.hash = this.messageAddress(this.position(end));
      return;
    }
    const [first, last] = [this.position(Math.min(start, end)), this.position(Math.max(start, end))];
    if (last - first >= 4) this.zoom(first, last);
  }

  /** What the marks mean; only those that the drawing has. */
  legend() {
    const { data } = this;
    const entry = (tint, text, look = "") => h("span", {}, h("i", { class: look, style: { "--tint": `var(${tint})` } }), text);
    return h(
      "div",
      { class: "legend" },
      data.segments.some((one) => one.state === "in force" && !one.is_digest) && entry("--section-2", "summary segment"),
      data.segments.some((one) => one.is_digest) && entry("--section-2", "digest", "hatched"),
      data.segments.some((one) => one.state !== "in force") && entry("--section-2", "former segment", "faint"),
      data.facts.some((one) => one.state === "holds") && entry("--section-4", "current fact"),
      data.facts.some((one) => one.state !== "holds") && entry("--section-4", "ended fact", "faint"),
      isFailing(data) && data.last >= data.head && entry("--bad", "failed summary", "triangle"),
      data.pins.length > 0 && entry("--section-6", "pin", "diamond"),
      this.turns.some((turn) => turn.epoch !== null) && entry("--section-5", "epoch: requests with a shared prefix"),
      this.turns.length > 0 && entry("--accent", "recorded turn", "round"),
    );
  }
}

function newest(number, noun) {
  return number === 1 ? `The last ${noun}` : `The last ${counted(number, noun)}`;
}

export function isFailing(data) {
  return data.work !== null && data.work.failures + data.work.refusals > 0;
}

export function describeFailure(work) {
  const parts = [];
  if (work.failures) parts.push(`${newest(work.failures, "call")} of the summary model failed`);
  if (work.refusals) parts.push(`${newest(work.refusals, "answer")} of the summary model could not be used`);
  return parts.join("; ");
}

/** The turns of each epoch, one after the other; turns of 0.2 have none. */
function epochsOf(turns) {
  const found = [];
  for (const turn of turns) {
    if (turn.epoch === null || turn.position === null) continue;
    const last = found.at(-1);
    if (last && last.number === turn.epoch && !turn.end_reasons.length) {
      last.last = turn.position;
      last.turns += 1;
    } else {
      found.push({ number: turn.epoch, first: turn.position, last: turn.position, turns: 1, reasons: turn.end_reasons });
    }
  }
  return found;
}

function describeEpoch(epoch) {
  const ended = epoch.reasons.length ? `; the previous epoch ended: ${epoch.reasons.join(", ")}` : "";
  return `Epoch ${epoch.number}, ${counted(epoch.turns, "recorded turn")} from message ${count(epoch.first)} on${ended}`;
}

function describeSegment(segment) {
  const kind = segment.is_digest ? "Digest" : "Summary";
  const state = { "in force": "", "taken back": ", undone" }[segment.state] ?? `, ${segment.state}`;
  return `${kind} of messages ${count(segment.first)} to ${count(segment.last)}, level ${segment.level}, ${counted(segment.tokens ?? 0, "token")}${state}`;
}

function niceStep(rough) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, rough)));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
}
