// One conversation: its timeline, and below it turns, messages, summary, facts and pins.

import { h, icon, link, replace } from "./dom.js";
import { WindowedList } from "./list.js";
import { createdAt, foldedText, messageBody, roleOf, segmentBody, tintsOf } from "./message.js";
import { address } from "./route.js";
import { keyOf } from "./source.js";
import { capital, count, counted, moment, money, percent, plain, short, visible } from "./text.js";
import { TimelineChart, describeFailure, isFailing } from "./timeline.js";

const ROW_HEIGHT = 44;
const PAGE = 100;
const MAX_READING = 2;

export async function conversationView(app, parameters) {
  const { source } = app;
  const key = keyOf(parameters);
  let [report, timeline] = await Promise.all([source.get("conversation", key), source.get("timeline", key)]);
  const here = (more) => address("conversation", { ...key, ...more });
  let range = { first: null, last: null };

  const zoom = async (first, last) => {
    try {
      timeline = await source.get("timeline", { ...key, first, last });
      range = { first, last };
      showTimeline();
    } catch (error) {
      app.notify(error.message);
    }
  };
  /** Show so many times as much of the timeline, around the middle of what is shown. */
  const scale = (factor) => {
    const size = Math.max(10, Math.round((timeline.last - timeline.first + 1) * factor));
    if (size >= timeline.head) return zoom(null, null);
    const middle = (timeline.first + timeline.last) / 2;
    const first = Math.max(1, Math.min(timeline.head - size + 1, Math.round(middle - size / 2)));
    return zoom(first, first + size - 1);
  };
  const chart = new TimelineChart({
    turnAddress: (turn) => address("turn", { ...key, turn }),
    messageAddress: (position) => here({ tab: "messages", position }),
    zoom,
  });
  const legend = h("div");
  const showTimeline = () => {
    chart.show(timeline, report.turns);
    replace(legend, chart.legend());
  };

  const head = h("div");
  const tabs = h("nav", { class: "tabs", "aria-label": "Parts of the conversation" });
  const panel = h("div", { class: "panel" });
  const element = h(
    "article",
    {},
    head,
    h("section", { class: "card", "aria-label": "Timeline" }, h("header", {}, h("h2", {}, "Timeline"), chart.reset, legend), chart.element),
    tabs,
    panel,
  );

  const names = ["turns", "messages", "summary", "facts", "pins"];
  const fallback = report.turns.length ? "turns" : "messages";
  let tab = names.includes(parameters.tab) ? parameters.tab : fallback;
  let shown = null;

  const showHead = () => {
    replace(head, ...heading(app, key, report));
    const sizes = { turns: report.turns.at(-1)?.number ?? report.turns.length, messages: report.messages, summary: report.segments.length, facts: report.facts.filter((one) => one.state === "holds").length, pins: report.pins.length };
    replace(
      tabs,
      names.map((name) => link(here({ tab: name }), { "aria-current": name === tab ? "page" : null }, capital(name), " ", h("span", {}, count(sizes[name])))),
    );
  };
  const showTab = () => {
    shown?.close?.();
    const context = { app, key, report, here, position: Number(parameters.position) || null };
    shown = { turns: turnsTab, messages: messagesTab, summary: summaryTab, facts: factsTab, pins: pinsTab }[tab](context);
    replace(panel, shown.element);
  };
  showHead();
  showTab();

  return {
    title: plain(key.conversation),
    element,
    back: "#/",
    onshow: () => {
      showTimeline();
      shown.onshow?.();
    },
    keys: { "+": () => scale(0.5), "-": () => scale(2) },
    items: () => shown.items?.() ?? [...panel.querySelectorAll("a.open, li[tabindex]")],
    close: () => {
      chart.close();
      shown?.close?.();
    },
    refresh: async () => {
      const before = shownPart(tab, report);
      [report, timeline] = await Promise.all([source.get("conversation", key), source.get("timeline", { ...key, ...range })]);
      showHead();
      showTimeline();
      if (shown.update) shown.update(report);
      // What is the same stays, with what is unfolded in it.
      else if (shownPart(tab, report) !== before) keepFocus(panel, showTab);
    },
    /** Another tab of the same conversation: the timeline stays as it is. */
    move: (next) => {
      const isSame = ["agent", "scope", "conversation"].every((name) => next[name] === key[name]);
      if (!isSame) return false;
      parameters = next;
      tab = names.includes(next.tab) ? next.tab : fallback;
      showHead();
      showTab();
      shown.onshow?.();
      return true;
    },
  };
}

