// What changes while the page is open, told by the server as it happens.
//
// A browser opens only a few connections to one server, over all its tabs: a page that nobody looks at has none.

const FIRST_WAIT = 1000;
const LONGEST_WAIT = 30000;

export class LiveUpdates {
  /** `changed(state)` is called for each conversation that has changed, `connected(is)` as connections come and go. */
  constructor(source, { changed, connected }) {
    Object.assign(this, { source, changed, connected });
    this.watched = [];
    this.streams = [];
    document.addEventListener("visibilitychange", () => this.restart());
  }

  /** Hear of these from now on: a scope, or one conversation. */
  watch(places) {
    if (JSON.stringify(places) === JSON.stringify(this.watched)) return;
    this.watched = places;
    this.restart();
  }

  restart() {
    for (const stream of this.streams) stream.abort();
    this.streams = [];
    if (document.hidden) {
      this.wasHidden = true;
      return;
    }
    for (const place of this.watched) {
      const stream = new AbortController();
      this.streams.push(stream);
      this.listen(place, stream.signal);
    }
    if (this.wasHidden) for (const place of this.watched) this.changed(place);
    this.wasHidden = false;
  }

  async listen(place, signal) {
    let wait = FIRST_WAIT;
    while (!signal.aborted) {
      try {
        const response = await this.source.request("GET", "events", place, { signal });
        this.connected(true);
        wait = FIRST_WAIT;
        await readEvents(response.body, (state) => this.changed(state));
      } catch (error) {
        if (signal.aborted) return;
        // Nothing to wait for: the token is gone, or so is the conversation.
        if (error.status === 401 || error.status === 404) return this.connected(false);
      }
      if (signal.aborted) return;
      this.connected(false);
      await new Promise((resolve) => setTimeout(resolve, wait));
      wait = Math.min(LONGEST_WAIT, wait * 2);
    }
  }
}

async function readEvents(body, changed) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    const frames = rest.split("\n\n");
    rest = frames.pop();
    for (const frame of frames) {
      const lines = frame.split("\n");
      if (!lines.includes("event: changed")) continue;
      const data = lines.filter((line) => line.startsWith("data:")).map((line) => line.slice(5));
      changed(JSON.parse(data.join("\n")));
    }
  }
}
