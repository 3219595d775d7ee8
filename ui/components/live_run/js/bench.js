// The instrument: one run on it, live or recorded, one step of it selected, and everything on the
// page that shows that step.
import { icon } from "../../run_player/js/icons.js";
import { provenance } from "../../run_player/js/provenance.js";
import { button, clamp, el, keepClicks, num, plural } from "../../run_player/js/util.js";
import { Ask } from "./ask.js";
import { Walk, standFor } from "./answer.js";
import { Lab } from "./lab.js";
import { Link } from "./link.js";
import { numSequences, stepTokens, stepUs } from "./metrics.js";
import { RoofChart } from "./roofchart.js";
import { short } from "./scales.js";
import { Session } from "./session.js";
import { StepBox } from "./stepbox.js";
import { StepChart } from "./stepchart.js";
import { requestsOf, story } from "./trace.js";
import { stageOf } from "./walk.js";

export const EMPTY = { schema: "run/1", header: { label: "RECORDED", source: {}, prompts: {}, token_text: {}, scenario: { requests: [] } }, steps: [] };
const COMMAND = "python -m core calibrate";

export class Bench {
  constructor(host) {
    this.host = host;
    this.run = EMPTY;
    this.story = story(EMPTY, null);
    this.k = 0;
    this.stage = 1;
    this.scale = 1;
    this.followable = [];
    this.exp = null;
    this.compare = null;
    this.notice = null;
    this.recordedName = null;
    this.machineId = "own";
    this.modelled = [];
    this.session = new Session(this);
    this.link = new Link(this);
    this.build();
  }

  build() {
    this.ask = new Ask(this);
    this.walk = new Walk(this);
    this.lab = new Lab(this);
    this.steps = new StepChart(this);
    this.roof = new RoofChart(this);
    this.box = new StepBox(this);
    this.stepBadge = el("span", "prov");
    this.roofBadge = el("span", "prov");
    this.roofNote = el("p", "tiny muted");
    this.machines = el("span", "seg");
    this.machines.setAttribute("role", "group");
    this.machines.setAttribute("aria-label", "Machine");
    this.which = el("span", "seg");
    this.which.setAttribute("role", "group");
    this.which.setAttribute("aria-label", "Which run the pictures show");
    const left = el("section", "panel pad", el("div", "chh", el("h2", "", "Milliseconds, step by step"), this.stepBadge), this.which, this.steps.root);
    const right = el("section", "panel pad", el("div", "chh", el("h2", "", "Roofline"), this.roofBadge), this.machines, this.roof.root, this.roofNote);
    this.table = el("details", "tables", el("summary", "", "All steps as a table"), this.tableBox = el("div", "scroll"));
    this.table.ontoggle = () => this.drawTable();
    this.root = el("section", "kv bench", this.ask.root, this.walk.root, this.lab.root, el("div", "row2", left, right), this.box.root, this.table);
    this.root.setAttribute("aria-label", "Prefill and decode, on the engine");
    keepClicks(this.root);
    this.live = el("div", "sr");
    this.live.setAttribute("aria-live", "polite");
    this.host.replaceChildren(el("div", "wrap", this.root), this.live);
    this.keys = (e) => this.key(e);
    this.recorded = (e) => this.playRecorded(e);
    document.addEventListener("keydown", this.keys);
    document.addEventListener("kv-recorded", this.recorded);
    this.resize = new ResizeObserver(() => this.later());
    this.resize.observe(this.root);
  }

  dispose() {
    this.session.dispose();
    this.link.dispose();
    cancelAnimationFrame(this.frame);
    this.resize.disconnect();
    document.removeEventListener("keydown", this.keys);
    document.removeEventListener("kv-recorded", this.recorded);
  }

  // Streamlit calls this on every change of data or theme; only what is new is taken over.
  update({ data, setStateValue, setTriggerValue }) {
    const before = this.data;
    Object.assign(this, { data, setStateValue, setTriggerValue, reading: data.reading });
    this.modelled = data.machines.map((m) => ({ ...m, modelled: true }));
    this.present = Boolean(data.present);
    this.scale = this.present ? 1.5 : 1;
    this.host.dataset.scale = this.root.dataset.scale = this.present ? "present" : "normal";
    if (!before) {
      this.ask.load(data);
      this.machineId = data.place.machine ?? "own";
      this.changed();
      this.session.start(data);
    } else if (data.wish && data.wish.n !== before.wish?.n) this.experiment(data.wish.id);
    this.later();
  }

  // --- what is shown ------------------------------------------------------------------------------
  show(run, { request = null, k = null, name = null, compare = null } = {}) {
    this.run = run;
    this.compare = compare;
    this.recordedName = name;
    this.ask.answer.reset();
    this.setStory(request);
    if (!this.exp || !this.base) this.base = run.header;
    this.k = clamp(k ?? this.last, 0, this.last);
    this.stage = stageOf(this.story, this.k);
    this.later();
  }

