// The player: holds one run, one position in it, and the pictures that show that position.
import { Bars } from "./bars.js";
import { readColors } from "./canvas.js";
import { Controls } from "./controls.js";
import { headline, isNotable } from "./events.js";
import { Header } from "./header.js";
import { icon } from "./icons.js";
import { Inspector } from "./inspector.js";
import { Keyboard, rove } from "./keyboard.js";
import { Lanes } from "./lanes.js";
import { drawLegend } from "./legend.js";
import { Links } from "./links.js";
import { Log } from "./log.js";
import { PoolCells } from "./poolcells.js";
import { PoolDensity } from "./pooldensity.js";
import { PoolSlots } from "./poolslots.js";
import { Cursor } from "./reducer.js";
import { RunInfo } from "./runinfo.js";
import { Tables } from "./tables.js";
import { Timeline } from "./timeline.js";
import { Tree } from "./tree.js";
import { Usage } from "./usage.js";
import { StepView } from "./view.js";
import { button, clamp, el, num } from "./util.js";

const FRAME = 1100; // milliseconds a step stays at speed 1
const COMMIT_AFTER = 500;
const DENSE_ABOVE = 1024;
const CARDS_HIGH = 560; // pixels: a taller pool of cards would hide most of itself below the screen
const NO_STEP = { step: 0, scheduled: {}, events: [], timing: {} };

export class Player {
  constructor(host) {
    this.host = host;
    this.k = 0;
    this.sel = null;
    this.userSel = false;
    this.speed = 1;
    this.present = false;
    this.timer = null;
    this.build();
    this.keyboard = new Keyboard(this);
    this.listen();
  }

  build() {
    this.header = new Header(this);
    this.lanesCap = el("span", "hide");
    this.queue = el("span", "r");
    this.laneBox = el("div", "lanebox");
    this.moment = el("div", "moment");
    this.poolCap = el("span", "hide");
    this.usage = new Usage();
    this.poolBox = el("div", "poolbox");
    this.inspector = new Inspector(this);
    this.log = new Log(this);
    this.timelines = [new Timeline(this), new Timeline(this)];
    this.tracks = el("div", "tracks", ...this.timelines.map((t) => t.root));
    this.controls = new Controls(this);
    this.tree = new Tree(this);
    this.tables = new Tables(this);
    this.legend = el("div", "legend");
    this.left = el(
      "div",
      "left",
      el("div", "cap c-lanes", el("b", "", "Sequences, in logical order"), this.lanesCap, this.queue),
      this.laneBox,
      this.moment,
      el("div", "cap c-pool", el("b", "", "Pool, in physical order"), this.poolCap, this.usage.root),
      this.poolBox,
    );
    this.links = new Links(this);
    this.left.append(this.links.wires.root);
    this.sideBox = el("div", "insphold", this.inspector.root);
    this.side = el("aside", "side", el("div", "", this.sideBox, el("h3", "logh", "What happened in this step"), this.log.root));
    this.bar = el("div", "player", this.controls.root, this.tracks, this.controls.sheet);
    this.root = el("section", "kv", el("div", "panel", this.header.root, el("div", "grid", this.left, this.side), this.bar), this.legend, this.tree.root, this.tables.root);
    this.root.setAttribute("aria-label", "Run player");
    this.live = el("div", "sr");
    this.live.setAttribute("aria-live", "polite");
    this.closeSheet = button("btn icon close", "Close", icon("close"));
    this.sheet = el("dialog", "sheet", this.closeSheet);
    this.sheet.setAttribute("aria-label", "Why are you here?");
    this.closeSheet.onclick = () => this.sheet.close();
    this.sheet.onclick = (e) => {
      if (e.target === this.sheet) this.sheet.close();
    };
    this.sheet.onclose = () => {
      this.sideBox.append(this.inspector.root);
      this.host.append(this.links.tipNode);
    };
    this.host.replaceChildren(el("div", "wrap", this.root), this.live, this.links.tipNode, this.sheet);
  }