/** What a tab shows of a report, as one text to compare. */
function shownPart(tab, report) {
  return JSON.stringify({ turns: report.turns, summary: report.segments, facts: report.facts, pins: report.pins }[tab]);
}

/** Draw anew, and give the focus back to the link that had it. */
function keepFocus(element, draw) {
  const focused = element.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  draw();
  if (focused) [...element.querySelectorAll("a")].find((one) => one.getAttribute("href") === focused)?.focus({ preventScroll: true });
}

function heading(app, key, report) {
  const holds = report.facts.filter((one) => one.state === "holds").length;
  const bounds = report.ceiling === null ? (report.covered ? "after the summary" : null) : `floor ${report.floor}, ceiling ${report.ceiling}`;
  return [
    h("nav", { class: "crumbs", "aria-label": "Breadcrumb" }, h("span", {}, plain(key.agent || "no agent")), "/", h("span", {}, plain(key.scope))),
    h("div", { class: "heading" }, h("h1", {}, plain(key.conversation)), app.canWrite && writeButtons(app, key, report)),
    h(
      "dl",
      { class: "figures" },
      figure("Messages", count(report.messages), report.messages < report.head ? `${count(report.head - report.messages)} deleted` : null),
      figure("In the window", count(report.window), bounds),
      report.segments.length ? figure("Summary", count(report.summary_tokens), `tokens in ${counted(report.segments.length, "segment")}`) : figure("Summary", "none"),
      figure("Facts", count(holds), "current"),
      report.turns_cost !== null && figure("Cost", money(report.turns_cost), "of the recorded turns"),
      report.summaries_cost !== null && figure("Cost of summaries", money(report.summaries_cost), "by list prices"),
      figure("Last message", h("span", { class: "model" }, moment(report.last_at))),
    ),
    notice(report),
  ];
}

/** What a reader should know first: a summary that fails, or that a digest stands in for. */
function notice(report) {
  const digest = report.segments.some((one) => one.is_digest) ? "Part of the summary is a digest. A summary by the model will replace it." : "";
  if (isFailing(report)) {
    const next = report.work.is_running ? "A new attempt is running." : report.work.due_at ? ["The next attempt is due ", moment(report.work.due_at), "."] : "";
    return h("p", { class: "notice bad" }, icon("warning"), h("span", {}, `${describeFailure(report.work)}. `, next, ` ${digest}`));
  }
  return digest && h("p", { class: "notice warn" }, icon("warning"), digest);
}

function figure(label, value, note) {
  return h("div", {}, h("dt", {}, label), h("dd", {}, value, note && h("small", {}, note)));
}

function writeButtons(app, key, report) {
  const button = (label, name, look, work) => h("button", { class: `button ${look}`, type: "button", onclick: work }, icon(name), label);
  const undo = (what, question) => app.change("POST", "undo", { ...key, what }, { question });
  const last = `Delete the conversation with its ${counted(report.messages, "message")}? This cannot be undone.`;
  return h(
    "div",
    { class: "row wrap" },
    button("Undo turn", "undo", "", () => undo("turn", "Delete the messages of the last turn? This cannot be undone.")),
    report.segments.length > 0 && button("Undo summary", "undo", "", () => undo("summary", "Undo the newest segment of the summary?")),
    button("Delete", "trash", "danger", () => app.change("DELETE", "conversation", key, { question: last, then: "#/" })),
  );
}

function empty(text) {
  return h("div", { class: "card" }, h("p", { class: "empty" }, text));
}

/** Orders of the list of turns, the first one at its end. */
const TURN_ORDERS = {
  "newest first": () => 0,
  "most tokens first": (one, other) => one.tokens - other.tokens,
  "highest cost first": (one, other) => (one.cost ?? 0) - (other.cost ?? 0),
};

