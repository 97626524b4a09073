// The conversations, by scope. Scopes may be many: the first ones are open, the others are read when they are opened.

import { h, icon, link, replace } from "./dom.js";
import { address } from "./route.js";
import { keyOf } from "./source.js";
import { ago, counted, plain } from "./text.js";

const OPEN_SCOPES = 8;
const PAGE = 50;

export class ConversationList {
  constructor(source, notify) {
    this.source = source;
    this.notify = notify;
    this.groups = new Map();
    this.next = null;
    this.current = "";
    this.element = h("nav", { class: "side", "aria-label": "Conversations", tabindex: 0 });
  }

  /** All conversations that have been read. */
  get conversations() {
    return [...this.groups.values()].flatMap((group) => group.conversations);
  }

  get newest() {
    return this.conversations.reduce((best, one) => (best && best.last_at >= one.last_at ? best : one), null);
  }

  async read() {
    await this.readScopes();
    await Promise.all([...this.groups.keys()].slice(0, OPEN_SCOPES).map((scope) => this.readScope(scope)));
    this.draw();
  }

  async readScopes() {
    const answer = await this.source.get("scopes", { after: this.next });
    for (const scope of answer.scopes) if (!this.groups.has(scope)) this.groups.set(scope, { conversations: [], next: null, isRead: false });
    this.next = answer.next;
  }

  /** Scopes that have come since, among the first; whether there are any. */
  async readNewScopes() {
    const { scopes } = await this.source.get("scopes");
    const found = scopes.filter((scope) => !this.groups.has(scope));
    await Promise.all(found.slice(0, OPEN_SCOPES).map((scope) => this.readScope(scope)));
    if (found.length) this.draw();
    return found.length > 0;
  }

  /** The conversations of a scope, anew; as many as were read before. */
  async readScope(scope) {
    const group = this.groups.get(scope) ?? { conversations: [], next: null, isRead: false };
    const limit = Math.min(1000, Math.max(PAGE, group.conversations.length));
    const answer = await this.source.get("conversations", { scope, limit });
    this.groups.set(scope, { conversations: newestFirst(answer.conversations), next: answer.next, isRead: true });
  }

  async readMore(scope) {
    const group = this.groups.get(scope);
    const answer = await this.source.get("conversations", { scope, limit: PAGE, ...group.next });
    group.conversations = newestFirst([...group.conversations, ...answer.conversations]);
    group.next = answer.next;
  }

  async refresh(scope) {
    await this.readScope(scope);
    this.draw();
  }

  draw() {
    const focused = this.element.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    const parts = [];
    for (const [scope, group] of this.groups) {
      if (!group.isRead) {
        parts.push(h("h2", {}, this.button(plain(scope), "right", () => this.readScope(scope))));
        continue;
      }
      if (!group.conversations.length) continue;
      parts.push(h("h2", {}, plain(scope)));
      parts.push(h("ul", {}, group.conversations.map((one) => this.item(one))));
      if (group.next) parts.push(this.button("More", "down", () => this.readMore(scope)));
    }
    if (!parts.length) parts.push(h("p", { class: "empty" }, "There are no conversations yet."));
    if (this.next) parts.push(this.button("More scopes", "down", () => this.readScopes()));
    replace(this.element, parts);
    this.mark(this.current);
    if (focused) [...this.element.querySelectorAll("[data-key]")].find((one) => one.dataset.key === focused)?.focus({ preventScroll: true });
  }

  button(label, name, work) {
    const press = async () => {
      try {
        await work();
        this.draw();
      } catch (error) {
        this.notify(error.message);
      }
    };
    return h("button", { class: "more", type: "button", onclick: press }, icon(name), label);
  }

  item(one) {
    const about = one.agent ? `${counted(one.messages, "message")} with ${plain(one.agent)}` : counted(one.messages, "message");
    return h(
      "li",
      {},
      link(
        address("conversation", keyOf(one)),
        { "data-key": JSON.stringify([one.agent, one.scope, one.conversation]) },
        h("strong", { class: "ellipsis" }, plain(one.conversation)),
        h("span", { class: "quiet small number" }, ago(one.last_at)),
        h("span", { class: "about ellipsis" }, about),
      ),
    );
  }

  mark(current) {
    this.current = current;
    for (const one of this.element.querySelectorAll("a[data-key]")) {
      if (one.dataset.key === current) one.setAttribute("aria-current", "page");
      else one.removeAttribute("aria-current");
    }
  }
}

function newestFirst(conversations) {
  return [...conversations].sort((one, other) => (one.last_at < other.last_at ? 1 : -1));
}
