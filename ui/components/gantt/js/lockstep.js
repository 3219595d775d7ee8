// The instrument: one or more runs, one cursor. What is lit, chosen and targeted is shared too.
import { readColors } from "../../run_player/js/canvas.js";
import { Controls } from "../../run_player/js/controls.js";
import { headline, isNotable } from "../../run_player/js/events.js";
import { icon } from "../../run_player/js/icons.js";
import { Keyboard } from "../../run_player/js/keyboard.js";
import { readRun } from "../../run_player/js/packing.js";
import { Cursor } from "../../run_player/js/reducer.js";
import { RunInfo } from "../../run_player/js/runinfo.js";
import { button, clamp, el, num } from "../../run_player/js/util.js";
import { Figures } from "./figures.js";
import { Head } from "./head.js";
import { Lane } from "./lane.js";
import { Requests } from "./requests.js";
import { Rows } from "./rows.js";
import { tipOf } from "./words.js";

const FRAME_MS = 700; // a step stays so long at speed 1
const COMMIT_AFTER_MS = 500;
const KEYS = [
  ["Space", "play or pause"],
  ["← →", "one step back or on, in all runs together"],
  ["Home End", "first and last step"],
  ["E", "to the next step in which somebody waits, is refused or sent away"],
  ["Tab", "to the requests; arrow keys then go from one to the next, Enter keeps one chosen"],
  ["?", "this list"],
];

export class Lockstep {
  constructor(host) {
    this.host = host;
    this.k = 0;
    this.speed = 1;
    this.present = false;
    this.chosen = null;
    this.lit = null;
    this.size = { track: 0, trackHeight: 0 };
    this.sheet = { open: false }; // the player's keyboard asks: nothing here lies over the page
    this.build();
    this.keyboard = new Keyboard(this);
    this.listen();
  }

  build() {
    this.head = new Head(this);
    this.pictures = el("div", "pictures");
    this.controls = new Controls(this, KEYS);
    this.axisSwitch = this.segments();
    this.figures = new Figures(this);
    this.requests = new Requests(this);
    this.rows = new Rows(this);
    this.legend = el("div", "glegend");
    this.bar = el("div", "player", this.controls.root, this.axisSwitch, this.controls.sheet);
    const side = el("aside", "side", this.figures.root, this.requests.root);
    this.root = el("section", "kv gantt", el("div", "panel", this.head.root, el("div", "two-up", this.pictures, side), this.bar), this.legend, this.rows.root);
    this.root.setAttribute("aria-label", "Runs in lockstep");
    this.live = el("div", "sr");
    this.live.setAttribute("aria-live", "polite");
    this.tipNode = el("div", "tip");
    this.tipNode.setAttribute("role", "tooltip");
    this.host.replaceChildren(el("div", "wrap", this.root), this.live, this.tipNode);
  }

  segments() {
    const make = (axis, words) => {
      const b = button("", null, words);
      b.dataset.axis = axis;
      b.onclick = () => this.setAxis(axis);
      return b;
    };
    this.axisButtons = [make("steps", "Steps"), make("ms", "Milliseconds")];
    const box = el("span", "seg axis", ...this.axisButtons);
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", "What the width of a step stands for");
    return box;
  }

  listen() {
    this.host.addEventListener("pointerdown", () => this.keyboard.claim());
    this.pictures.addEventListener("click", (e) => {
      const lane = this.lanes.find((l) => l.picture.root.contains(e.target));
      if (!lane) return;
      this.pause();
      this.goIn(lane, lane.picture.stepAt(e.clientX - lane.picture.root.getBoundingClientRect().left));
      this.commit();
    });
    for (const type of ["pointerover", "focusin"]) this.host.addEventListener(type, (e) => this.point(e));
    this.host.addEventListener("pointerleave", () => this.point(null));
    this.host.addEventListener("focusout", () => this.tip(null));
    this.resize = new ResizeObserver(() => {
      cancelAnimationFrame(this.raf);
      this.raf = requestAnimationFrame(() => this.lanes && this.layout());
    });
    this.resize.observe(this.pictures);
  }

  dispose() {
    this.pause();
    clearTimeout(this.commitTimer);
    cancelAnimationFrame(this.raf);
    this.resize.disconnect();
    this.keyboard.dispose();
  }

  update({ data, setStateValue, setTriggerValue }) {
    const before = this.data;
    this.data = data;
    this.setStateValue = setStateValue;
    this.setTriggerValue = setTriggerValue;
    if (!this.lanes || data.id !== before?.id) this.load(data);
    if (!before || data.present !== before.present) this.setPresent(Boolean(data.present), false);
    this.head.draw(data);
    this.colors = readColors(this.root);
    this.layout();
  }