function turnsTab({ app, key, report }) {
  if (!report.turns.length) return { element: empty("No turn of an agent is recorded here. Agents record their turns.") };
  const most = Math.max(...report.turns.map((turn) => turn.tokens));
  const tints = tintsOf([...new Set(report.turns.flatMap((turn) => turn.sections.map((section) => section.name)))]);
  let shown = report.turns;
  const list = h("ol", { class: "list turns" });
  const order = h("select", { class: "button", "aria-label": "Order of the turns", onchange: draw }, Object.keys(TURN_ORDERS).map((name) => h("option", { value: name }, name)));
  draw();

  function draw() {
    replace(list, turnRows(key, [...shown].sort(TURN_ORDERS[order.value]), most, tints));
  }

  const newest = report.turns.at(-1).number;
  const jump = jumpForm("Go to turn", () => newest, (turn) => (location.hash = address("turn", { ...key, turn })));
  let first = report.turns[0].number;
  const more = h("button", { class: "button", type: "button", onclick: showOlder }, "Older turns");
  more.hidden = first === null || first < 2;

  async function showOlder() {
    try {
      const { turns } = await app.source.get("turns", { ...key, before: first, limit: PAGE });
      shown = [...turns, ...shown];
      draw();
      first = turns[0]?.number ?? null;
      more.hidden = first === null || first < 2;
    } catch (error) {
      app.notify(error.message);
    }
  }

  const title = h("h2", {}, newest === null ? "Turns" : counted(newest, "turn"));
  return { element: h("div", { class: "card" }, h("header", {}, title, order, newest !== null && jump), list, h("div", { class: "body" }, more)) };
}

function turnRows(key, turns, most, tints) {
  return [...turns].reverse().map((turn) => {
    const usage = turn.usage;
    const share = usage && usage.input_tokens ? usage.cached_tokens / usage.input_tokens : null;
    return h(
      "li",
      {},
      link(
        address("turn", { ...key, turn: turn.number ?? turn.id }),
        { class: "open" },
        h("span", { class: "number quiet wide" }, turn.number === null ? "" : count(turn.number)),
        h(
          "span",
          { class: "ellipsis said" },
          turn.end_reasons.length > 0 && h("span", { class: "tag warn", title: `A new epoch began: ${turn.end_reasons.join(", ")}` }, turn.end_reasons.join(", ")),
          turn.has_failed && h("span", { class: "tag bad" }, "failed"),
          visible(turn.text || "without a message"),
        ),
        h("span", { class: "number quiet wide", title: "The requests of one epoch share a prefix" }, turn.epoch === null ? "" : `epoch ${turn.epoch}`),
        h("span", { class: "turn-bar" }, turnBar(turn, most, tints)),
        h("span", { class: "number" }, counted(turn.tokens, "token")),
        h("span", { class: "number wide quiet" }, turn.cost === null ? (share ? `${percent(share)} cached` : "") : money(turn.cost)),
        h("span", { class: "number quiet wide" }, moment(turn.at)),
      ),
    );
  });
}

function jumpForm(label, most, go) {
  const id = label.toLowerCase().replaceAll(" ", "-");
  const form = h("form", { class: "jump" }, h("label", { for: id }, label), h("input", { id, inputmode: "numeric", autocomplete: "off", placeholder: `1 to ${count(most())}` }));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const wanted = Number(form.querySelector("input").value.replaceAll(/[,.\s]/g, ""));
    if (wanted >= 1 && wanted <= most()) go(Math.round(wanted));
  });
  return form;
}

function turnBar(turn, most, tints) {
  const width = `${Math.max(4, (turn.tokens / Math.max(1, most)) * 100)}%`;
  const parts = turn.sections.flatMap((section) => [
    ["summary", section.summary_tokens],
    [section.name, section.tokens - section.summary_tokens],
  ]);
  return h(
    "span",
    { class: "bar thin", style: { width }, "aria-hidden": "true" },
    parts.filter(([, tokens]) => tokens > 0).map(([name, tokens]) => h("span", { style: { "--tint": tints.get(name), flex: `${tokens} 1 0` } })),
  );
}

