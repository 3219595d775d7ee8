// One run at one step: its lanes, its budget, its sentence and its pool. The player shows one pane,
// or two side by side at the same step. Its views take it for the player: it has what they ask for.
import { Bars } from "./bars.js";
import { Budget } from "./budget.js";
import { headline } from "./events.js";
import { icon } from "./icons.js";
import { rove } from "./keyboard.js";
import { Lanes } from "./lanes.js";
import { PoolCells } from "./poolcells.js";
import { PoolDensity } from "./pooldensity.js";
import { PoolSlots } from "./poolslots.js";
import { provenance } from "./provenance.js";
import { Usage } from "./usage.js";
import { StepView } from "./view.js";
import { Wires } from "./wires.js";
import { clamp, el, num } from "./util.js";

const DENSE_ABOVE = 1024;
const CARDS_HIGH = 560; // pixels: a taller pool of cards would hide most of itself below the screen
const NO_STEP = { step: 0, scheduled: {}, events: [], timing: {} };

export class Pane {
  constructor(player) {
    this.player = player;
    this.sel = null;
    this.node = null; // a node of the tree, while that is what was chosen last
    this.userSel = false;
    this.name = el("h3", "panename");
    this.prov = el("span", "prov");
    this.head = el("div", "panehead", this.name, this.prov);
    this.lanesCap = el("b", "", "Sequences, in logical order");
    this.queue = el("span", "r");
    this.budget = new Budget();
    this.laneBox = el("div", "lanebox");
    this.moment = el("div", "moment");
    this.poolCap = el("span", "hide");
    this.usage = new Usage();
    this.poolBox = el("div", "poolbox");
    this.root = el(
      "div",
      "left",
      this.head,
      el("div", "cap c-lanes", this.lanesCap, this.budget.root, this.queue),
      this.laneBox,
      this.moment,
      el("div", "cap c-pool", el("b", "", "Pool, in physical order"), this.poolCap, this.usage.root),
      this.poolBox,
    );
    this.wires = new Wires(this.root);
    this.root.append(this.wires.root);
    this.listen();
  }

  listen() {
    this.root.addEventListener("pointerdown", () => this.player.activate(this), true);
    this.root.addEventListener("focusin", () => this.player.activate(this), true);
    this.laneBox.addEventListener("click", (e) => {
      const ent = e.target.closest?.("[data-b]");
      if (ent) this.select(Number(ent.dataset.b));
    });
    this.poolBox.addEventListener("click", (e) => {
      const c = e.target.closest?.("button[data-b]");
      if (c) this.select(Number(c.dataset.b));
    });
    rove(this.laneBox, () => [...this.laneBox.querySelectorAll(".lane")].map((l) => [...l.querySelectorAll("button.ent")]).filter((r) => r.length));
    rove(this.poolBox, () => {
      const { cells, columns } = this.pool;
      const rows = [];
      for (let i = 0; i < (cells?.length ?? 0); i += columns) rows.push(cells.slice(i, i + columns));
      return rows;
    });
  }

  // --- what the views ask their player for ---------------------------------------------------------
  get colors() {
    return this.player.colors;
  }

  get present() {
    return this.player.present;
  }

  light(t, node) {
    this.player.light(t, node);
  }

  say(words) {
    this.player.say(words);
  }

  select(b) {
    this.player.activate(this);
    this.player.select(b);
  }

