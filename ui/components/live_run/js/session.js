// Where runs come from: the live engine, scenario runs on it, or recordings. What goes wrong keeps the
// steps there are, says so, and names a recorded run that shows the same.
import { watchEngine } from "../../engine_panel/watch.js";
import { cancelRun, followRun, recordedRun, submit } from "./engine.js";
import { measured, scenariosFor } from "./experiments.js";
import { stepUs } from "./metrics.js";
import { Growing } from "./trace.js";

const LOOK_AGAIN_MS = 5000; // where no engine is
const SOON_MS = 400; // until what has begun or ended shows in the engine's counts
const CAN_RUN = new Set(["ready", "busy"]);
// A status may be older than the loss of a run: the app learns of an engine's end a moment after its
// streams break. What an engine of the same life says so soon after is not believed.
const DOUBT_MS = 5000;
const BACK = "The engine is back. Run goes live again.";

const AFTER_END = {
  cancelled: "Stopped. The steps so far stay.",
  rejected: "The engine refused the request.",
  engine_lost: "The engine was lost in the middle of this run. Its steps stay.",
  timeout: "The run took too long and was ended. Its steps stay.",
  error: "The run ended with an error. Its steps stay.",
};

export class Session {
  constructor(bench) {
    this.bench = bench;
    this.status = { state: "unknown" };
    this.lost = null; // {life, at}: of the engine that was lost with a run of ours, until one is back
    this.running = false; // something grows that can be stopped
    this.busy = false;
    this.sticky = true; // the picture follows the newest step
  }

  async start(data) {
    const { place } = data;
    if (place.exp) await this.standIn(place.exp, { k: place.step, request: place.follow, quiet: true });
    else await this.recorded(place.run ?? data.first, { k: place.step, request: place.follow, quiet: true });
    this.bench.link.arrive();
    if (!this.gone) this.watch = watchEngine((status) => this.heard(status), LOOK_AGAIN_MS);
  }

  dispose() {
    this.gone = true;
    this.watch?.stop();
    clearTimeout(this.soon);
    clearTimeout(this.tick);
    this.abort?.abort();
  }

  get canLive() {
    return CAN_RUN.has(this.state);
  }

  get state() {
    return this.lost ? "restarting" : this.status.state;
  }

  // What the engine has just said of itself.
  heard(status, now = Date.now()) {
    const before = this.status.state;
    this.status = status;
    if (CAN_RUN.has(status.state)) {
      const { lost } = this;
      const back = lost ? status.life !== lost.life || now - lost.at > DOUBT_MS : before === "restarting";
      if (back) {
        this.lost = null;
        // What is said of the run's end stays: it may have been said a moment ago.
        const said = lost ? this.bench.notice : null;
        this.bench.say([said?.text, BACK].filter(Boolean).join(" "), { tone: "ok", ...(said?.action && { action: said.action }) });
      }
    }
    this.bench.later();
  }

  line() {
    const { state } = this;
    const { live, queue, message, label_source: source } = this.status;
    if (state === "unknown") return "Looking for an engine …";
    if (state === "absent") return message || "No engine here: recorded runs play all the same.";
    if (state === "starting" || state === "restarting") return message || `The engine is ${state}.`;
    const parts = [`Engine ${state}`, source?.device];
    if (live) parts.push(`${live.running ?? 0} running, ${live.waiting ?? 0} waiting`);
    if (queue) parts.push(`${queue} queued`);
    return parts.filter(Boolean).join(", ");
  }

  unstick(byUser) {
    if (byUser) this.sticky = false;
  }

  // --- recordings ---------------------------------------------------------------------------------
  async fetched(name) {
    this.cache ??= new Map();
    if (!this.cache.has(name)) this.cache.set(name, await recordedRun(name));
    return this.cache.get(name);
  }

  async recorded(name, { k = null, request = null, quiet = false } = {}) {
    if (!name) {
      this.bench.say("There is no recorded run here, and no engine yet.", { tone: "warn" });
      return;
    }
    try {
      const run = await this.fetched(name);
      if (this.gone) return;
      this.bench.exp = null;
      this.bench.show(run, { name, k, request });
      if (!quiet) this.bench.say(null);
      this.bench.link.commit();
    } catch {
      this.bench.say(`The recorded run ${name} cannot be read here.`, { tone: "warn" });
    }
  }

