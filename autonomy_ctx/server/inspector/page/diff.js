// Two turns compared: section by section, message by message, and word by word where a text changed.

import { h, link, replace } from "./dom.js";
import { foldedText, humanName } from "./message.js";
import { address } from "./route.js";
import { keyOf } from "./source.js";
import { capital, count, counted, percent, plain, signed, visible } from "./text.js";

// Word by word is quadratic; longer texts are shown one above the other.
const MAX_WORDS = 3000;

export async function diffView({ source }, parameters) {
  const key = keyOf(parameters);
  const turns = (await source.get("conversation", key)).turns.filter((turn) => turn.has_context);
  const { first, second } = parameters;
  const diff = await source.get("diff", { ...key, before: first, after: second });
  const conversation = address("conversation", key);
  const go = (before, after) => (location.hash = address("diff", { ...key, first: before, second: after }));
  const pick = (label, value, change) => {
    const select = h("select", { onchange: () => change(select.value) }, turns.map((turn) => h("option", { value: turn.id, selected: turn.id === value }, turnLabel(turn))));
    return h("label", {}, label, select);
  };
  const element = h(
    "article",
    {},
    h("nav", { class: "crumbs", "aria-label": "Breadcrumb" }, h("span", {}, plain(key.agent || "no agent")), "/", h("span", {}, plain(key.scope)), "/", link(conversation, {}, plain(key.conversation))),
    h("div", { class: "heading" }, h("h1", {}, "Compare two turns")),
    h("div", { class: "pick" }, pick("From", first, (value) => go(value, second)), pick("to", second, (value) => go(first, value))),
    figures(diff),
    h(
      "div",
      { class: "columns" },
      h("div", { class: "messages" }, h("h2", {}, "Messages"), messageDifferences(diff)),
      h("aside", { class: "aside", tabindex: 0, "aria-label": "What changed, and the sections" }, changes(diff), sections(diff)),
    ),
  );
  const step = (by) => {
    const at = turns.findIndex((turn) => turn.id === second) + by;
    if (turns[at] && turns[at - 1]) go(turns[at - 1].id, turns[at].id);
  };
  return {
    title: `Compare two turns of ${plain(key.conversation)}`,
    element,
    back: address("turn", { ...key, turn: second }),
    keys: { ArrowLeft: () => step(-1), ArrowRight: () => step(1) },
    items: () => [...element.querySelectorAll(".entry")],
  };
}

function turnLabel(turn) {
  const text = plain(turn.text).slice(0, 44);
  return `${turn.number ?? ""}  ${text || turn.id}`;
}

function figures(diff) {
  const share = diff.tokens_after ? diff.shared_tokens / diff.tokens_after : 0;
  const figure = (label, value, note) => h("div", {}, h("dt", {}, label), h("dd", {}, value, note && h("small", {}, note)));
  const number = (change) => diff.messages.filter((one) => one.change === change).length;
  return h(
    "dl",
    { class: "figures" },
    figure("Tokens", `${count(diff.tokens_before)} \u2192 ${count(diff.tokens_after)}`, signed(diff.tokens_after - diff.tokens_before)),
    figure("Shared prefix", percent(share), `${counted(diff.shared_messages, "message")}, ${counted(diff.shared_tokens, "token")}`),
    figure("Added", count(number("added")), number("added") === 1 ? "message" : "messages"),
    figure("Removed", count(number("removed"))),
    figure("Changed", count(number("changed"))),
  );
}

function changes(diff) {
  return h(
    "section",
    { class: "card" },
    h("header", {}, h("h2", {}, "What changed")),
    h("div", { class: "body" }, diff.changes.length ? h("ul", { class: "changes" }, diff.changes.map((line) => h("li", {}, visible(capital(line))))) : h("p", { class: "quiet" }, "Nothing changed.")),
  );
}

function sections(diff) {
  return h(
    "section",
    { class: "card" },
    h("header", {}, h("h2", {}, "Sections"), h("span", { class: "quiet small" }, "tokens")),
    h(
      "div",
      { class: "body" },
      h(
        "table",
        { class: "compare" },
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "section"), h("th", { scope: "col", class: "number" }, "before"), h("th", { scope: "col", class: "number" }, "after"))),
        h(
          "tbody",
          {},
          diff.sections.map((section) =>
            h(
              "tr",
              { class: section.change === "same" ? "quiet" : "" },
              h("th", { scope: "row" }, humanName(section.name)),
              h("td", { class: "number" }, count(section.tokens_before)),
              h("td", { class: "number" }, count(section.tokens_after)),
            ),
          ),
        ),
      ),
    ),
  );
}