  load(data) {
    this.pause();
    const read = data.lanes.map((given) => {
      const run = readRun(given.run);
      return { name: given.name, run, info: new RunInfo(run), serving: JSON.parse(given.serving) };
    });
    this.mostTokens = Math.max(1, ...read.map((r) => r.info.maxStepTokens));
    this.lanes = read.map((r, i) => new Lane(this, r, i));
    for (const lane of this.lanes) lane.cursor = new Cursor(lane.run);
    this.pictures.replaceChildren(...this.lanes.map((l) => l.root));
    const timed = this.lanes.every((l) => l.serving.ends_us !== null);
    const { place } = data;
    this.unit = timed ? "ms" : "steps";
    this.axis = timed && place.axis === "ms" ? "ms" : "steps";
    this.axisSwitch.hidden = !timed;
    this.last = Math.max(0, ...this.lanes.map((l) => l.last));
    this.k = clamp(Number.isInteger(place.step) ? place.step : 0, 0, this.last);
    this.chosen = this.lanes.some((l) => l.picture.rows.has(place.request)) ? place.request : null;
    this.targets = this.figures.load(this.lanes, this.unit, { ttft: place.ttft, gap: place.gap });
    this.pressure = this.lanes.some((l) => l.serving.summary.preemptions > 0);
    this.requests.load(this.lanes);
    this.rows.load(this.lanes);
    this.committed = null;
    this.drawLegend();
  }

  // Sizes are read here, pictures drawn, and everything put where it stands.
  layout() {
    const width = Math.floor(this.lanes[0].root.clientWidth);
    if (width < 60) return;
    const u = this.colors.scale;
    const gutter = (width < 420 * u ? 42 : 52) * u;
    const unit = this.unit;
    const worst = Math.max(...this.lanes.map((l) => (unit === "ms" ? l.serving.summary.in_us : l.serving.summary.in_steps).worst_gap ?? 1));
    const span = this.axis === "ms" ? Math.max(...this.lanes.map((l) => l.serving.summary.duration_us)) : this.last + 1;
    const rowsDrawn = Math.max(...this.lanes.map((l) => l.picture.used));
    for (const lane of this.lanes) {
      lane.draw({ width, u, unit, axis: this.axis, span, gutter, topGap: unit === "ms" || worst > 1 ? worst * 1.08 : 0, rowsDrawn, pictures: this.lanes.length, present: this.present }, this.mostTokens);
    }
    const track = this.lanes[0]?.track.root;
    this.size = { track: width - gutter, trackHeight: track?.clientHeight ?? 0 };
    for (const b of this.axisButtons) b.setAttribute("aria-pressed", String(b.dataset.axis === this.axis));
    this.drawTargets();
    this.draw();
    this.light(this.lit);
  }

  draw() {
    this.lanes.forEach((lane) => {
      const k = this.stepIn(lane);
      lane.picture.at(k);
      lane.track.draw(k);
      const step = lane.run.steps[k];
      if (!step) return;
      lane.cursor.seek(k);
      const h = headline(step, lane.cursor.notes, lane.info);
      const over = this.k > lane.last && this.axis === "steps";
      lane.moment.replaceChildren(icon(over ? "flag" : h.icon), el("b", "", over ? "Done" : `${h.title}`), over ? ` after ${num(lane.last + 1)} steps.` : ` ${h.text}`);
      lane.root.classList.toggle("over", over);
    });
    const lead = this.lead;
    const tokens = lead.info.tokens[this.stepIn(lead)] ?? 0;
    this.controls.draw(this.k, this.last, tokens, lead.run.steps[this.stepIn(lead)]?.timing);
  }

  // The run whose steps the cursor counts: the longest.
  get lead() {
    return this.lanes.reduce((a, b) => (b.last > a.last ? b : a));
  }

  // Where a run stands: in the same step as the others, or on a clock at the same moment.
  stepIn(lane) {
    if (this.axis === "steps" || lane === this.lead) return Math.min(this.k, lane.last);
    const moment = this.lead.serving.ends_us[Math.min(this.k, this.lead.last)];
    const found = lane.serving.ends_us.findIndex((end) => end >= moment);
    return found < 0 ? lane.last : found;
  }

  goIn(lane, k) {
    if (this.axis === "steps" || lane === this.lead) return this.go(k);
    const moment = lane.serving.ends_us[k];
    const found = this.lead.serving.ends_us.findIndex((end) => end >= moment);
    return this.go(found < 0 ? this.last : found);
  }

  showOf() {} // the player's timeline asks for its run to be shown: here all are

  // --- position -------------------------------------------------------------------------------------
  go(k) {
    const to = clamp(k, 0, this.last);
    if (to === this.k) return;
    this.k = to;
    this.draw();
    if (!this.timer) this.say(`Step ${num(this.k)}. ${this.lanes.map((l) => `${l.name}: ${l.moment.textContent}`).join(" ")}`);
  }

  jump() {
    for (let k = this.k + 1; k <= this.last; k++) if (this.lanes.some((l) => l.run.steps[k] && isNotable(l.run.steps[k]))) return void this.go(k);
    this.go(this.last);
  }

