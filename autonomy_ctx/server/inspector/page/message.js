// One message, wherever it is shown.

import { append, h, icon, replace } from "./dom.js";
import { capital, count, counted, moment, plain, visible } from "./text.js";

// From here on a text is folded at first.
const LONG_CHARACTERS = 900;
const LONG_LINES = 12;

const KNOWN_TINTS = {
  system_instructions: 0,
  framework_instructions: 1,
  summary: 2,
  conversation_history: 3,
  recall: 4,
  knowledge: 5,
  direct_messages: 6,
};
const FREE_TINTS = [7, 4, 5, 6, 1, 0];

/** A colour for each section of a context: known ones always have the same, others get what is left. */
export function tintsOf(names) {
  const tints = new Map([["summary", "var(--section-2)"]]);
  const taken = new Set(names.map((name) => KNOWN_TINTS[name]));
  const free = FREE_TINTS.filter((number) => !taken.has(number));
  let next = 0;
  for (const name of names) {
    if (tints.has(name)) continue;
    const number = KNOWN_TINTS[name] ?? (free.length ? free[next++ % free.length] : 7);
    tints.set(name, `var(--section-${number})`);
  }
  return tints;
}

export function humanName(name) {
  return plain(name).replaceAll("_", " ");
}

/** A text that is folded while it is long. */
export function foldedText(text, { terms = [], more = null } = {}) {
  const body = h("div", { class: "text", dir: "auto" }, visible(text, terms));
  const isLong = text.length > LONG_CHARACTERS || text.split("\n", LONG_LINES + 1).length > LONG_LINES;
  if (!isLong && !more) return body;
  if (isLong) body.classList.add("clamped");
  const label = () => (body.classList.contains("clamped") ? "Show all" : "Show less");
  const button = h("button", { class: "unfold", type: "button", "aria-expanded": "false" }, isLong ? label() : "Show the whole message");
  button.addEventListener("click", async () => {
    if (more) {
      const whole = await more();
      more = null;
      replace(body, visible(whole, terms));
      body.classList.add("clamped");
    }
    body.classList.toggle("clamped");
    button.setAttribute("aria-expanded", String(!body.classList.contains("clamped")));
    button.textContent = label();
  });
  return h("div", {}, body, button);
}

/** What a message says: its text, the calls that it makes, images and thoughts by their names. */
export function messageBody(message, options = {}) {
  const parts = [];
  for (const part of message.parts) {
    const label = part.kind === "image" ? "image" : "thinking";
    if (part.kind === "image") parts.push(h("span", { class: "tag part" }, `${label}: ${plain(part.text)}`));
    else parts.push(h("div", { class: "quiet" }, foldedText(part.text, options)));
  }
  if (message.text) parts.push(foldedText(message.text, options));
  for (const call of message.tool_calls) {
    parts.push(h("div", { class: "call", dir: "auto" }, h("b", {}, visible(call.name)), "(", visible(call.arguments), ")"));
  }
  if (!parts.length) parts.push(h("div", { class: "text quiet" }, "no text"));
  return parts;
}

/** The role of a message and, of a tool, its name. */
export function roleOf(message) {
  const role = capital(message.role);
  return message.name ? `${role} ${plain(message.name)}` : role;
}

/** The parts of a summary, each with the messages that it stands for. */
export function summaryBody(message, readOriginals) {
  const parts = message.segments.map((segment) => segmentBody(segment, readOriginals));
  if (message.facts) {
    parts.push(h("div", { class: "segment-text" }, h("div", { class: "meta quiet" }, "Current facts"), h("div", { class: "text", dir: "auto" }, visible(message.facts.replace(/^\[What holds now\]\n/, "")))));
  }
  return parts;
}

export function segmentBody(segment, readOriginals, extra = []) {
  const size = segment.last - segment.first + 1;
  const originals = h("div", { hidden: true });
  const button = h("button", { class: "unfold", type: "button", "aria-expanded": "false" }, `Show the ${counted(size, "original")}`);
  let isRead = false;
  button.addEventListener("click", async () => {
    const open = originals.hidden;
    originals.hidden = !open;
    button.setAttribute("aria-expanded", String(open));
    button.textContent = open ? "Hide the originals" : `Show the ${counted(size, "original")}`;
    if (!open || isRead) return;
    isRead = true;
    try {
      await fillOriginals(originals, segment, readOriginals);
    } catch (error) {
      isRead = false;
      replace(originals, h("p", { class: "notice bad" }, icon("warning"), error.message));
    }
  });
  return h(
    "div",
    { class: "segment-text" },
    h(
      "div",
      { class: "row wrap meta quiet" },
      `Messages ${count(segment.first)} to ${count(segment.last)}`,
      segment.provisional && h("span", { class: "tag warn" }, "digest"),
      extra,
    ),
    foldedText(segment.text),
    button,
    originals,
  );
}

// Of a segment over thousands of messages so many are read at a time.
const ORIGINALS_STEP = 100;

async function fillOriginals(holder, segment, readOriginals) {
  const box = h("div", { class: "originals" });
  replace(holder, box);
  let after = segment.first - 1;
  const readOn = async () => {
    const before = Math.min(segment.last, after + ORIGINALS_STEP) + 1;
    const messages = await readOriginals(after, before);
    append(box, messages.map(originalLine));
    after = before - 1;
    if (after < segment.last) {
      const more = h("button", { class: "unfold", type: "button" }, `Show ${counted(Math.min(ORIGINALS_STEP, segment.last - after), "more original")}`);
      more.addEventListener("click", async () => {
        more.remove();
        await readOn();
      });
      holder.append(more);
    }
  };
  await readOn();
  if (!box.childElementCount) replace(holder, h("p", { class: "quiet" }, "These messages have been deleted."));
}

function originalLine(message) {
  return h(
    "div",
    { class: "line" },
    h("span", { class: "quiet number" }, count(message.position)),
    h("span", { class: `role ${message.role}` }, message.role),
    h("div", {}, messageBody(message)),
  );
}

export function createdAt(message) {
  return moment(message.created_at, { precise: true });
}
