// The player: holds one run, one position in it, and the pictures that show that position.
import { readColors } from "./canvas.js";
import { Controls } from "./controls.js";
import { Difference } from "./difference.js";
import { Header } from "./header.js";
import { icon } from "./icons.js";
import { Inspector } from "./inspector.js";
import { Keyboard } from "./keyboard.js";
import { KINDS, ANY, kindsOf } from "./kinds.js";
import { Lanes } from "./lanes.js";
import { drawLegend } from "./legend.js";
import { Links } from "./links.js";
import { Log } from "./log.js";
import { openRun } from "./packing.js";
import { Pane } from "./pane.js";
import { Playback } from "./playback.js";
import { RunInfo } from "./runinfo.js";
import { Tables } from "./tables.js";
import { Timeline } from "./timeline.js";
import { Tree } from "./tree.js";
import { button, clamp, el, keepClicks } from "./util.js";

const BOTH_ABOVE = 1080; // pixels, in type of the usual size: two runs fit side by side

export class Player extends Playback {
  constructor(host) {
    super();
    this.host = host;
    this.which = 0;
    this.wantsBoth = true;
    this.present = false;
    this.kind = ANY;
    this.loading = true;
    this.build();
    this.keyboard = new Keyboard(this);
    this.listen();
  }

  // Of the run that is looked at: with two side by side, the one that was touched last.
  get pane() {
    return this.panes[this.which];
  }

  get run() {
    return this.pane.run;
  }

  get info() {
    return this.pane.info;
  }

  get cursor() {
    return this.pane.cursor;
  }

  get sv() {
    return this.pane.sv;
  }

  get pool() {
    return this.pane.pool;
  }

  get lanes() {
    return this.pane.lanes;
  }

  get sel() {
    return this.pane.sel;
  }

  get empty() {
    return this.last < 0;
  }

  build() {
    this.header = new Header(this);
    this.panes = [new Pane(this), new Pane(this)];
    this.difference = new Difference();
    this.inspector = new Inspector(this);
    this.log = new Log(this);
    this.timelines = [new Timeline(this), new Timeline(this)];
    this.tracks = el("div", "tracks", ...this.timelines.map((t) => t.root));
    this.controls = new Controls(this);
    this.tree = new Tree(this);
    this.tables = new Tables(this);
    this.legend = el("div", "legend");
    this.links = new Links(this);
    this.sideBox = el("div", "insphold", this.inspector.root);
    this.side = el("aside", "side", el("div", "", this.sideBox, el("h3", "logh", "What happened in this step"), this.log.root));
    this.bar = el("div", "player", this.controls.root, this.tracks, this.controls.sheet);
    this.grid = el("div", "grid");
    this.root = el("section", "kv", el("div", "panel", this.header.root, this.difference.root, this.grid, this.bar), this.legend, this.tree.root, this.tables.root);
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
  }

  listen() {
    this.host.addEventListener("pointerdown", () => this.keyboard.claim());
    keepClicks(this.root);
    this.tree.root.addEventListener("click", (e) => {
      const c = e.target.closest?.("button[data-b], button[data-node]");
      if (c?.dataset.b) this.select(Number(c.dataset.b));
      else if (c) this.selectNode(Number(c.dataset.node));
    });
    this.resize = new ResizeObserver(() => {
      cancelAnimationFrame(this.raf);
      this.raf = requestAnimationFrame(() => {
        if (!this.info || !this.root.clientWidth) return;
        this.lay();
        this.draw();
      });
    });
    this.resize.observe(this.root);
  }

  measure() {
    this.size = { track: this.timelines[0].root.clientWidth, trackHeight: this.timelines[0].root.clientHeight };
    for (const p of this.shown) p.measure();
  }

  dispose() {
    this.pause();
    this.links.dispose();
    this.tree.dispose();
    clearTimeout(this.commitTimer);
    cancelAnimationFrame(this.raf);
    this.resize.disconnect();
    this.keyboard.dispose();
    for (const p of this.panes) p.pool?.dispose?.();
  }