  toggle() {
    if (this.timer) {
      this.pause();
      this.commit();
    } else this.play();
  }

  play() {
    if (this.k >= this.last) this.go(0);
    const tick = () => {
      if (this.k >= this.last) {
        this.pause();
        this.commit();
        return;
      }
      this.go(this.k + 1);
      this.timer = setTimeout(tick, FRAME_MS / this.speed);
    };
    this.timer = setTimeout(tick, FRAME_MS / this.speed / 2);
    this.controls.playing(true);
  }

  pause() {
    if (!this.timer) return;
    clearTimeout(this.timer);
    this.timer = null;
    this.controls.playing(false);
  }

  setSpeed(v) {
    this.speed = v;
  }

  // --- what is shared -------------------------------------------------------------------------------
  setTarget(name, value) {
    this.targets = { ...this.targets, [name]: value };
    this.touched = true;
    this.drawTargets();
  }

  drawTargets() {
    this.figures.draw(this.lanes, this.targets, this.pressure);
    for (const lane of this.lanes) lane.picture.target(this.targets.gap);
    this.requests.drawMarks(this.lanes, this.targets, this.unit);
  }

  setAxis(axis) {
    this.axis = axis;
    this.layout();
    this.commit();
  }

  choose(sequence) {
    this.chosen = this.chosen === sequence ? null : sequence;
    this.light(this.lit);
    this.commit();
  }

  light(sequence) {
    this.lit = sequence;
    const shown = sequence ?? this.chosen;
    for (const lane of this.lanes) lane.picture.light(shown);
    this.requests.draw(shown, this.chosen, this.lanes, this.unit);
  }

  point(e) {
    const node = e?.target;
    if (node?.closest?.(".chip, .player select")) return;
    const bar = node?.closest?.("[data-s]") ?? null;
    const tip = node?.closest?.("[data-tip]");
    if (e?.type === "pointerover" && (bar?.dataset.s ?? null) !== this.lit) this.light(bar?.dataset.s ?? null);
    if (bar) {
      const lane = this.lanes.find((l) => l.picture.root.contains(bar));
      this.tip(tipOf(lane.picture.rows.get(bar.dataset.s), this.unit, lane.info.engine), { left: e.clientX, top: bar.getBoundingClientRect().top, width: 0, bottom: bar.getBoundingClientRect().bottom });
    } else if (tip) this.tip(tip.dataset.tip, tip.getBoundingClientRect());
    else if (!node?.classList?.contains("rng")) this.tip(null);
  }

  tip(words, r) {
    const n = this.tipNode;
    n.classList.toggle("on", Boolean(words));
    if (!words) return;
    n.textContent = words;
    n.style.left = `${clamp(r.left + r.width / 2 - n.offsetWidth / 2, 8, Math.max(8, window.innerWidth - n.offsetWidth - 8))}px`;
    n.style.top = `${r.top > n.offsetHeight + 14 ? r.top - n.offsetHeight - 8 : r.bottom + 8}px`;
  }

  // --- the page -------------------------------------------------------------------------------------
  // What the link says: only what the reader has set.
  place() {
    const { place } = this.data;
    const scale = this.unit === "ms" ? 1000 : 1;
    const told = (name) => (this.touched ? this.targets[name] / scale : place[name] ?? null);
    return { step: this.k, request: this.chosen, axis: this.axis, ttft: told("ttft"), gap: told("gap") };
  }

  // Tells Python where the reader has stopped, once they have.
  commit() {
    clearTimeout(this.commitTimer);
    this.commitTimer = setTimeout(() => {
      const now = JSON.stringify(this.place());
      if (this.timer || this.committed === now) return;
      this.committed = now;
      this.setStateValue?.("place", { id: this.data.id, ...this.place() });
    }, COMMIT_AFTER_MS);
  }

  setPresent(on, tell) {
    this.present = on;
    this.root.dataset.scale = on ? "present" : "";
    this.head.showPresent(on);
    if (tell) this.setTriggerValue?.("present", on);
  }

  say(words) {
    this.live.textContent = words;
  }

  drawLegend() {
    const item = (cls, words) => el("span", "", el("i", cls), words);
    const out = [item("k-prefill", "prompt computed"), item("k-decode", "one token"), item("k-first", "first token")];
    const kinds = new Set(this.lanes.flatMap((l) => l.serving.stays.flatMap((s) => s[3].map((k) => k[0]))));
    if (kinds.has("again")) out.push(item("k-again", "computed again"), item("k-away", "sent away"));
    if (kinds.has("held")) out.push(item("k-held", "ended, place kept"));
    if (kinds.has("stalled")) out.push(item("k-stalled", "runs, got no token"));
    out.push(item("k-empty", "empty place"), item("k-wait", "waits in the queue"), item("k-late", "gap over the target"));
    this.legend.replaceChildren(...out);
  }
}
