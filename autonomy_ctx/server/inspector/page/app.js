// The frame around the views: conversations on the side, search, keys, colours, and what happens live.

import { conversationView } from "./conversation.js";
import { diffView } from "./diff.js";
import { h, icon, link, replace } from "./dom.js";
import { LiveUpdates } from "./live.js";
import { address, parseAddress } from "./route.js";
import { searchView } from "./search.js";
import { ConversationList } from "./side.js";
import { findSource, keyOf } from "./source.js";
import { capital, plain } from "./text.js";
import { turnView } from "./turn.js";

const SCOPE_SECONDS = 3;
const THEMES = ["system", "light", "dark"];
const THEME_NAME = "autonomy-ctx-inspector-theme";
const VIEWS = { conversation: conversationView, turn: turnView, diff: diffView, search: searchView };
const KEYS = [
  [["j", "k"], "next or previous item of a list"],
  [["Enter"], "open the item"],
  [["\u2190", "\u2192"], "previous or next turn"],
  [["d"], "compare a turn with the previous turn"],
  [["+", "\u2212"], "zoom the timeline in or out"],
  [["/"], "search"],
  [["t"], "switch between light, dark and system colours"],
  [["Esc"], "back"],
  [["?"], "show these keys"],
];

class App {
  constructor(source) {
    this.source = source;
    this.canWrite = false;
    this.view = null;
    this.asked = 0;

    this.side = new ConversationList(source, (text) => this.notify(text));
    this.main = h("main", { id: "main", tabindex: -1 });
    this.frame = h("div", { class: "frame" }, this.side.element, this.main);
    this.live = h("span", { class: "live", role: "status" }, source.isLive && [h("i"), h("span", {}, "connecting")]);
    this.themeButton = h("button", { class: "button plain square", type: "button", onclick: () => this.changeTheme() });
    this.input = h("input", { type: "search", placeholder: "Search messages", "aria-label": "Search messages", autocomplete: "off", spellcheck: "false" });
    this.help = this.makeHelp();
    const search = h("form", { class: "search", role: "search" }, icon("search"), this.input, h("kbd", { "aria-hidden": "true" }, "/"));
    search.addEventListener("submit", (event) => {
      event.preventDefault();
      this.search(this.input.value.trim());
    });
    const top = h(
      "header",
      { class: "top" },
      h("button", { class: "button plain square only-phone", type: "button", "aria-label": "Conversations", onclick: () => this.frame.classList.toggle("listing") }, icon("menu")),
      link("#/", { class: "brand", "aria-label": "Inspector, home" }, h("i", { class: "sign", "aria-hidden": "true" }, h("i"), h("i"), h("i")), h("b", {}, "autonomy_ctx"), h("span", {}, "inspector")),
      search,
      this.live,
      this.themeButton,
      h("button", { class: "button plain square", type: "button", "aria-label": "Keys", title: "Keys", onclick: () => this.help.showModal() }, "?"),
    );
    document.getElementById("app").append(top, this.frame, this.help);
    this.setTheme(readSetting(THEME_NAME) ?? "system");
  }

  async start() {
    addEventListener("keydown", (event) => this.press(event));
    document.addEventListener("click", (event) => this.followLocal(event));
    try {
      await this.source.open();
      const info = await this.source.get("info");
      this.canWrite = info.write;
      this.factKinds = info.fact_kinds;
      await this.side.read();
    } catch (error) {
      this.fail(error);
      // The right address in the same tab is a change of the fragment only.
      addEventListener("hashchange", () => location.reload());
      return;
    }
    if (this.source.isLive) {
      this.updates = new LiveUpdates(this.source, { changed: (state) => this.changed(state), connected: (is) => this.showLive(is) });
    }
    // Not before: without the cookie, nothing is answered.
    addEventListener("hashchange", () => this.show());
    await this.show();
    if (this.source.isLive) setInterval(() => this.lookForScopes(), SCOPE_SECONDS * 1000);
  }