  setStory(request) {
    this.followable = requestsOf(this.run).slice(0, 40);
    const wanted = request ?? this.story?.request;
    this.story = story(this.run, this.followable.includes(wanted) ? wanted : (this.followable[0] ?? null));
  }

  // A step has come: told again from the log, which is short.
  grown(sticky) {
    this.setStory(this.story.request);
    if (sticky) {
      this.k = this.last;
      this.stage = stageOf(this.story, this.k);
    }
    this.later();
  }

  get last() {
    return Math.max(0, this.run.steps.length - 1);
  }

  get running() {
    return this.session.running;
  }

  get busy() {
    return this.session.busy;
  }

  get canLive() {
    return this.session.canLive;
  }

  get engineState() {
    return this.session.state;
  }

  engineLine() {
    return this.session.line();
  }

  followRequest(id) {
    this.ask.answer.reset();
    this.setStory(id);
    this.walkTo(this.stage);
  }

  // The ceilings of the machine that the run was made on: its own word, else this machine's if it is
  // the same one.
  get own() {
    const { source = {}, versions = {} } = this.run.header;
    if (source.ceilings) return { flops: source.ceilings.flops_per_s, bytes: source.ceilings.read_bytes_per_s, date: source.ceilings.date };
    const same = (this.data?.ceilings ?? []).find((c) => c.device === source.device && c.processor === source.processor && c.torch === versions.torch && c.kernels === (source.kernels ?? "torch"));
    const flops = same?.flops[source.weights ?? source.dtype];
    return flops ? { flops, bytes: same.bytes, date: same.date } : null;
  }

  get missing() {
    return this.run.header.label === "LIVE" ? `The engine's machine has no measured ceilings for these conditions. Measure them there: ${COMMAND}` : `This run carries no ceilings of the machine it was recorded on. Runs recorded after ${COMMAND} do.`;
  }

  get machine() {
    return this.modelled.find((m) => m.id === this.machineId) ?? this.own;
  }

  get shared() {
    return this.run.header.label === "LIVE" && this.run.steps.some((s) => Object.keys(s.scheduled).some((id) => id.startsWith("other-")));
  }

  get beside() {
    return this.run.steps.some((s) => s.beside);
  }

  go(k, byUser) {
    this.session.unstick(byUser);
    this.k = clamp(k, 0, this.last);
    if (byUser) this.stage = this.stage === 2 ? 2 : stageOf(this.story, this.k);
    if (byUser) this.tell();
    this.later();
    this.link.commit();
  }

  // For those who hear the page: where the keys have led.
  tell() {
    const step = this.run.steps[this.k];
    if (step) this.live.textContent = `Step ${num(step.step)}, ${plural(stepTokens(step), "token")}, ${(stepUs(step) / 1000).toFixed(1)} ms`;
  }

  walkTo(stage) {
    this.session.unstick(true);
    this.stage = stage;
    this.k = clamp(standFor(this.story, stage), 0, this.last);
    this.later();
    this.link.commit();
  }

  showRun(i, k, request) {
    const runs = this.exp?.runs ?? [];
    if (!runs[i]) return;
    this.show(runs[i], { k, request, compare: runs[1 - i] ?? null, name: this.recordedName });
    this.link.commit();
  }

  // --- actions ------------------------------------------------------------------------------------
  toggleRun() {
    if (this.running) this.session.stop();
    else if (!this.busy) this.session.run();
  }

  // A presenter asks for a recorded run.
  playRecorded(e) {
    const name = this.recordedName ?? this.data?.first;
    if (e.defaultPrevented || !name) return;
    e.preventDefault();
    this.session.recordedInstead(name);
  }

  experiment(id) {
    if (!this.busy) this.session.experiment(id);
  }

  leaveExperiment() {
    this.exp = null;
    this.compare = null;
    this.later();
    this.link.commit();
  }

  showRecorded(name) {
    this.exp = null;
    this.session.recorded(name);
  }

  say(text, more = {}) {
    this.notice = text ? { text, ...more } : null;
    this.later();
  }

  changed() {
    this.gapTarget = Number(this.ask.gap.defaultValue);
    this.ttftTarget = Number(this.ask.ttft.defaultValue);
    this.later();
    this.link.commit();
  }

  copyLink() {
    this.link.copy();
  }

  togglePresent() {
    this.setTriggerValue?.("present", !this.present);
  }

  download() {
    const href = URL.createObjectURL(new Blob([JSON.stringify({ schema: "run/1", header: this.run.header, steps: this.run.steps })], { type: "application/json" }));
    const a = el("a");
    a.href = href;
    a.download = `${(this.run.header.scenario?.name || "run").toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "") || "run"}.run.json`;
    a.click();
    setTimeout(() => URL.revokeObjectURL(href), 1000);
  }