  listen() {
    this.host.addEventListener("pointerdown", () => this.keyboard.claim());
    this.laneBox.addEventListener("click", (e) => {
      const ent = e.target.closest?.("[data-b]");
      if (ent) this.select(Number(ent.dataset.b));
    });
    for (const box of [this.poolBox, this.tree.root]) {
      box.addEventListener("click", (e) => {
        const c = e.target.closest?.("button[data-b]");
        if (c) this.select(Number(c.dataset.b));
      });
    }
    rove(this.laneBox, () => [...this.laneBox.querySelectorAll(".lane")].map((l) => [...l.querySelectorAll("button.ent")]).filter((r) => r.length));
    rove(this.poolBox, () => {
      const { cells, columns } = this.pool;
      const rows = [];
      for (let i = 0; i < cells.length; i += columns) rows.push(cells.slice(i, i + columns));
      return rows;
    });
    this.resize = new ResizeObserver(() => {
      cancelAnimationFrame(this.raf);
      this.raf = requestAnimationFrame(() => {
        if (!this.info || !this.root.clientWidth) return;
        this.measure();
        this.draw();
      });
    });
    this.resize.observe(this.left);
  }

  // Widths are read here and kept: reading them while drawing would make the browser lay the page
  // out again in the middle of it.
  measure() {
    const pad = getComputedStyle(this.left);
    this.size = {
      left: this.left.clientWidth - parseFloat(pad.paddingLeft) - parseFloat(pad.paddingRight),
      track: this.timelines[0].root.clientWidth,
      trackHeight: this.timelines[0].root.clientHeight,
    };
  }

  dispose() {
    this.pause();
    this.links.dispose();
    this.tree.dispose();
    clearTimeout(this.commitTimer);
    cancelAnimationFrame(this.raf);
    this.resize.disconnect();
    this.keyboard.dispose();
  }

  // Streamlit calls this on every change of data or theme. A run that is already loaded keeps its
  // position; only what is new in `data` is taken over.
  update({ data, setStateValue, setTriggerValue }) {
    const before = this.data ?? {};
    this.data = data;
    this.setStateValue = setStateValue;
    this.setTriggerValue = setTriggerValue;
    if (data.id !== before.id || !this.info) this.load(data);
    else if (data.step !== before.step && data.step !== this.committedStep && Number.isInteger(data.step)) this.k = clamp(data.step, 0, this.last);
    if (data.present !== before.present) this.setPresent(Boolean(data.present), false);
    this.root.dataset.focus = data.focus || "pool";
    if (data.height) this.root.style.setProperty("--tall", `${data.height}px`);
    this.colors = readColors(this.root);
    for (const t of this.timelines) t.drawn = null;
    this.measure();
    this.draw();
  }

  load(data) {
    this.pause();
    this.runs = [data.run, data.compare].filter(Boolean).map((given) => {
      const run = typeof given === "string" ? JSON.parse(given) : given;
      return { run, info: new RunInfo(run), cursor: new Cursor(run) };
    });
    this.k = Number.isInteger(data.step) ? data.step : 0;
    this.sel = Number.isInteger(data.block) ? data.block : null;
    this.userSel = this.sel !== null;
    const span = Math.max(...this.runs.map((r) => r.run.steps.length));
    const most = Math.max(...this.runs.map((r) => r.info.maxStepTokens));
    this.runs.forEach((r, i) => {
      this.timelines[i].load(r.info, span, most);
      this.timelines[i].name(this.runs.length > 1 ? r.info.name : null);
    });
    this.root.classList.toggle("two", this.runs.length > 1);
    this.timelines[1].root.hidden = this.runs.length < 2;
    this.header.choices(this.runs.map((r) => r.info));
    this.show(0);
  }