  // Streamlit calls this on every change of data or theme. A run that is already loaded keeps its
  // position; only what is new in `data` is taken over. A long run comes compressed, and is drawn
  // when it has been opened, unless another has come by then.
  update({ data, setStateValue, setTriggerValue }) {
    const before = this.data ?? {};
    this.data = data;
    this.setStateValue = setStateValue;
    this.setTriggerValue = setTriggerValue;
    if (data.id !== this.opened) {
      this.opened = data.id;
      const runs = [data.run, data.compare].filter(Boolean).map(openRun);
      const take = (opened) => {
        if (this.opened !== data.id) return;
        this.load(opened, this.data);
        this.adapt(this.data, {});
      };
      if (runs.some((r) => r instanceof Promise)) Promise.all(runs).then(take);
      else take(runs);
      return;
    }
    if (!this.info) return;
    if (data.step !== before.step && data.step !== this.committedStep && Number.isInteger(data.step)) this.k = clamp(data.step, 0, Math.max(0, this.last));
    this.adapt(data, before);
  }

  adapt(data, before) {
    if (data.present !== before.present) this.setPresent(Boolean(data.present), false);
    this.root.dataset.focus = data.focus || "pool";
    if (data.height) this.root.style.setProperty("--tall", `${data.height}px`);
    this.colors = readColors(this.root);
    for (const t of this.timelines) t.drawn = null;
    this.lay();
    this.draw();
  }

  load(opened, data) {
    this.pause();
    this.loading = false;
    if (!this.root.isConnected) this.host.replaceChildren(el("div", "wrap", this.root), this.live, this.links.tipNode, this.sheet);
    this.runs = opened.map((run) => {
      const info = new RunInfo(run);
      return { run, info, cursor: info.cursor };
    });
    this.last = Math.max(...opened.map((run) => run.steps.length)) - 1;
    this.k = clamp(Number.isInteger(data.step) ? data.step : 0, 0, Math.max(0, this.last));
    this.which = 0;
    const most = Math.max(...this.runs.map((r) => r.info.maxStepTokens));
    this.runs.forEach((r, i) => {
      this.timelines[i].load(r.info, this.last + 1, most);
      this.timelines[i].name(this.runs.length > 1 ? r.info.name : null);
      Object.assign(this.panes[i], { sel: null, node: null, userSel: false, sv: null });
      this.panes[i].load(r);
    });
    const begin = this.panes[0];
    if (Number.isInteger(data.block) && data.block < begin.info.n) Object.assign(begin, { sel: data.block, userSel: true });
    this.grid.replaceChildren(...this.panes.slice(0, opened.length).map((p) => p.root), this.side);
    this.root.classList.toggle("two", this.runs.length > 1);
    this.timelines[1].root.hidden = this.runs.length < 2;
    this.header.choices(this.runs.map((r) => r.info));
    this.listed = null; // lay() lists the kinds, when it knows which runs are shown
  }

  // Two runs side by side where there is room for them and the reader has not chosen one.
  get both() {
    return this.runs.length > 1 && this.wantsBoth && this.wide;
  }

  get shown() {
    return this.both ? this.panes : [this.pane];
  }

  // After a change of size, and of what is shown.
  lay() {
    this.wide = this.root.clientWidth >= BOTH_ABOVE * (this.colors?.scale ?? 1) && !this.phone;
    const { both } = this;
    this.root.classList.toggle("both", both);
    this.panes.forEach((p, i) => (p.root.hidden = !both && i !== this.which));
    this.difference.root.hidden = this.runs.length < 2;
    const listed = both ? "both" : this.which;
    if (listed !== this.listed) this.setKinds();
    this.listed = listed;
    this.look();
    this.measure();
  }