  // --- one run -------------------------------------------------------------------------------------
  load({ run, info, cursor }) {
    Object.assign(this, { run, info, cursor });
    this.last = run.steps.length - 1;
    this.empty = this.last < 0;
    if (this.sel !== null && this.sel >= info.n) this.sel = null;
    const { n, bs } = info;
    const small = n <= 64 && bs <= 8 && Math.ceil(n / 8) * (16 * bs + 46) <= CARDS_HIGH;
    this.lanes = info.maxTokens <= 96 && info.maxLanes <= 16 ? new Lanes(this) : new Bars(this);
    this.pool?.dispose?.();
    this.pool = n > DENSE_ABOVE ? new PoolDensity(this) : small ? new PoolSlots(this) : new PoolCells(this);
    this.size = n > DENSE_ABOVE ? "dense" : small ? "small" : "middle";
    this.laneBox.replaceChildren(this.lanes.root);
    this.poolBox.replaceChildren(this.pool.root);
    for (const v of [this.lanes, this.pool, this.budget]) v.load(info);
    this.lanesCap.dataset.tip = this.lanes instanceof Lanes ? "Each box is a table entry: logical → physical." : "A bar is one table entry; a pale top means shared.";
    this.poolCap.textContent = `${bs} ${bs === 1 ? "slot" : "slots"} a block`;
    this.name.textContent = info.name;
    const p = provenance(info.header);
    this.prov.className = `prov ${p.cls}`;
    this.prov.dataset.tip = `${p.word}: ${p.about.filter(Boolean).join(", ")}`;
    this.prov.replaceChildren(el("b", "", icon(p.icon), p.word));
  }

  // Widths are read here and kept: reading them while drawing would make the browser lay the page
  // out again in the middle of it.
  measure() {
    const pad = getComputedStyle(this.root);
    this.width = this.root.clientWidth - parseFloat(pad.paddingLeft) - parseFloat(pad.paddingRight);
  }

  // To the state after step k, or after the last one.
  seek(k) {
    this.k = clamp(k, 0, Math.max(0, this.last));
    const state = this.empty ? this.cursor.state : this.cursor.seek(this.k);
    const step = (this.step = this.empty ? NO_STEP : this.run.steps[this.k]);
    this.sv = new StepView(this.info, state, step);
  }

  draw(k) {
    this.seek(k);
    const { sv, step } = this;
    const { state } = sv;
    if (this.sel === null) this.sel = sv.copy?.src ?? state.tables.get(state.running[0])?.findLast((b) => b >= 0) ?? 0;
    this.lanes.draw(sv);
    this.pool.draw(sv);
    this.pool.select(this.sel);
    this.budget.draw(sv);
    this.drawHeadline(step, k);
    this.usage.draw(sv);
    const held = state.running.filter((id) => state.seqs.get(id).status === "held").length;
    this.queue.textContent = `${num(state.running.length - held)} running, ${held ? `${num(held)} ended, ` : ""}${num(state.waiting.length)} waiting`;
    this.roveLanes();
  }

  // A copy in the step is what to look at, unless the reader has chosen something.
  follow(k) {
    const copy = !this.userSel && this.run.steps[k]?.events.find((e) => e.type === "block_copied");
    if (copy) this.sel = copy.src;
  }

  // Exactly one entry of the lanes can be reached with the tab key.
  roveLanes() {
    const all = [...this.laneBox.querySelectorAll("button.ent")];
    if (all.length && !all.some((b) => b.tabIndex === 0)) all[0].tabIndex = 0;
  }

  drawHeadline(step, k) {
    const h = this.empty ? { title: "Empty", icon: "dot", text: "This run has no steps: its scenario has no requests." } : headline(step, this.cursor.notes, this.info);
    const over = !this.empty && k > this.last;
    if (over) Object.assign(h, { title: "At its end", icon: "flag", event: null, more: 0, text: `This run ended with step ${num(this.last)}, which is shown.` });
    const words = el("span", "words", h.text.replaceAll(" → ", "\u00a0→\u00a0"));
    if (h.more) words.append(` And ${num(h.more)} more like it.`);
    this.moment.className = `moment ${h.event?.type === "block_copied" ? "cow" : ""}`;
    this.moment.replaceChildren(icon(h.icon), el("span", "k", h.title), words);
    this.headline = h;
    this.headlineText = `Step ${this.k}. ${h.title}. ${h.text}`;
  }
}
