// What a search found, each hit with its words marked.

import { h, link } from "./dom.js";
import { address } from "./route.js";
import { keyOf } from "./source.js";
import { count, counted, moment, plain, visible } from "./text.js";

const AROUND = 160;
const MAX_HITS = 100;

export async function searchView({ source }, parameters) {
  const asked = parameters.query ?? "";
  const terms = asked.split(/\s+/).filter(Boolean);
  const { hits } = await source.get("search", { query: asked, agent: parameters.agent, scope: parameters.scope, limit: MAX_HITS });
  const items = hits.map((hit) =>
    h(
      "li",
      {},
      link(
        address("conversation", { ...keyOf(hit), tab: "messages", position: hit.message.position }),
        { class: "open" },
        h(
          "span",
          { class: "row wrap quiet small" },
          h("b", { class: `role ${hit.message.role}` }, hit.message.role),
          h("span", {}, [hit.scope, hit.conversation].map(plain).join(" / ")),
          h("span", { class: "number" }, `#${count(hit.message.position)}`),
          moment(hit.message.created_at),
        ),
        h("span", { class: "text", dir: "auto" }, visible(excerpt(hit.message.text, terms), terms)),
      ),
    ),
  );
  const element = h(
    "article",
    {},
    h("div", { class: "heading" }, h("h1", {}, `Search: ${plain(asked)}`)),
    h("p", { class: "quiet" }, parameters.scope === undefined ? counted(hits.length, "message") : `${counted(hits.length, "message")} of ${plain(parameters.scope)}`),
    h("div", { class: "card" }, items.length ? h("ol", { class: "list results" }, items) : h("p", { class: "empty" }, "No message matches these words.")),
  );
  return { title: `Search: ${plain(asked)}`, element, back: "#/", items: () => [...element.querySelectorAll("a.open")] };
}

/** The part of a text around the first word that was searched for. */
function excerpt(text, terms) {
  const lower = text.toLowerCase();
  const places = terms.map((term) => lower.indexOf(term.toLowerCase())).filter((at) => at >= 0);
  const at = places.length ? Math.min(...places) : 0;
  const start = Math.max(0, at - AROUND);
  const end = Math.min(text.length, at + 2 * AROUND);
  return `${start > 0 ? "\u2026" : ""}${text.slice(start, end).trim()}${end < text.length ? "\u2026" : ""}`;
}
