// Where the page gets its values: the inspector's HTTP API, or the data inside a self-contained file.
//
// Both answer the same questions with the same values.

/** A request that was refused or failed, with the sentence that the server gives. */
class RequestFailed extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Which conversation is meant: in addresses, in requests, and as a key. */
export function keyOf({ agent, scope, conversation }) {
  return { agent, scope, conversation };
}

function query(parameters) {
  const known = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined);
  return new URLSearchParams(known.map(([name, value]) => [name, String(value)])).toString();
}

class ServerSource {
  constructor() {
    this.isLive = true;
  }

  /** Exchange the token of the address for a cookie. It must not stay in the address, which people copy. */
  async open() {
    const given = new URLSearchParams(location.hash.slice(1));
    const token = given.get("token");
    if (!token) return;
    const view = given.get("view");
    history.replaceState(null, "", `${location.pathname}${location.search}${view ? `#${view}` : ""}`);
    await this.request("POST", "session", {}, { headers: { authorization: `Bearer ${token}` } });
  }

  async get(name, parameters = {}) {
    const response = await this.request("GET", name, parameters);
    return response.json();
  }

  /** Change something: what to change is in the body, or in the address of what is deleted. */
  async change(method, name, values) {
    if (method === "DELETE") await this.request("DELETE", name, values);
    else await this.request(method, name, {}, { headers: { "content-type": "application/json" }, body: JSON.stringify(values) });
  }

  async request(method, name, parameters, options = {}) {
    let response;
    try {
      const asked = query(parameters);
      response = await fetch(asked ? `api/${name}?${asked}` : `api/${name}`, { method, credentials: "same-origin", ...options });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new RequestFailed(0, "The inspector does not answer. Is it still running?");
    }
    if (response.ok) return response;
    const answer = await response.json().catch(() => null);
    throw new RequestFailed(response.status, answer?.error?.message ?? `The request failed with status ${response.status}.`);
  }
}

/** A question as the file has it: its name and what was given, in the order of the names. */
function questionOf(name, parameters) {
  const known = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined);
  const asked = known.map(([key, value]) => [key, String(value)]).sort(([one], [other]) => (one < other ? -1 : 1));
  return JSON.stringify([name, asked]);
}

/** The values of a self-contained file: answers by the question, and messages by their positions. */
class FileSource {
  constructor(data) {
    this.isLive = false;
    this.data = data;
  }

  async get(name, parameters = {}) {
    if (name === "info") return { write: false };
    if (name === "scopes") return { scopes: [...new Set(this.data.conversations.map((one) => one.scope))], next: null };
    if (name === "conversations") return { conversations: this.data.conversations.filter((one) => one.scope === parameters.scope), next: null };
    if (name === "messages") return this.messages(parameters);
    if (name === "message") return this.message(parameters);
    if (name === "search") return this.search(parameters);
    if (name === "turns") return this.turns(parameters);
    if (name === "turn") parameters = { ...parameters, turn: this.idOf(parameters) };
    if (name === "timeline" && parameters.first) return this.timeline(parameters);
    const answer = this.data.answers[questionOf(name, parameters)];
    if (answer === undefined) throw new RequestFailed(404, "This file does not contain that. Run autonomy-ctx inspect to see it.");
    return answer;
  }

  /** The turns that the file lists, of those before a number the newest. */
  async turns({ before, limit, ...key }) {
    const { turns } = await this.get("conversation", key);
    return { turns: turns.filter((one) => one.number !== null && one.number < before).slice(-limit) };
  }

  /** The id of a turn that was given by its number. */
  idOf({ turn, agent, scope, conversation }) {
    const report = this.data.answers[questionOf("conversation", { agent, scope, conversation })];
    return report?.turns.find((one) => String(one.number) === String(turn))?.id ?? turn;
  }

  pageOf({ agent, scope, conversation }) {
    const page = this.data.messages.find((one) => one.agent === agent && one.scope === scope && one.conversation === conversation);
    if (!page) throw new RequestFailed(404, "This file does not contain the messages of that conversation.");
    return page;
  }

  messages({ after, before, ...key }) {
    const page = this.pageOf(key);
    const messages = page.messages.filter((one) => one.position > (after ?? 0) && one.position < (before ?? Infinity));
    // Of a long conversation the file has the newest messages only.
    return { ...page, messages, notHereUntil: page.older === null ? 0 : page.older - 1 };
  }

  /** A part of the timeline, from the points that the file has. */
  async timeline({ first, last, ...key }) {
    const whole = await this.get("timeline", key);
    return {
      ...whole,
      first,
      last,
      points: whole.points.filter((one) => one.position >= first && one.position <= last),
      segments: whole.segments.filter((one) => one.last >= first && one.first <= last),
      facts: whole.facts.filter((one) => one.position <= last && (one.ended_position === null || one.ended_position >= first)),
      pins: whole.pins.filter((position) => position >= first && position <= last),
    };
  }

  message({ position, ...key }) {
    const found = this.pageOf(key).messages.find((one) => one.position === Number(position));
    if (!found) throw new RequestFailed(404, `This file does not contain message ${position}.`);
    return found;
  }

  search({ query: asked, scope }) {
    const terms = asked.toLowerCase().split(/\s+/).filter(Boolean);
    const hits = [];
    for (const page of this.data.messages) {
      if (scope !== undefined && page.scope !== scope) continue;
      for (const message of page.messages) {
        const text = message.text.toLowerCase();
        if (terms.length && terms.every((term) => text.includes(term))) hits.push({ ...keyOf(page), message });
      }
    }
    return { hits: hits.reverse().slice(0, 100) };
  }

  async open() {}
}

/** Texts that occur more than once are in a file once; put them where they belong. */
function restoreTexts({ texts, data }) {
  const restore = (value) => {
    if (value === null || typeof value !== "object") return value;
    if (Array.isArray(value)) return value.map(restore);
    if (value.$text !== undefined) return texts[value.$text];
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, restore(one)]));
  };
  return restore(data);
}

/** The source that this page has: what is in the file, or else the server that sent it. */
export function findSource() {
  const embedded = document.getElementById("data");
  return embedded ? new FileSource(restoreTexts(JSON.parse(embedded.textContent))) : new ServerSource();
}
