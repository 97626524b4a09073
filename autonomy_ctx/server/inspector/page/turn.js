// One turn: what the model was shown, section by section and message by message.

import { h, icon, link, replace } from "./dom.js";
import { humanName, messageBody, roleOf, summaryBody, tintsOf } from "./message.js";
import { address } from "./route.js";
import { keyOf } from "./source.js";
import { capital, count, counted, milliseconds, moment, money, percent, plain, short, signed, visible } from "./text.js";

/** The parts of a bar: runs of messages of one section, the summary apart from the messages it precedes. */
function barParts(messages) {
  const parts = [];
  for (const message of messages) {
    const name = message.role === "summary" ? "summary" : message.section;
    const last = parts.at(-1);
    if (last && last.name === name) {
      last.tokens += message.tokens;
      last.messages += 1;
    } else parts.push({ name, section: message.section, tokens: message.tokens, messages: 1, index: message.index });
  }
  return parts;
}

export async function turnView({ source }, parameters) {
  const key = keyOf(parameters);
  const report = await source.get("turn", { ...key, turn: parameters.turn, step: parameters.step });
  const tints = tintsOf(report.sections.map((section) => section.name));
  const here = (more) => address("turn", { ...key, ...more });
  const next = h("span", {}, turnLink(here, report.next, "right", "Next turn"));
  const conversation = address("conversation", key);
  const element = h(
    "article",
    { class: "turn-view" },
    h("nav", { class: "crumbs", "aria-label": "Where this is" }, crumb(key.agent || "no agent"), "/", crumb(key.scope), "/", link(conversation, {}, plain(key.conversation))),
    h(
      "div",
      { class: "heading" },
      h("h1", {}, report.position === null ? "Turn" : `Turn at message ${count(report.position)}`),
      h(
        "div",
        { class: "row wrap" },
        stepLinks(report, here),
        report.previous && link(address("diff", { ...key, first: report.previous, second: report.id }), { class: "button" }, icon("diff"), "Compare"),
        turnLink(here, report.previous, "left", "Turn before"),
        next,
      ),
    ),
    h("p", { class: "quiet subtitle" }, moment(report.at), report.model && ` with ${plain(report.model)}`),
    figures(report),
    contextBar(report, tints),
    h(
      "div",
      { class: "columns" },
      messageList(source, key, report, tints),
      h("aside", { class: "aside", tabindex: 0, "aria-label": "What changed, and the sections" }, changes(report), sections(report, tints)),
    ),
  );
  return {
    title: `Turn at message ${report.position ?? "?"} of ${plain(key.conversation)}`,
    element,
    back: conversation,
    keys: {
      ArrowLeft: report.previous && (() => (location.hash = here({ turn: report.previous }))),
      ArrowRight: () => report.next && (location.hash = here({ turn: report.next })),
      d: report.previous && (() => (location.hash = address("diff", { ...key, first: report.previous, second: report.id }))),
    },
    items: () => [...element.querySelectorAll(".message")],
    // A past turn never changes; but another may have come after it.
    refresh: async () => {
      report.next = (await source.get("turn", { ...key, turn: parameters.turn, step: parameters.step })).next;
      replace(next, turnLink(here, report.next, "right", "Next turn"));
    },
  };
}

function crumb(text) {
  return h("span", {}, plain(text));
}

function turnLink(here, turn, direction, label) {
  if (!turn) return h("span", { class: "button square", "aria-disabled": "true" }, icon(direction));
  return link(here({ turn }), { class: "button square", "aria-label": label, title: label }, icon(direction));
}

function stepLinks(report, here) {
  if (report.steps < 2) return null;
  const steps = Array.from({ length: report.steps }, (_, at) => at + 1);
  return h(
    "nav",
    { class: "steps", "aria-label": "Steps of this turn" },
    steps.map((step) => link(here({ turn: report.id, step }), { "aria-current": step === report.step ? "step" : null }, step === report.step ? `Step ${step} of ${report.steps}` : String(step))),
  );
}