  // Which of two compared runs the pictures show; the step stays.
  show(which) {
    this.which = which;
    Object.assign(this, this.runs[which]);
    this.last = this.run.steps.length - 1;
    this.k = clamp(this.k, 0, Math.max(0, this.last));
    if (this.sel !== null && this.sel >= this.info.n) this.sel = null;
    this.header.load(this.info, this.runs.length > 1 ? null : this.data.title);
    this.timelines.forEach((t, i) => t.root.classList.toggle("on", i === which));
    const { n, bs } = this.info;
    const small = n <= 64 && bs <= 8 && Math.ceil(n / 8) * (16 * bs + 46) <= CARDS_HIGH;
    this.lanes = this.info.maxTokens <= 96 && this.info.maxLanes <= 16 ? new Lanes(this) : new Bars(this);
    this.pool = n > DENSE_ABOVE ? new PoolDensity(this) : small ? new PoolSlots(this) : new PoolCells(this);
    this.laneBox.replaceChildren(this.lanes.root);
    this.poolBox.replaceChildren(this.pool.root);
    this.root.dataset.size = n > DENSE_ABOVE ? "dense" : small ? "small" : "middle";
    this.views = [this.lanes, this.pool, this.tree];
    for (const v of [...this.views, this.inspector, this.log, this.tables]) v.load(this.info);
    this.lanesCap.textContent = this.lanes instanceof Lanes ? "each box is a table entry: logical → physical" : "a bar is one table entry; a pale top means shared";
    this.poolCap.textContent = `${bs} ${bs === 1 ? "slot" : "slots"} a block`;
    drawLegend(this.legend, this.info, this.root.dataset.size, this.lanes instanceof Lanes);
    this.empty = this.last < 0;
  }

  draw() {
    const keep = this.focused?.dataset?.key;
    const state = this.empty ? this.cursor.state : this.cursor.seek(this.k);
    const step = this.empty ? NO_STEP : this.run.steps[this.k];
    const sv = (this.sv = new StepView(this.info, state, step));
    if (this.sel === null) this.sel = sv.copy?.src ?? state.tables.get(state.running[0])?.findLast((b) => b >= 0) ?? 0;
    this.lanes.draw(sv);
    this.pool.draw(sv);
    this.pool.select(this.sel);
    this.drawHeadline(step);
    this.usage.draw(sv);
    this.drawQueue(sv);
    this.inspector.draw(sv, this.sel);
    this.log.draw(sv, this.cursor.notes);
    this.runs.forEach((r, i) => this.timelines[i].draw(Math.min(this.k, r.run.steps.length - 1)));
    this.controls.draw(this.k, Math.max(0, this.last), sv.tokensInStep, step.timing);
    this.tree.draw(sv);
    this.tables.draw();
    this.roveLanes();
    if (keep) this.root.querySelector(`[data-key="${CSS.escape(keep)}"]`)?.focus({ preventScroll: true });
    this.links.settled = false;
    this.links.show();
    // For what stands beside the player on a page and follows it.
    this.host.dispatchEvent(new CustomEvent("kv-step", { bubbles: true, composed: true, detail: { step: this.k } }));
  }

  // Exactly one entry of the lanes can be reached with the tab key.
  roveLanes() {
    const all = [...this.laneBox.querySelectorAll("button.ent")];
    if (all.length && !all.some((b) => b.tabIndex === 0)) all[0].tabIndex = 0;
  }

  drawHeadline(step) {
    const h = this.empty ? { title: "Empty", icon: "dot", text: "This run has no steps: its scenario has no requests." } : headline(step, this.cursor.notes, this.info);
    const words = el("span", "words", h.text.replaceAll(" → ", "\u00a0→\u00a0"));
    if (h.more) words.append(` And ${h.more} more like it.`);
    this.moment.className = `moment ${h.event?.type === "block_copied" ? "cow" : ""}`;
    this.moment.replaceChildren(icon(h.icon), el("span", "k", h.title), words);
    this.headlineText = `Step ${this.k}. ${h.title}. ${h.text}`;
  }