  // Asked for by a presenter whose engine stalls: whatever runs is left alone from here on.
  async recordedInstead(name) {
    clearTimeout(this.tick);
    this.turn = (this.turn ?? 0) + 1;
    if (this.id) cancelRun(this.id);
    this.abort?.abort();
    this.finish();
    await this.replay(name, "This is a replay of the recorded run");
  }

  // Plays a recording at the pace at which it was made.
  async replay(name, why = "No engine here. This is a replay of the recorded run") {
    const whole = await this.fetched(name).catch(() => null);
    if (!whole || this.gone) return this.bench.say("No engine is here, and no recorded run to replay.", { tone: "warn" });
    const run = { ...whole, steps: [] };
    this.begin();
    this.bench.exp = null;
    this.bench.show(run, { name });
    this.bench.say(`${why} “${whole.header.scenario.name}”, at its own pace; your prompt was not used.`);
    const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    const { turn } = this;
    const next = () => {
      if (!this.running || this.gone || turn !== this.turn) return;
      const step = whole.steps[run.steps.length];
      if (!step) return this.finish();
      run.steps.push(step);
      this.bench.grown(this.sticky);
      this.tick = setTimeout(next, still ? 0 : stepUs(whole.steps[run.steps.length] ?? step) / 1000);
    };
    this.tick = setTimeout(next, still ? 0 : stepUs(whole.steps[0] ?? {}) / 1000);
  }

  // --- the engine ---------------------------------------------------------------------------------
  // Returns the turn: what began earlier and comes back late finds that another one has begun.
  begin() {
    this.running = this.busy = this.sticky = true;
    this.lookSoon();
    this.bench.later();
    this.turn = (this.turn ?? 0) + 1;
    return this.turn;
  }

  lookSoon() {
    clearTimeout(this.soon);
    this.soon = setTimeout(() => this.watch?.ask(), SOON_MS);
  }

  finish() {
    this.running = this.busy = false;
    this.lookSoon();
    this.id = null;
    this.bench.later();
    this.bench.link.commit();
  }

  stop() {
    clearTimeout(this.tick);
    if (!this.id) {
      this.finish();
      return;
    }
    const { abort } = this;
    cancelRun(this.id);
    this.bench.say("Stopping …");
    setTimeout(() => abort?.abort(), 3000); // the engine confirms with the run's end; if not, we go
  }

  async run() {
    if (!this.canLive) return this.replay(this.bench.recordedName ?? this.bench.data.first);
    const { ask } = this.bench;
    const prompt = ask.prompt.value;
    if (!prompt.trim()) return this.bench.say("Write a prompt first, or pick an example.", { tone: "warn" });
    const body = { max_tokens: Number(ask.tokens.defaultValue), temperature: 0, n: 1, ...(ask.chat.checked ? { messages: [{ role: "user", content: prompt }] } : { prompt }) };
    const turn = this.begin();
    this.bench.exp = null;
    this.bench.compare = null;
    await this.stream("live", body, (growing) => this.bench.show(growing.run(), {}));
    if (turn === this.turn) this.finish();
    return undefined;
  }

  async experiment(id) {
    const { bench } = this;
    const base = this.basePrompt();
    const model = bench.base?.source?.model;
    const other = this.status.label_source?.model; // token ids mean nothing to another model
    if (!this.canLive || !base.length || (other && other !== model)) return this.standIn(id);
    const scenarios = scenariosFor(id, { model, ids: base });
    bench.exp = { id, of: scenarios.length, runs: [], done: false };
    const turn = this.begin();
    const runs = [];
    for (const scenario of scenarios) {
      let mine = null;
      const ended = await this.stream("scenario", scenario, (growing) => {
        mine = growing;
        bench.show(growing.run(), { compare: runs[0] ?? null });
      });
      if (turn !== this.turn) return undefined;
      if (ended?.reason !== "finished" || !mine) break;
      runs.push(mine.run());
      bench.exp.runs = [...runs];
    }
    this.finish();
    if (runs.length < scenarios.length) {
      bench.exp.failed = "The experiment did not come to its end.";
      bench.later();
      return undefined;
    }
    this.done(id, runs);
    return undefined;
  }