  key(e) {
    const target = e.composedPath()[0];
    if (e.defaultPrevented || e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(target?.tagName ?? "") || target?.isContentEditable) return;
    // A clicker sends the page keys; off the projector they scroll the long page, and Space presses what has focus.
    const clicker = this.present ? { PageUp: this.k - 1, PageDown: this.k + 1 } : {};
    const to = { ArrowLeft: this.k - 1, ArrowRight: this.k + 1, Home: 0, End: this.last, ...clicker }[e.key];
    if (to !== undefined) {
      e.preventDefault();
      this.go(to, true);
    } else if (e.key === " " && this.present && !/^(BUTTON|SUMMARY|A)$/.test(target?.tagName ?? "")) {
      e.preventDefault();
      if (!e.repeat) this.toggleRun();
    } else if (e.key === "Escape" && this.present) this.togglePresent();
  }

  // --- drawing ------------------------------------------------------------------------------------
  later() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = null;
      this.draw();
    });
  }

  draw() {
    if (!this.data) return;
    this.root.toggleAttribute("data-empty", !this.run.steps.length);
    this.ask.draw();
    this.walk.draw();
    this.lab.draw();
    this.label(this.stepBadge, true);
    this.drawSegs();
    this.steps.draw();
    this.roof.draw();
    this.drawRoofNote();
    this.box.draw();
    if (this.table.open) this.drawTable();
  }

  // Where the picture comes from. brief: the word alone, its detail on hover.
  label(node, brief, header = this.run.header) {
    const p = provenance(header);
    const about = [...p.about.filter(Boolean), this.shared ? "batch shared with others" : null, this.beside && header === this.run.header ? "timed beside other work" : null].filter(Boolean).join(", ");
    const key = `${p.word} ${about} ${brief}`;
    if (node.dataset.key === key) return;
    node.dataset.key = key;
    node.className = `prov ${p.cls}`;
    node.title = `${p.word}: ${about}`;
    node.replaceChildren(el("b", "", icon(p.icon), p.word), ...(brief ? [] : [el("span", "", about)]));
  }

  drawSegs() {
    const machines = [{ id: "own", short: this.run.header.label === "LIVE" ? "This machine" : "Its machine" }, ...this.modelled];
    seg(this.machines, machines.map((m) => [m.id, m.short]), this.machineId, (id) => {
      this.machineId = id;
      this.later();
      this.link.commit();
    });
    const runs = this.exp?.runs ?? [];
    this.which.hidden = runs.length < 2;
    if (runs.length > 1) seg(this.which, runs.map((r, i) => [String(i), r.header.scenario?.name || `Run ${i + 1}`]), String(runs.indexOf(this.run)), (i) => this.showRun(Number(i), this.k));
  }

  drawRoofNote() {
    const m = this.machine;
    if (m?.modelled) {
      this.label(this.roofBadge, true, { label: "MODELLED", source: { inputs: { machine: m.title, peak: short(m.flops, "FLOP/s"), bandwidth: short(m.bytes, "B/s") } } });
      this.roofNote.textContent = `A formula, not a measurement: the counts of this run against ${m.title}, its dense bf16 peak and its memory bandwidth. Real kernels stay below.`;
    } else {
      this.label(this.roofBadge, true);
      this.roofNote.textContent = m ? `Dots: FLOPs ÷ time of each forward pass. Roof: matrix products and memory reads of that machine, measured ${String(m.date ?? "").slice(0, 10)}.` : this.missing;
    }
  }

  drawTable() {
    if (!this.table.open) return;
    const head = el("tr", "");
    for (const h of ["Step", "Sequences", "Tokens", "FLOPs", "Bytes", "ms"]) head.append(el("th", "", h));
    const body = el("tbody", "");
    for (const step of this.run.steps.slice(-400)) {
      const tr = el("tr", "");
      const cells = [num(step.step), num(numSequences(step)), num(stepTokens(step)), step.work ? num(step.work.flops) : "–", step.work ? num(step.work.bytes) : "–", (stepUs(step) / 1000).toFixed(1)];
      for (const c of cells) tr.append(el("td", "n", c));
      body.append(tr);
    }
    this.tableBox.replaceChildren(el("table", "t", el("caption", "sr", `${plural(this.run.steps.length, "step")} of this run`), el("thead", "", head), body));
  }
}

function seg(node, choices, chosen, pick) {
  const key = JSON.stringify([choices, chosen]);
  if (node.dataset.key === key) return;
  node.dataset.key = key;
  node.replaceChildren(...choices.map(([id, label]) => {
    const b = button("", null, label);
    b.setAttribute("aria-pressed", String(id === chosen));
    b.onclick = () => pick(id);
    return b;
  }));
}