  // The pictures of which there is one, for the run that is looked at.
  look() {
    const { pane, info } = this;
    this.header.load(info, this.runs.length > 1 ? null : this.data.title);
    this.timelines.forEach((t, i) => t.root.classList.toggle("on", i === this.which));
    this.panes.forEach((p, i) => p.root.classList.toggle("looked", i === this.which));
    this.root.dataset.size = pane.size;
    if (this.looked === pane && this.lookedAt === info) return;
    this.looked = pane;
    this.lookedAt = info;
    for (const v of [this.tree, this.inspector, this.log, this.tables]) v.load(info);
    drawLegend(this.legend, info, pane.size, pane.lanes instanceof Lanes);
  }

  draw() {
    const keep = this.focused?.dataset?.key;
    const { shown } = this;
    for (const p of shown) p.draw(this.k);
    if (this.runs.length > 1) {
      for (const p of this.panes) if (!shown.includes(p)) p.seek(this.k);
      this.difference.draw(this.panes);
    }
    this.runs.forEach((r, i) => this.timelines[i].draw(Math.min(this.k, r.run.steps.length - 1)));
    this.controls.draw(this.k, Math.max(0, this.last), this.sv.tokensInStep, this.pane.step.timing, this.kinds.get(this.kind) ?? []);
    this.drawSide();
    this.tables.draw();
    if (keep) this.root.querySelector(`[data-key="${CSS.escape(keep)}"]`)?.focus({ preventScroll: true });
    this.links.settled = false;
    this.links.show();
    // For what stands beside the player on a page and follows it.
    this.host.dispatchEvent(new CustomEvent("kv-step", { bubbles: true, composed: true, detail: { step: this.k } }));
  }

  drawSide() {
    const { pane } = this;
    if (pane.node !== null) this.inspector.drawNode(pane.sv, pane.node);
    else this.inspector.draw(pane.sv, pane.sel);
    this.log.draw(pane.sv, pane.cursor.notes);
    this.tree.draw(pane.sv);
  }

  get headlineText() {
    return this.shown.map((p) => (this.both ? `${p.info.name}: ` : "") + p.headlineText).join(" ");
  }

  // --- which of two runs ---------------------------------------------------------------------------
  showOf(timeline) {
    this.choose(this.timelines.indexOf(timeline), this.both);
  }

  // Show run i; -1: both, side by side.
  choose(i, both = i < 0) {
    this.wantsBoth = both;
    this.which = Math.max(0, i);
    this.lay();
    this.draw();
  }

  // A pane was touched: the inspector, the log and the tables turn to it.
  activate(pane) {
    const i = this.panes.indexOf(pane);
    if (!this.both || i === this.which) return;
    this.which = i;
    this.look();
    this.drawSide();
    this.tables.draw();
  }

  // --- kinds of event ------------------------------------------------------------------------------
  setKinds() {
    this.kinds = kindsOf(this.shown.map((p) => p.run));
    if (!this.kinds.has(this.kind)) this.kind = this.kinds.has(ANY) ? ANY : ([...this.kinds.keys()][0] ?? ANY);
    this.controls.choices(this.kinds, this.kind);
  }

  chooseKind(kind) {
    this.kind = kind;
    for (const t of this.timelines) t.drawn = null;
    this.draw();
  }

  // The event types that the timeline marks; null: all that are worth a mark.
  get marked() {
    return this.kind === ANY ? null : KINDS[this.kind];
  }

  // --- selection, linking -------------------------------------------------------------------------
  select(b) {
    const { pane } = this;
    if (pane.empty) return;
    Object.assign(pane, { sel: b, node: null, userSel: true });
    pane.pool.select(b);
    this.inspector.draw(pane.sv, b);
    if (this.phone) this.openSheet();
    if (this.which) return; // Python knows of blocks of the first run only
    clearTimeout(this.selTimer);
    this.selTimer = setTimeout(() => this.setStateValue?.("block", b), 150);
  }

  selectNode(id) {
    this.pane.node = id;
    this.inspector.drawNode(this.sv, id);
    if (this.phone) this.openSheet();
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
    this.lay();
    this.draw();
    this.setTriggerValue?.("present", on);
  }
}