function figure(label, value, note) {
  return h("div", {}, h("dt", {}, label), h("dd", {}, value, note && h("small", {}, note)));
}

function figures(report) {
  const share = report.tokens ? report.cached_tokens / report.tokens : 0;
  const { cost, usage, thinking } = report;
  const price = cost.reported ?? cost.estimated;
  return h(
    "dl",
    { class: "figures" },
    figure("Tokens", count(report.tokens), `in ${counted(report.messages.length, "message")}`),
    figure("Shared prefix", percent(share), `${counted(report.cached_tokens, "token")} as before`),
    figure("New", count(report.new_tokens), "tokens"),
    usage && figure("Read from cache", count(usage.cached_tokens), `of ${counted(usage.input_tokens, "token")}${usage.cache_write_tokens ? `; ${count(usage.cache_write_tokens)} written` : ""}`),
    usage && figure("Answer", count(usage.output_tokens), usage.reasoning_tokens ? `tokens, ${count(usage.reasoning_tokens)} reasoning` : "tokens"),
    report.epoch !== null && figure("Epoch", count(report.epoch), report.end_reason === null ? "goes on" : `began: ${report.end_reason}`),
    report.cache_miss && figure("Cache missed", report.cache_miss.tokens ? count(report.cache_miss.tokens) : "", `the provider says: ${report.cache_miss.reason}`),
    thinking.left_out > 0 && figure("Thinking left out", count(thinking.left_out), thinking.reasons.join("; ")),
    price !== null && figure("Cost", money(price), cost.reported === null ? "estimated" : report.steps > 1 ? "this step" : "as reported"),
  );
}

function contextBar(report, tints) {
  const parts = barParts(report.messages);
  const room = report.budget && report.budget.limit > report.tokens ? report.budget.limit - report.tokens : 0;
  const bar = h(
    "div",
    { class: "bar", role: "group", "aria-label": `The context, ${counted(report.tokens, "token")}, by section` },
    parts.map((part) => {
      const label = `${humanName(part.name)}: ${counted(part.tokens, "token")} in ${counted(part.messages, "message")}`;
      return h("a", { href: `#message-${part.index}`, "data-local": true, "aria-label": label, title: label, style: { "--tint": tints.get(part.name), flex: `${Math.max(part.tokens, 1)} 1 0` } });
    }),
  );
  const { cached_tokens: cached, new_tokens: fresh } = report;
  const total = Math.max(1, report.tokens);
  const reach = h(
    "div",
    { class: "reach" },
    cached > 0 && h("span", { class: "cached", style: { flex: `${cached} 1 0` } }, cached / total > 0.16 ? `${count(cached)} cached` : ""),
    fresh > 0 && h("span", { class: "fresh", style: { flex: `${fresh} 1 0` } }, fresh / total > 0.1 ? `${count(fresh)} new` : ""),
  );
  const totals = new Map();
  for (const part of parts) {
    const known = totals.get(part.name);
    if (known) known.tokens += part.tokens;
    else totals.set(part.name, { ...part });
  }
  const names = h(
    "div",
    { class: "key" },
    [...totals.values()].map((part) => link(`#message-${part.index}`, { "data-local": true, style: { "--tint": tints.get(part.name) } }, h("i"), h("b", {}, humanName(part.name)), h("span", {}, count(part.tokens)))),
    room > 0 && h("span", { class: "quiet" }, `${short(room)} of ${short(report.budget.limit)} tokens left`),
  );
  return h("section", { class: "card", "aria-label": "The context" }, h("div", { class: "body wide-body" }, bar, reach, names));
}