  drawQueue(sv) {
    const { state } = sv;
    const budget = this.info.engine.max_num_batched_tokens;
    const held = state.running.filter((id) => state.seqs.get(id).status === "held").length;
    const parts = [`${state.running.length - held} running, ${held ? `${held} ended, ` : ""}${state.waiting.length} waiting`];
    const used = Math.min(100, (100 * sv.tokensInStep) / budget);
    const bar = el("span", "budget");
    const fill = el("i");
    fill.style.width = `${used}%`;
    bar.append(fill);
    this.queue.replaceChildren(el("span", "", parts[0]), el("span", "bud", el("b", "", num(sv.tokensInStep)), ` of ${num(budget)} budget tokens`, bar));
  }

  showOf(timeline) {
    const i = this.timelines.indexOf(timeline);
    if (i !== this.which) this.choose(i);
  }

  choose(i) {
    this.show(i);
    this.sv = null;
    this.draw();
  }

  // --- position -----------------------------------------------------------------------------------
  go(k) {
    const to = clamp(k, 0, Math.max(0, this.last));
    if (to === this.k && this.sv) return;
    this.k = to;
    if (!this.userSel && !this.empty) {
      const copy = this.run.steps[to].events.find((e) => e.type === "block_copied");
      if (copy) this.sel = copy.src;
    }
    this.draw();
    if (!this.timer) this.say(this.headlineText);
  }

  jumpTo(k) {
    this.pause();
    this.go(k);
    this.commit();
  }

  jump() {
    if (this.empty) return;
    for (let j = this.k + 1; j <= this.last; j++) if (isNotable(this.run.steps[j])) return void this.go(j);
    this.go(this.last);
  }

  toggle() {
    if (this.timer) {
      this.pause();
      this.commit();
    } else this.play();
  }

  play() {
    if (this.empty) return;
    if (this.k >= this.last) this.go(0);
    const tick = () => {
      if (this.k >= this.last) {
        this.pause();
        this.commit();
        return;
      }
      this.go(this.k + 1);
      this.timer = setTimeout(tick, FRAME / this.speed);
    };
    this.timer = setTimeout(tick, FRAME / this.speed / 2);
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

  // Tells Python where the reader has stopped, once they have.
  commit() {
    clearTimeout(this.commitTimer);
    this.commitTimer = setTimeout(() => {
      if (this.timer || this.committedStep === this.k) return;
      this.committedStep = this.k;
      this.setStateValue?.("step", this.k);
    }, COMMIT_AFTER);
  }

  // --- selection, linking -------------------------------------------------------------------------
  select(b) {
    if (this.empty) return;
    this.sel = b;
    this.userSel = true;
    this.pool.select(b);
    this.inspector.draw(this.sv, b);
    if (this.phone) this.openSheet();
    clearTimeout(this.selTimer);
    this.selTimer = setTimeout(() => this.setStateValue?.("block", b), 150);
  }

  get phone() {
    return window.matchMedia("(max-width: 640px)").matches || this.root.clientWidth < 560;
  }

  openSheet() {
    this.sheet.append(this.inspector.root, this.links.tipNode); // a tooltip outside would lie under the sheet
    if (!this.sheet.open) this.sheet.showModal();
  }

  light(t, node = null) {
    this.links.light(t, node);
  }

  tip(words, at) {
    this.links.tip(words, at);
  }

  get focused() {
    return this.host.getRootNode().activeElement;
  }

  say(words) {
    this.live.textContent = words;
  }

  setPresent(on, byUser) {
    this.present = on;
    this.host.dataset.scale = this.root.dataset.scale = on ? "present" : "normal";
    this.header.showPresent(on);
    if (!byUser) return;
    this.colors = readColors(this.root);
    this.measure();
    this.draw();
    this.setTriggerValue?.("present", on);
  }
}
