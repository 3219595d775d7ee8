// Server-sent events over fetch, so that a stream can be watched, resumed and given up on our terms:
// EventSource cannot send Last-Event-ID on a connection of ours, nor tell a silent line from a slow
// one.

const IDLE_MS = 20_000; // a line on which not even a heartbeat came for so long is taken as dead
const WAITS_MS = [300, 600, 1200, 2400, 4800, 4800];

// Cuts a text stream into events: {type, id, data}. Comments (heartbeats) are skipped.
export class SseParser {
  constructor(onEvent) {
    this.onEvent = onEvent;
    this.rest = "";
    this.clear();
  }

  clear() {
    this.type = "message";
    this.data = [];
  }

  push(text) {
    this.rest += text;
    for (;;) {
      const end = this.rest.search(/\r\n|\n|\r(?!$)/);
      if (end < 0) return;
      const line = this.rest.slice(0, end);
      this.rest = this.rest.slice(end + (this.rest.startsWith("\r\n", end) ? 2 : 1));
      this.line(line);
    }
  }

  line(line) {
    if (line === "") {
      if (this.data.length) this.onEvent({ type: this.type, id: this.id ?? null, data: this.data.join("\n") });
      this.clear();
      return;
    }
    const colon = line.indexOf(":");
    if (colon === 0) return;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.type = value;
    else if (field === "data") this.data.push(value);
    else if (field === "id") this.id = value;
  }
}

class Gone extends Error {}

// Follows a stream of events to its `end`, over as many connections as it takes. Every stream ends:
// where the server says nothing any more, `end` is given here, with the reason engine_lost.
//
// handlers: event({type, data}), state("connecting" | "open" | "reconnecting").
export async function follow(url, handlers, { signal, fetcher = fetch, idleMs = IDLE_MS, waits = WAITS_MS } = {}) {
  let last = null;
  let ended = false;
  let failed = 0;
  const take = (e) => {
    if (ended || (e.id !== null && last !== null && Number(e.id) <= Number(last))) return; // seen before the line broke
    if (e.id !== null) last = e.id;
    let data;
    try {
      data = JSON.parse(e.data);
    } catch {
      return; // half an event is no event
    }
    failed = 0;
    if (e.type === "end") ended = true;
    handlers.event({ type: e.type, data });
  };
  const parser = () => new SseParser(take);
  handlers.state?.("connecting");
  while (!ended && !signal?.aborted) {
    try {
      await once(url, { last, parser: parser(), signal, fetcher, idleMs, opened: () => handlers.state?.("open") });
    } catch (error) {
      if (error instanceof Gone) failed = waits.length;
    }
    if (ended || signal?.aborted) return;
    if (failed >= waits.length) {
      ended = true;
      handlers.event({ type: "end", data: { reason: "engine_lost", message: "The engine no longer answers." } });
      return;
    }
    handlers.state?.("reconnecting");
    await new Promise((done) => setTimeout(done, waits[failed]));
    failed++;
  }
}

async function once(url, { last, parser, signal, fetcher, idleMs, opened }) {
  const stop = new AbortController();
  const abort = () => stop.abort();
  signal?.addEventListener("abort", abort);
  let timer = setTimeout(abort, idleMs);
  try {
    const headers = { Accept: "text/event-stream", ...(last === null ? {} : { "Last-Event-ID": last }) };
    const answer = await fetcher(url, { headers, signal: stop.signal, cache: "no-store" });
    if (answer.status === 404 || answer.status === 410) throw new Gone();
    if (!answer.ok || !answer.body) throw new Error(`status ${answer.status}`);
    opened();
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(abort, idleMs);
      parser.push(value);
    }
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", abort);
    abort();
  }
}