function messagesTab({ app, key, report, position, here }) {
  const { source } = app;
  const known = new Map();
  const asked = new Set();
  const open = new Set(position ? [position] : []);
  let { head, covered } = report;
  let notHereUntil = 0;

  const list = new WindowedList({
    length: head,
    rowHeight: ROW_HEIGHT,
    label: "Messages",
    row: (index) => row(index + 1),
    load: (first, last) => load(first + 1, last + 1),
  });

  let inSight = [1, 1];
  let reading = 0;

  /** Read what is in sight, a few pages at a time: what has been scrolled past meanwhile is not asked for. */
  function load(first, last) {
    inSight = [first, last];
    for (let page = pageOf(first); page <= pageOf(last) && reading < MAX_READING; page += 1) {
      if (!asked.has(page)) readPage(page);
    }
  }

  async function readPage(page) {
    asked.add(page);
    reading += 1;
    const after = page * PAGE;
    const before = Math.min(head, after + PAGE) + 1;
    try {
      const answer = await source.get("messages", { ...key, after, before, limit: PAGE });
      for (let at = after + 1; at < before; at += 1) known.set(at, null);
      notHereUntil = answer.notHereUntil ?? 0;
      for (const message of answer.messages) known.set(message.position, message);
      list.redraw(after, before - 2);
      for (const at of open) if (at > after && at < before) measure(at);
    } catch (error) {
      asked.delete(page);
      app.notify(error.message);
      return;
    } finally {
      reading -= 1;
    }
    load(...inSight);
  }

  function row(at) {
    const message = known.get(at);
    if (message === undefined) return h("div", {}, h("button", { type: "button", disabled: true }, h("span", { class: "quiet number" }, count(at)), h("span", {}), h("span", { class: "quiet" }, "\u2026")));
    if (message === null) return h("div", {}, h("button", { type: "button", disabled: true }, h("span", { class: "quiet number" }, count(at)), h("span", {}), h("span", { class: "quiet" }, at <= notHereUntil ? "not in this file" : "deleted")));
    const isOpen = open.has(at);
    const button = h(
      "button",
      { type: "button", "aria-expanded": String(isOpen), onclick: () => toggle(at) },
      h("span", { class: "quiet number" }, count(at)),
      h("span", { class: `role ${message.role} ellipsis` }, message.role),
      h("span", { class: "ellipsis preview", dir: "auto" }, isOpen ? createdAt(message) : preview(message)),
      h("span", { class: "quiet number wide" }, short(message.tokens)),
    );
    const element = h("div", { class: [at > covered ? "current" : "covered", at === position && "found"].filter(Boolean).join(" ") }, button);
    if (isOpen) element.append(full(message, at));
    return element;
  }

  function full(message, at) {
    const more = message.is_whole ? null : async () => (await source.get("message", { ...key, position: at })).text;
    const values = { ...key, message_id: message.id };
    const body = h(
      "div",
      { class: "full" },
      messageBody(message, { more }),
      app.canWrite &&
        h(
          "div",
          { class: "row wrap" },
          action("Pin", () => app.change("POST", "pin", values)),
          action("Delete", () => app.change("DELETE", "message", values, { question: "Delete this message? This cannot be undone." })),
        ),
    );
    new ResizeObserver(() => measure(at)).observe(body);
    return body;
  }

  function toggle(at) {
    if (open.has(at)) open.delete(at);
    else open.add(at);
    list.redraw(at - 1, at - 1);
    measure(at);
  }

  function measure(at) {
    const body = list.rows.get(at - 1)?.querySelector(".full");
    if (body) list.setHeight(at - 1, ROW_HEIGHT + body.offsetHeight);
    else if (!open.has(at)) list.setHeight(at - 1, null);
  }

  const jump = jumpForm("Go to message", () => head, (wanted) => list.reveal(wanted - 1, { focus: true }));
  const newest = h("button", { class: "button", type: "button", onclick: () => list.reveal(head - 1, { focus: true }) }, icon("down"), "Newest");
  const element = h(
    "div",
    { class: "card" },
    h("header", {}, h("h2", {}, counted(report.messages, "message")), h("div", { class: "row wrap" }, jump, newest)),
    h("div", { class: "window-frame" }, list.element),
  );
  return {
    element,
    onshow: () => {
      if (position) list.reveal(Math.min(head, position) - 1);
      list.draw();
    },
    items: () => [...list.element.querySelectorAll("button:not([disabled])")].filter((one) => one.parentElement.classList.contains("item")),
    close: () => list.close(),
    update: (next) => {
      const atEnd = innerHeight + scrollY > document.documentElement.scrollHeight - 80;
      const old = head;
      ({ head, covered } = next);
      if (head < old) known.clear();
      asked.delete(pageOf(Math.max(1, old)));
      if (head < old) asked.clear();
      list.resize(head);
      list.redraw(0, head - 1);
      if (atEnd && head > old) list.reveal(head - 1);
    },
  };
}

function action(label, work) {
  return h("button", { class: "unfold", type: "button", onclick: work }, label);
}

function pageOf(position) {
  return Math.floor((position - 1) / PAGE);
}

function preview(message) {
  const line = message.text.slice(0, 300).replaceAll(/\s+/g, " ").trim();
  if (line) return visible(line);
  if (message.tool_calls.length) return h("span", { class: "mono quiet" }, "calls ", visible(message.tool_calls.map((call) => call.name).join(", ")));
  return h("span", { class: "quiet" }, message.parts.length ? message.parts[0].kind : "no text");
}