  /** Changes are told of the scope that is shown; other scopes are looked for now and then. */
  async lookForScopes() {
    if (document.hidden) return;
    const wasEmpty = this.side.newest === null;
    try {
      if ((await this.side.readNewScopes()) && wasEmpty) await this.show();
    } catch {
      // The stream of changes tells when the inspector is gone.
    }
  }

  async show() {
    // The address of another start, pasted into this tab.
    if (this.source.isLive && location.hash.startsWith("#token=")) return location.reload();
    const { view, parameters } = parseAddress(location.hash);
    const { agent, scope, conversation } = parameters;
    this.side.mark(JSON.stringify([agent, scope, conversation]));
    this.watch(parameters);
    const make = VIEWS[view];
    if (!make) return this.showStart();
    this.frame.classList.remove("listing");
    if (this.view?.make === make && this.view.move?.(parameters)) return;
    const asked = (this.asked += 1);
    this.main.setAttribute("aria-busy", "true");
    try {
      const made = await make(this, parameters);
      if (asked !== this.asked) return made.close?.();
      this.put({ ...made, make, parameters });
    } catch (error) {
      if (asked === this.asked) this.fail(error);
    } finally {
      if (asked === this.asked) this.main.removeAttribute("aria-busy");
    }
  }

  /** The newest conversation; on a phone the list, unless there is only one. */
  showStart() {
    const { newest, conversations } = this.side;
    const isNarrow = matchMedia("(max-width: 820px)").matches;
    if (newest && (!isNarrow || conversations.length === 1)) {
      location.replace(address("conversation", keyOf(newest)));
      return;
    }
    this.frame.classList.toggle("listing", newest !== null);
    const text = newest ? "Choose a conversation." : "There are no conversations yet. Conversations of agents that use this memory appear here.";
    this.put({ title: "Conversations", element: h("p", { class: "empty" }, text) });
  }

  watch({ agent, scope, conversation }) {
    const place = scope ?? this.side.newest?.scope;
    if (!this.updates || place === undefined) return;
    const places = [{ scope: place }];
    if (conversation !== undefined) places.push({ agent, scope, conversation });
    this.updates.watch(places);
  }

  put(view) {
    this.view?.close?.();
    this.view = view;
    document.title = `${view.title} \u00b7 inspector`;
    replace(this.main, view.element);
    if (!view.parameters?.position) scrollTo({ top: 0, behavior: "instant" });
    view.onshow?.();
    // Whoever reads by ear is told of the new view; the first one needs no telling.
    if (this.hasShown) this.main.focus({ preventScroll: true });
    this.hasShown = true;
  }

  fail(error) {
    const text = plain(error.message);
    this.put({
      title: "Error",
      element: h("div", { class: "notice bad", role: "alert" }, icon("warning"), h("p", {}, capital(text), /[.?!]$/.test(text) ? "" : ".")),
    });
    if (error.status === 401) this.showLive(false);
  }

  notify(text) {
    const note = h("div", { class: "notice bad toast", role: "alert" }, icon("warning"), capital(plain(text)));
    document.body.append(note);
    setTimeout(() => note.remove(), 6000);
  }

  /** Change something, after a question where it cannot be taken back; then show what is there now. */
  async change(method, name, values, { question = null, then = null } = {}) {
    if (question && !confirm(question)) return;
    try {
      await this.source.change(method, name, values);
      await this.side.refresh(values.scope);
      if (then) location.hash = then;
      else await this.view?.refresh?.();
    } catch (error) {
      this.notify(error.message);
    }
  }

  search(asked) {
    if (!asked) return;
    const { agent, scope } = parseAddress(location.hash).parameters;
    const newest = this.side.newest ?? {};
    location.hash = address("search", { query: asked, agent: agent ?? newest.agent, scope: scope ?? newest.scope });
  }