const SIGNS = { added: "+", removed: "\u2212", changed: "~" };

function messageDifferences(diff) {
  const box = h("div", { class: "difference" });
  let same = [];
  const flush = () => {
    if (same.length) box.append(sameEntry(same));
    same = [];
  };
  for (const message of diff.messages) {
    if (message.change === "same") {
      same.push(message);
      continue;
    }
    flush();
    box.append(
      h(
        "div",
        { class: `entry ${message.change}`, tabindex: -1 },
        h("span", { class: "sign", "aria-label": message.change, role: "img" }, SIGNS[message.change]),
        h(
          "div",
          {},
          h(
            "div",
            { class: "meta" },
            h("b", {}, message.role),
            h("span", {}, humanName(message.section)),
            message.position !== null && h("span", { class: "number" }, `#${count(message.position)}`),
            h("span", { class: "number" }, tokenChange(message)),
          ),
          message.change === "changed" ? textDifference(message.text_before ?? "", message.text_after ?? "") : foldedText(message.text_after ?? message.text_before ?? ""),
        ),
      ),
    );
  }
  flush();
  return box;
}

function tokenChange(message) {
  if (message.change !== "changed") return counted(message.tokens_after ?? message.tokens_before, "token");
  return `${count(message.tokens_before)} \u2192 ${counted(message.tokens_after, "token")}`;
}

function sameEntry(messages) {
  const range = messages.filter((one) => one.position !== null).map((one) => one.position);
  const where = range.length > 1 ? `, messages ${count(range[0])} to ${count(range.at(-1))}` : "";
  const body = h("div", {}, `${counted(messages.length, "message")} unchanged${where} `);
  const open = h("button", { class: "unfold", type: "button" }, "Show");
  open.addEventListener("click", () => {
    replace(body, messages.map((message) => h("div", {}, h("div", { class: "meta" }, h("b", {}, message.role), h("span", {}, humanName(message.section))), foldedText(message.text_after ?? ""))));
  });
  body.append(open);
  return h("div", { class: "entry same", tabindex: -1 }, h("span", { class: "sign", "aria-hidden": "true" }, "="), body);
}

function textDifference(before, after) {
  const [old, young] = [words(before), words(after)];
  const head = sameStart(old, young);
  const tail = sameStart(old.slice(head).reverse(), young.slice(head).reverse());
  const [removed, added] = [old.slice(head, old.length - tail), young.slice(head, young.length - tail)];
  const body = h("div", { class: "text", dir: "auto" });
  body.append(...visible(elide(old.slice(0, head).join(""), "end")));
  if (removed.length * added.length > MAX_WORDS ** 2) {
    body.append(h("del", {}, visible(removed.join(""))), h("ins", {}, visible(added.join(""))));
  } else for (const [tag, text] of wordDifference(removed, added)) body.append(tag ? h(tag, {}, visible(text)) : h("span", {}, visible(text)));
  body.append(...visible(elide(old.slice(old.length - tail).join(""), "start")));
  return body;
}

function words(text) {
  return text.match(/\s+|[^\s]+/g) ?? [];
}

function sameStart(one, other) {
  let at = 0;
  while (at < one.length && at < other.length && one[at] === other[at]) at += 1;
  return at;
}

// A long part that is the same is shown only where it meets what changed.
const AROUND = 220;

function elide(text, side) {
  if (text.length <= 2 * AROUND) return text;
  return side === "end" ? `\u2026 ${text.slice(-AROUND)}` : `${text.slice(0, AROUND)} \u2026`;
}

/** The longest common subsequence of words, as runs of `del`, `ins` and what is in both. */
function wordDifference(old, young) {
  const width = young.length + 1;
  const lengths = new Uint16Array((old.length + 1) * width);
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = young.length - 1; j >= 0; j -= 1) {
      lengths[i * width + j] = old[i] === young[j] ? lengths[(i + 1) * width + j + 1] + 1 : Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
    }
  }
  const runs = [];
  const add = (tag, word) => {
    const last = runs.at(-1);
    if (last && last[0] === tag) last[1] += word;
    else runs.push([tag, word]);
  };
  let [i, j] = [0, 0];
  while (i < old.length || j < young.length) {
    if (i < old.length && j < young.length && old[i] === young[j]) {
      add("", old[i]);
      i += 1;
      j += 1;
    } else if (i < old.length && (j === young.length || lengths[(i + 1) * width + j] >= lengths[i * width + j + 1])) {
      add("del", old[i]);
      i += 1;
    } else {
      add("ins", young[j]);
      j += 1;
    }
  }
  return runs;
}