function summaryTab({ app, key, report }) {
  if (!report.segments.length) return { element: empty("There is no summary yet.") };
  const readOriginals = async (after, before) => (await app.source.get("messages", { ...key, after, before, limit: before - after - 1 })).messages;
  const items = [...report.segments].reverse().map((segment) =>
    h(
      "li",
      {},
      segmentBody({ ...segment, provisional: segment.is_digest }, readOriginals, [
        h("span", {}, `level ${segment.level}`),
        h("span", { class: "number" }, counted(segment.tokens, "token")),
        segment.model && !segment.is_digest && h("span", {}, plain(segment.model)),
        segment.is_doubtful && h("span", { class: "tag warn" }, "doubtful"),
        segment.created_at && h("span", {}, moment(segment.created_at)),
      ]),
    ),
  );
  return { element: h("div", { class: "card" }, h("ol", { class: "list segments" }, items)) };
}

function factsTab({ app, key, report }) {
  if (!report.facts.length) return { element: h("div", {}, app.canWrite && factForm(app, key), empty("There are no facts yet.")) };
  const order = { holds: 0, replaced: 1, done: 1 };
  const facts = [...report.facts].sort((one, other) => order[one.state] - order[other.state] || other.position - one.position);
  const items = facts.map((fact) => {
    const past = fact.state !== "holds";
    const details = [];
    if (fact.replaced_text !== null) details.push(["replaced ", h("span", { class: "mono" }, fact.replaces), ": ", visible(fact.replaced_text)]);
    if (past) details.push(fact.replaced_by ? `replaced by ${fact.replaced_by} at message ${count(fact.ended_position)}` : "done");
    return h(
      "li",
      { class: past ? "past" : "", tabindex: -1 },
      h("span", { class: `tag ${past ? "" : "fact-tag"}` }, fact.kind),
      h("span", { class: "said", dir: "auto" }, visible(fact.text)),
      h(
        "span",
        { class: "quiet small number row" },
        fact.in_profile && h("span", { class: "tag" }, "profile"),
        h("span", { class: "mono" }, fact.id),
        link(address("conversation", { ...key, tab: "messages", position: fact.position }), { title: "Show the message" }, `#${count(fact.position)}`),
        app.canWrite && factActions(app, key, fact),
      ),
      details.map((detail) => h("span", { class: "detail" }, detail)),
    );
  });
  return { element: h("div", {}, app.canWrite && factForm(app, key), h("div", { class: "card" }, h("ul", { class: "list facts" }, items))) };
}

function factActions(app, key, fact) {
  const values = { ...key, fact_id: fact.id };
  const edit = () => {
    const text = prompt("The new text of this fact:", fact.text);
    if (text?.trim() && text.trim() !== fact.text) app.change("POST", "facts", { ...values, action: "replace", text: text.trim() });
  };
  return [
    fact.state === "holds" && action("Replace", edit),
    fact.state === "holds" && action("Done", () => app.change("POST", "facts", { ...values, action: "done" })),
    action("Forget", () => app.change("DELETE", "facts", values, { question: `Forget fact ${fact.id}? This cannot be undone.` })),
  ];
}

function factForm(app, key) {
  const kind = h("select", { "aria-label": "Kind of the fact" }, app.factKinds.map((one) => h("option", { value: one, selected: one === "value" }, one)));
  const text = h("input", { "aria-label": "New fact", placeholder: "New fact", autocomplete: "off", maxlength: 400 });
  const form = h("form", { class: "pick add" }, kind, text, h("button", { class: "button", type: "submit" }, "Add"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (text.value.trim()) app.change("POST", "facts", { ...key, action: "add", kind: kind.value, text: text.value.trim() });
  });
  return form;
}

function pinsTab({ app, key, report }) {
  if (!report.pins.length) return { element: empty("No message is pinned.") };
  const items = report.pins.map(({ message, pinned_at: pinnedAt, source }) =>
    h(
      "li",
      { class: "pin", tabindex: -1 },
      h(
        "div",
        { class: "row wrap quiet small" },
        icon("pin"),
        h("b", { class: "role" }, roleOf(message)),
        link(address("conversation", { ...key, tab: "messages", position: message.position }), {}, `#${count(message.position)}`),
        h("span", {}, `pinned by the ${source}`),
        pinnedAt && moment(pinnedAt),
        app.canWrite && action("Unpin", () => app.change("DELETE", "pin", { ...key, message_id: message.id })),
      ),
      foldedText(message.text),
    ),
  );
  return { element: h("div", { class: "card" }, h("ul", { class: "list pins" }, items)) };
}