  /** A conversation has changed, or, without a name, perhaps any of a scope. */
  async changed({ agent, scope, conversation, messages }) {
    try {
      await this.side.refresh(scope);
      const shown = this.view?.parameters;
      const isShown = shown && shown.scope === scope && (conversation === undefined || (shown.agent === agent && shown.conversation === conversation));
      // Without messages it has been deleted.
      if (isShown && messages === 0) location.hash = "#/";
      else if (isShown) await this.refreshView();
    } catch (error) {
      if (error.status === 404) location.hash = "#/";
      else this.notify(error.message);
    }
  }

  /** One refresh at a time; what changes meanwhile is one more. */
  async refreshView() {
    if (this.isRefreshing) {
      this.isStale = true;
      return;
    }
    this.isRefreshing = true;
    try {
      do {
        this.isStale = false;
        await this.view?.refresh?.();
      } while (this.isStale);
    } finally {
      this.isRefreshing = false;
    }
  }

  showLive(isConnected) {
    this.live.className = `live ${isConnected ? "on" : "off"}`;
    replace(this.live, h("i"), h("span", {}, isConnected ? "live" : "not connected"));
  }

  changeTheme() {
    const next = THEMES[(THEMES.indexOf(this.theme) + 1) % THEMES.length];
    this.setTheme(next);
    writeSetting(THEME_NAME, next);
  }

  setTheme(theme) {
    this.theme = THEMES.includes(theme) ? theme : "system";
    if (this.theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = this.theme;
    const label = { system: "System colours", light: "Light colours", dark: "Dark colours" }[this.theme];
    this.themeButton.setAttribute("aria-label", label);
    this.themeButton.setAttribute("title", label);
    replace(this.themeButton, icon({ system: "system", light: "sun", dark: "moon" }[this.theme]));
  }

  makeHelp() {
    const close = h("button", { class: "button plain square", type: "button", "aria-label": "Close", onclick: () => this.help.close() }, icon("close"));
    return h(
      "dialog",
      { "aria-labelledby": "keys" },
      h("div", { class: "row spread" }, h("h2", { id: "keys" }, "Keys"), close),
      h("dl", {}, KEYS.map(([keys, text]) => [h("dt", {}, keys.map((key) => [h("kbd", {}, key), " "])), h("dd", {}, text)])),
    );
  }

  /** Links to a place in the same view must not change the address of the view. */
  followLocal(event) {
    const local = event.target.closest?.("a[data-local], a.skip");
    if (!local) return;
    event.preventDefault();
    const target = document.getElementById(local.getAttribute("href").slice(1));
    target?.scrollIntoView({ block: "start" });
    target?.focus({ preventScroll: true });
  }

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || this.help.open) return;
    if (event.target.matches?.("input, select, textarea")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const own = this.view?.keys?.[event.key];
    const move = { j: 1, k: -1, ArrowDown: 0, ArrowUp: 0 }[event.key];
    if (own) own();
    else if (move) this.step(move);
    else if (event.key === "/") this.input.focus();
    else if (event.key === "?") this.help.showModal();
    else if (event.key === "t") this.changeTheme();
    else if (event.key === "Escape") this.back();
    else return;
    event.preventDefault();
  }

  /** Move the focus to the next item of the view, or of the side when the focus is there. */
  step(by) {
    const inSide = this.side.element.contains(document.activeElement);
    const items = inSide ? [...this.side.element.querySelectorAll("a")] : (this.view?.items?.() ?? []);
    if (!items.length) return;
    const at = items.findIndex((one) => one === document.activeElement || one.contains(document.activeElement));
    const next = items[at < 0 ? (by > 0 ? this.firstInSight(items) : items.length - 1) : Math.max(0, Math.min(items.length - 1, at + by))];
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
  }

  firstInSight(items) {
    const found = items.findIndex((one) => one.getBoundingClientRect().top >= 56);
    return Math.max(0, found);
  }

  back() {
    if (this.view?.back && location.hash !== this.view.back) location.hash = this.view.back;
  }
}

function readSetting(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    // Files may have no storage.
    return null;
  }
}

function writeSetting(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // It holds until the page is closed.
  }
}

new App(findSource()).start();
