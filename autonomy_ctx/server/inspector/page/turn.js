// One turn: what the model was shown, section by section and message by message.

import { h, icon, link, replace } from "./dom.js";
import { humanName, messageBody, roleOf, summaryBody, tintsOf } from "./message.js";
import { address } from "./route.js";
import { keyOf } from "./source.js";
import { capital, count, counted, milliseconds, moment, money, percent, plain, short, signed, visible } from "./text.js";

const NOT_KEPT =
  "The full context of this turn is not kept, only its figures. Agents keep the contexts of their newest turns, until a message of the conversation is deleted. Agent(explain_turns=..., explain_seconds=...) keeps more.";

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
  const kept = await readFigures(source, key, Number(parameters.turn));
  if (kept && !kept.has_context) return figuresView(key, kept);
  const report = await source.get("turn", { ...key, turn: parameters.turn, step: parameters.step });
  const tints = tintsOf([...report.sections, ...report.definitions].map((part) => part.name));
  const here = (more) => address("turn", { ...key, ...more });
  const next = h("span", {}, turnLink(here, report.next, "right", "Next turn"));
  // Of a turn whose context is not kept, the figures are there.
  const previous = report.previous ?? (report.number > 1 ? report.number - 1 : null);
  const conversation = address("conversation", key);
  const element = h(
    "article",
    { class: "turn-view" },
    h("nav", { class: "crumbs", "aria-label": "Breadcrumb" }, crumb(key.agent || "no agent"), "/", crumb(key.scope), "/", link(conversation, {}, plain(key.conversation))),
    h(
      "div",
      { class: "heading" },
      h("h1", {}, titleOf(report)),
      h(
        "div",
        { class: "row wrap" },
        stepLinks(report, here),
        report.previous && link(address("diff", { ...key, first: report.previous, second: report.id }), { class: "button" }, icon("diff"), "Compare"),
        turnLink(here, previous, "left", "Previous turn"),
        next,
      ),
    ),
    subtitle(report),
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
    title: `${titleOf(report)} of ${plain(key.conversation)}`,
    element,
    back: conversation,
    keys: {
      ArrowLeft: previous && (() => (location.hash = here({ turn: previous }))),
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

function titleOf(turn) {
  return turn.number === null ? (turn.position === null ? "Turn" : `Turn at message ${count(turn.position)}`) : `Turn ${count(turn.number)}`;
}

function subtitle(turn) {
  const where = turn.number !== null && turn.position !== null && `, message ${count(turn.position)}`;
  return h("p", { class: "quiet subtitle" }, moment(turn.at), turn.model && ` with ${plain(turn.model)}`, where);
}

/** The figures of a turn that was given by its number. */
async function readFigures(source, key, number) {
  if (!Number.isSafeInteger(number) || number < 1) return null;
  const found = (await source.get("turns", { ...key, before: number + 1, limit: 1 })).turns.at(-1);
  return found?.number === number ? found : null;
}

/** A turn whose full context is not kept. */
function figuresView(key, found) {
  const { number } = found;
  const here = (more) => address("turn", { ...key, ...more });
  const conversation = address("conversation", key);
  const { usage } = found;
  const tints = tintsOf(found.sections.map((part) => part.name));
  const previous = number > 1 ? number - 1 : null;
  const element = h(
    "article",
    { class: "turn-view" },
    h("nav", { class: "crumbs", "aria-label": "Breadcrumb" }, crumb(key.agent || "no agent"), "/", crumb(key.scope), "/", link(conversation, {}, plain(key.conversation))),
    h("div", { class: "heading" }, h("h1", {}, titleOf(found)), h("div", { class: "row wrap" }, turnLink(here, previous, "left", "Previous turn"), turnLink(here, number + 1, "right", "Next turn"))),
    subtitle(found),
    found.text && h("p", { dir: "auto" }, visible(found.text)),
    h("p", { class: "notice warn" }, icon("warning"), h("span", {}, NOT_KEPT)),
    h(
      "dl",
      { class: "figures" },
      figure("Tokens", count(found.request_tokens ?? found.tokens), found.request_tokens === found.tokens ? "in messages" : `${count(found.tokens)} in messages`),
      figure("Shared prefix", percent(found.tokens ? found.shared_tokens / found.tokens : 0), counted(found.shared_tokens, "token")),
      usage && figure("Read from cache", count(usage.cached_tokens), `of ${counted(usage.input_tokens, "token")}`),
      usage && figure("Answer", count(usage.output_tokens), "tokens"),
      figure("Steps", count(found.steps), found.seconds === null ? null : `in ${milliseconds(found.seconds * 1000)}`),
      found.epoch !== null && figure("Epoch", count(found.epoch), found.end_reasons.length ? `began: ${found.end_reasons.join(", ")}` : "continues"),
      found.cost !== null && figure("Cost", money(found.cost), "reported by the provider"),
    ),
    h(
      "section",
      { class: "card" },
      h("header", {}, h("h2", {}, "Sections")),
      h("div", { class: "body" }, h("ul", { class: "sections" }, found.sections.map((part) => definitionItem({ ...part, items: [] }, tints)))),
    ),
  );
  return {
    title: `${titleOf(found)} of ${plain(key.conversation)}`,
    element,
    back: conversation,
    keys: { ArrowLeft: previous && (() => (location.hash = here({ turn: previous }))), ArrowRight: () => (location.hash = here({ turn: number + 1 })) },
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
  const beside = report.definitions.map(definitionName).join(" and ");
  return h(
    "dl",
    { class: "figures" },
    figure("Tokens", count(report.request_tokens ?? report.tokens), `in ${counted(report.messages.length, "message")}${beside && `, with ${beside}`}`),
    figure("Shared prefix", percent(share), counted(report.cached_tokens, "token")),
    figure("New", count(report.new_tokens), "tokens"),
    usage && figure("Read from cache", count(usage.cached_tokens), `of ${counted(usage.input_tokens, "token")}${usage.cache_write_tokens ? `; ${count(usage.cache_write_tokens)} written` : ""}`),
    usage && figure("Answer", count(usage.output_tokens), usage.reasoning_tokens ? `tokens, ${count(usage.reasoning_tokens)} reasoning` : "tokens"),
    report.epoch !== null && figure("Epoch", count(report.epoch), report.end_reason === null ? "continues" : `began: ${report.end_reason}`),
    report.cache_miss && figure("Cache missed", report.cache_miss.tokens ? count(report.cache_miss.tokens) : "", `the provider says: ${report.cache_miss.reason}`),
    thinking.left_out > 0 && figure("Thinking left out", count(thinking.left_out), thinking.reasons.join("; ")),
    price !== null && figure("Cost", money(price), cost.reported === null ? "estimated" : report.steps > 1 ? "this step" : "reported by the provider"),
  );
}

function contextBar(report, tints) {
  const parts = barParts(report.messages);
  const room = report.budget && report.budget.limit > report.tokens ? report.budget.limit - report.tokens : 0;
  const bar = h(
    "div",
    { class: "bar", role: "group", "aria-label": `The request, ${counted(report.request_tokens ?? report.tokens, "token")}, by section` },
    parts.map((part) => {
      const label = `${humanName(part.name)}: ${counted(part.tokens, "token")} in ${counted(part.messages, "message")}`;
      return h("a", { href: `#message-${part.index}`, "data-local": true, "aria-label": label, title: label, style: { "--tint": tints.get(part.name), flex: `${Math.max(part.tokens, 1)} 1 0` } });
    }),
    report.definitions.map((part) => {
      const label = `${humanName(part.name)}: ${counted(part.tokens, "token")}, ${plain(part.items.join(", "))}`;
      return h("span", { role: "img", "aria-label": label, title: label, style: { "--tint": tints.get(part.name), flex: `${Math.max(part.tokens, 1)} 1 0` } });
    }),
  );
  const { cached_tokens: cached, new_tokens: fresh } = report;
  const total = Math.max(1, report.request_tokens ?? report.tokens);
  const reach = h(
    "div",
    { class: "reach" },
    cached > 0 && h("span", { class: "cached", style: { flex: `${cached} 1 0` } }, cached / total > 0.16 ? `${count(cached)} cached` : ""),
    fresh > 0 && h("span", { class: "fresh", style: { flex: `${fresh} 1 0` } }, fresh / total > 0.1 ? `${count(fresh)} new` : ""),
    // Below what is no message there is nothing to tell.
    report.definitions.map((part) => h("i", { style: { flex: `${Math.max(part.tokens, 1)} 1 0` } })),
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
    report.definitions.map((part) => h("span", { class: "beside", style: { "--tint": tints.get(part.name) } }, h("i"), h("b", {}, humanName(part.name)), h("span", {}, count(part.tokens)))),
    room > 0 && h("span", { class: "quiet" }, `${short(room)} of ${short(report.budget.limit)} tokens left`),
  );
  return h("section", { class: "card", "aria-label": "The context" }, h("div", { class: "body wide-body" }, bar, reach, names));
}

function changes(report) {
  const advice = report.advice && h("p", { class: "quiet" }, report.advice);
  if (report.previous === null) {
    return h("section", { class: "card" }, h("header", {}, h("h2", {}, "What changed")), h("div", { class: "body quiet" }, "The previous turn is not recorded.", advice));
  }
  return h(
    "section",
    { class: "card" },
    h("header", {}, h("h2", {}, "What changed"), h("span", { class: "quiet small" }, "since the previous turn")),
    h(
      "div",
      { class: "body" },
      report.changes.length ? h("ul", { class: "changes" }, report.changes.map((line) => h("li", { class: /^section \S+ failed/.test(line) ? "bad" : "" }, visible(capital(line))))) : h("p", { class: "quiet" }, "Nothing changed."),
      advice,
    ),
  );
}

function sections(report, tints) {
  return h(
    "section",
    { class: "card" },
    h("header", {}, h("h2", {}, "Sections"), h("span", { class: "quiet small" }, milliseconds(report.milliseconds))),
    h("div", { class: "body" }, h("ul", { class: "sections" }, report.sections.map((section) => sectionItem(section, tints)), report.definitions.map((part) => definitionItem(part, tints)))),
  );
}

function definitionName(part) {
  if (part.name !== "tools") return "the schema of the answer";
  return part.items.length ? counted(part.items.length, "tool") : "tools";
}

function definitionItem(part, tints) {
  return h(
    "li",
    { style: { "--tint": tints.get(part.name) } },
    h("div", { class: "name" }, h("i"), h("b", {}, humanName(part.name)), h("span", { class: "number" }, count(part.tokens))),
    part.items.length > 0 && h("p", { class: "detail" }, visible(part.items.join(", "))),
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
          message.is_appended && h("span", { class: "tag", title: "The section added this text later in the epoch" }, "appended"),
          message.is_error && h("span", { class: "tag bad" }, "error"),
          h(
            "span",
            { class: "end" },
            message.is_cached ? h("span", { class: "good" }, "cached") : message.cached_tokens > 0 && h("span", { class: "good" }, `${count(message.cached_tokens)} cached`),
            message.position !== null && link(address("conversation", { ...key, tab: "messages", position: message.position }), { title: "Show this message in the conversation" }, `#${count(message.position)}`),
            h("span", {}, counted(message.tokens, "token")),
          ),
        ),
        isSummary ? summaryBody(message, readOriginals) : messageBody(message),
      ),
    );
  });
  return h("div", { class: "messages" }, items);
}