function changes(report) {
  const advice = report.advice && h("p", { class: "quiet" }, report.advice);
  if (report.previous === null) {
    return h("section", { class: "card" }, h("header", {}, h("h2", {}, "What changed")), h("div", { class: "body quiet" }, "There is no record of the turn before.", advice));
  }
  return h(
    "section",
    { class: "card" },
    h("header", {}, h("h2", {}, "What changed"), h("span", { class: "quiet small" }, "since the turn before")),
    h(
      "div",
      { class: "body" },
      report.changes.length ? h("ul", { class: "changes" }, report.changes.map((line) => h("li", { class: /^section \S+ failed/.test(line) ? "bad" : "" }, visible(capital(line))))) : h("p", { class: "quiet" }, "Nothing."),
      advice,
    ),
  );
}

function sections(report, tints) {
  return h(
    "section",
    { class: "card" },
    h("header", {}, h("h2", {}, "Sections"), h("span", { class: "quiet small" }, milliseconds(report.milliseconds))),
    h("div", { class: "body" }, h("ul", { class: "sections" }, report.sections.map((section) => sectionItem(section, tints)))),
  );
}

function sectionItem(section, tints) {
  const change = section.tokens_change;
  const details = [
    section.status === "included" && section.source && visible(section.source),
    section.reason && h("span", { class: section.status === "failed" ? "bad" : "" }, visible(section.reason)),
    section.note && plain(section.note),
    ...section.omitted.map((one) => `${counted(one.count, noun(one.what))} not shown: ${plain(one.reason)}`),
    ...section.cut.map((one) => `${counted(one.messages, "message")} ${one.what}, ${counted(one.tokens, "token")}: ${plain(one.reason)}`),
  ].filter(Boolean);
  return h(
    "li",
    { style: { "--tint": tints.get(section.name) } },
    h(
      "div",
      { class: "name" },
      h("i"),
      h("b", {}, humanName(section.name)),
      section.status !== "included" && h("span", { class: `tag ${section.status === "failed" ? "bad" : ""}` }, section.status),
      h("span", { class: "number" }, count(section.tokens), change ? h("span", { class: "quiet" }, ` ${signed(change)}`) : null),
    ),
    details.map((detail) => h("p", { class: "detail" }, detail)),
    h("p", { class: "detail" }, [section.kind, section.messages ? counted(section.messages, "message") : null, milliseconds(section.milliseconds)].filter(Boolean).join(" · ")),
  );
}

function noun(what) {
  return { messages: "message", facts: "fact", pins: "pin", profile: "profile entry" }[what] ?? what;
}

function messageList(source, key, report, tints) {
  const readOriginals = async (after, before) => (await source.get("messages", { ...key, after, before, limit: before - after - 1 })).messages;
  const items = [];
  report.messages.forEach((message, at) => {
    if (at > 0 && at === report.cached_messages) items.push(h("p", { class: "divider" }, message.cached_tokens > 0 ? "The cached prefix ends in this message" : "The cached prefix ends here"));
    const isSummary = message.role === "summary";
    items.push(
      h(
        "section",
        { class: "message", id: `message-${message.index}`, tabindex: -1, style: { "--tint": tints.get(isSummary ? "summary" : message.section) } },
        h(
          "div",
          { class: "meta" },
          h("b", {}, roleOf(message)),
          h("span", {}, humanName(message.section)),
          message.is_appended && h("span", { class: "tag", title: "The section said this later in the epoch" }, "appended"),
          message.is_error && h("span", { class: "tag bad" }, "error"),
          h(
            "span",
            { class: "end" },
            message.is_cached ? h("span", { class: "good" }, "cached") : message.cached_tokens > 0 && h("span", { class: "good" }, `${count(message.cached_tokens)} cached`),
            message.position !== null && link(address("conversation", { ...key, tab: "messages", position: message.position }), { title: "Show it in the conversation" }, `#${count(message.position)}`),
            h("span", {}, counted(message.tokens, "token")),
          ),
        ),
        isSummary ? summaryBody(message, readOriginals) : messageBody(message),
      ),
    );
  });
  return h("div", { class: "messages" }, items);
}
