// Text from a database, shown as text: what would be invisible, or would move its neighbours, is named.

import { h } from "./dom.js";

// Controls except tab and newline, marks of direction, joiners and other characters without a shape.
const INVISIBLE =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|\p{Cs}|[\u{e0000}-\u{e0fff}]/gu;

const NAMES = {
  0x1b: "ESC",
  0x00: "NUL",
  0x07: "BEL",
  0x08: "BS",
  0x0d: "CR",
  0x7f: "DEL",
  0xad: "SHY",
  0x61c: "ALM",
  0x200b: "ZWSP",
  0x200e: "LRM",
  0x200f: "RLM",
  0x202a: "LRE",
  0x202b: "RLE",
  0x202c: "PDF",
  0x202d: "LRO",
  0x202e: "RLO",
  0x2066: "LRI",
  0x2067: "RLI",
  0x2068: "FSI",
  0x2069: "PDI",
  0xfeff: "BOM",
};

function nameOf(character) {
  const code = character.codePointAt(0);
  return NAMES[code] ?? `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}

/** A text on one line, for names and titles. */
export function plain(text) {
  return String(text ?? "").replace(/\r\n/g, "\n").replace(INVISIBLE, (one) => `\u27e8${nameOf(one)}\u27e9`);
}

/** A text as nodes: invisible characters as small labels, and what was searched for marked. */
export function visible(text, terms = []) {
  const nodes = [];
  let from = 0;
  const source = String(text ?? "").replace(/\r\n/g, "\n");
  for (const found of source.matchAll(INVISIBLE)) {
    nodes.push(...marked(source.slice(from, found.index), terms));
    nodes.push(h("span", { class: "control", title: "an invisible character" }, nameOf(found[0])));
    from = found.index + found[0].length;
  }
  nodes.push(...marked(source.slice(from), terms));
  return nodes;
}

function marked(text, terms) {
  const words = terms.filter((term) => term.length > 1).map((term) => term.toLowerCase());
  if (!text || !words.length) return text ? [text] : [];
  const lower = text.toLowerCase();
  // Lower case has another length in a few languages; then nothing is marked.
  if (lower.length !== text.length) return [text];
  const nodes = [];
  let from = 0;
  while (from < text.length) {
    let at = -1;
    let length = 0;
    for (const word of words) {
      const here = lower.indexOf(word, from);
      if (here >= 0 && (at < 0 || here < at || (here === at && word.length > length))) {
        at = here;
        length = word.length;
      }
    }
    if (at < 0) break;
    if (at > from) nodes.push(text.slice(from, at));
    nodes.push(h("mark", {}, text.slice(at, at + length)));
    from = at + length;
  }
  if (from < text.length) nodes.push(text.slice(from));
  return nodes;
}

const NUMBERS = new Intl.NumberFormat("en");
const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export function count(number) {
  return number === null || number === undefined ? "\u2013" : NUMBERS.format(number);
}

export function short(number) {
  return number < 10000 ? NUMBERS.format(number) : COMPACT.format(number);
}

/** "1 message", "2 messages". */
export function counted(number, noun, plural = `${noun}s`) {
  return `${count(number)} ${number === 1 ? noun : plural}`;
}

/** A sentence begins with a capital letter. */
export function capital(text) {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

/** A change with its sign; a real minus, not a hyphen. */
export function signed(number) {
  if (!number) return "\u00b10";
  return number > 0 ? `+${count(number)}` : `\u2212${count(-number)}`;
}

export function percent(share) {
  return `${Math.round(share * 100)}\u202f%`;
}

/** Money, with as many digits as a small amount needs. */
export function money(amount) {
  if (amount === null || amount === undefined) return "\u2013";
  if (amount === 0) return "$0";
  if (amount >= 1) return `$${amount.toFixed(2)}`;
  const digits = Math.min(6, Math.max(3, 1 - Math.floor(Math.log10(amount))));
  return `$${amount.toFixed(digits)}`;
}

export function milliseconds(value) {
  if (value === null || value === undefined) return "\u2013";
  if (value >= 1000) return `${(value / 1000).toFixed(1)} s`;
  return value >= 10 ? `${Math.round(value)} ms` : `${value.toFixed(1)} ms`;
}

const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const PRECISE = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

/** A moment as an element: the day and the minute, and all of it on hover. */
export function moment(iso, { precise = false } = {}) {
  if (!iso) return h("span", {}, "\u2013");
  const when = new Date(iso);
  const clock = (precise ? PRECISE : CLOCK).format(when);
  return h("time", { datetime: iso, title: iso }, `${DAY.format(when)}, ${clock}`);
}

export function day(iso) {
  return iso ? DAY.format(new Date(iso)) : "";
}

/** How long ago, in one word. */
export function ago(iso, now = Date.now()) {
  if (!iso) return "";
  const seconds = Math.max(0, (now - new Date(iso).getTime()) / 1000);
  if (seconds < 60) return "now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
  if (seconds < 86400 * 14) return `${Math.floor(seconds / 86400)} d`;
  return DAY.format(new Date(iso));
}