  // The prompt that experiments vary: of the run that was on the page before the first of them.
  basePrompt() {
    const { base, story, exp } = this.bench;
    const prompts = base?.prompts ?? {};
    return (exp ? null : prompts[story.request]) ?? Object.values(prompts)[0] ?? [];
  }

  done(id, runs) {
    const { bench } = this;
    bench.exp = { ...bench.exp, id, of: runs.length, runs, done: true };
    const k = bench.k;
    const shown = runs.at(-1);
    bench.show(shown, { compare: runs.length > 1 ? runs[0] : null, k, name: bench.recordedName });
    bench.setStateValue?.("measured", { n: (this.reports = (this.reports ?? 0) + 1), id, label: shown.header.label, rows: measured(id, runs), at: shown.header.recorded_at });
    bench.link.commit();
  }

  // The recorded runs of an experiment, where the engine cannot run it.
  async standIn(id, { k = null, request = null, quiet = false } = {}) {
    const { bench } = this;
    const names = bench.data.experiments[id] ?? [];
    try {
      const runs = await Promise.all(names.map((name) => this.fetched(name)));
      if (!runs.length) throw new Error("none");
      bench.exp = { id, of: runs.length, runs, done: true };
      bench.show(runs.at(-1), { k, request });
      this.done(id, runs);
      if (!quiet) bench.say("These are recorded runs: the engine cannot run this here and now.");
    } catch {
      bench.say("No engine can run this experiment now, and its recorded run is not here.", { tone: "warn" });
    }
    return undefined;
  }

  // Submits and follows to the end. Resolves to {reason, message}.
  async stream(kind, body, shown) {
    const { bench, turn } = this;
    bench.say(null);
    let end = null;
    let growing = null;
    try {
      const id = await submit(kind, body);
      if (turn !== this.turn) {
        cancelRun(id);
        return { reason: "cancelled" };
      }
      this.id = id;
    } catch (refused) {
      if (turn !== this.turn) return { reason: "cancelled" };
      bench.say(`${refused.message}${refused.retryAfter ? ` Try again in ${refused.retryAfter} s.` : ""}`, { tone: "warn", ...this.offer(kind) });
      return { reason: "rejected" };
    }
    this.abort = new AbortController();
    const take = {
      header: (data) => {
        growing = new Growing(data);
        shown(growing);
      },
      queue: ({ position }) => bench.say(position > 0 ? `Queued: ${position} before this one. The picture meanwhile is the run shown before.` : null),
      step: (data) => {
        if (!growing) return;
        if (!growing.steps.length) bench.say(null);
        growing.addStep(data);
        bench.grown(this.sticky);
      },
      text: (data) => growing?.addText(data),
      end: (data) => (end = data),
    };
    await followRun(
      this.id,
      {
        event: ({ type, data }) => take[type]?.(data),
        state: (s) => s === "reconnecting" && bench.say("The connection broke. Reconnecting …"),
      },
      this.abort.signal,
    );
    end ??= { reason: "cancelled" };
    if (turn !== this.turn) return end;
    this.ended(end, kind);
    return end;
  }

  ended(end, kind) {
    const { bench } = this;
    if (end.reason === "finished") return bench.say(null);
    const words = AFTER_END[end.reason] ?? `The run ended: ${end.reason}.`;
    if (end.reason === "engine_lost") {
      this.lost = { life: this.status.life, at: Date.now() };
      this.watch?.ask();
    }
    return bench.say([words, end.message].filter(Boolean).join(" "), { tone: end.reason === "cancelled" ? "" : "warn", ...(end.reason === "cancelled" ? {} : this.offer(kind)) });
  }

  // A recorded run that shows the same, by its name.
  offer(kind) {
    const { data, exp } = this.bench;
    const name = kind === "scenario" && exp ? data.experiments[exp.id]?.[0] : data.first;
    const found = data.recorded.find((r) => r.name === name);
    if (!found) return {};
    const run = kind === "scenario" && exp ? () => this.standIn(exp.id) : () => this.recorded(name);
    return { action: { label: `Watch the recorded run “${found.title}”`, run } };
  }
}

