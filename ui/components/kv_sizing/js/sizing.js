// The whole instrument: what the controls say goes to Python, the figures that come back are drawn.
import { icon } from "../../run_player/js/icons.js";
import { el } from "../../run_player/js/util.js";
import { Balance } from "./balance.js";
import { Check } from "./check.js";
import { Controls } from "./controls.js";
import { Formula } from "./formula.js";
import { Growth } from "./growth.js";
import { Memory } from "./memory.js";
import { Opened } from "./opened.js";
import { Paging } from "./paging.js";
import { Ways } from "./ways.js";

const PAUSE_MS = 8; // half a frame: movements within it go together
const PATIENCE_MS = 1500; // an answer that has not come by then is waited for no longer

export class Sizing {
  constructor(host) {
    this.host = host;
    this.seq = 0; // of the last commit
    this.waits = null; // a commit whose answer has not come: {seq, at}
    this.pending = null; // what to commit once it has
    const open = (figure, from) => this.opened.show(figure, from);
    const choose = (change) => this.choose(change);
    this.opened = new Opened();
    this.controls = new Controls(choose);
    this.parts = {
      token: new Formula(open),
      memory: new Memory(open, choose),
      growth: new Growth(choose),
      balance: new Balance(),
      ways: new Ways(open),
      paging: new Paging(open, choose),
      check: new Check(open, (what) => this.component.setTriggerValue("allocate", what)),
    };
    this.refused = el("p", "refused");
    this.refused.setAttribute("role", "alert");
    this.notes = el("div", "notes");
    const p = this.parts;
    this.below = el("div", "stack", p.token.root, p.memory.root, el("div", "pair", p.growth.root, p.balance.root), p.ways.root, el("div", "pair", p.paging.root, p.check.root));
    this.root = el("section", "kv sizing", this.controls.root, this.refused, this.notes, this.below, this.opened.root);
    this.resize = new ResizeObserver(() => {
      cancelAnimationFrame(this.raf);
      this.raf = requestAnimationFrame(() => this.resized());
    });
    this.resize.observe(this.root);
  }

  dispose() {
    clearTimeout(this.timer);
    cancelAnimationFrame(this.raf);
    this.resize.disconnect();
    this.opened.dispose();
  }

  update(component) {
    this.component = component;
    const { data } = component;
    if (this.host.firstElementChild !== this.root) this.host.replaceChildren(this.root);
    if (this.waits && data.seq >= this.waits.seq) this.waits = null;
    this.data = data;
    this.root.dataset.scale = data.present ? "present" : "";
    // A control that has moved on since the commit keeps where it stands.
    this.controls.update(data, { keep: this.pending !== null || data.seq < this.seq });
    this.refused.textContent = data.refused ?? "";
    this.refused.hidden = !data.refused;
    const text = JSON.stringify(data);
    if (text !== this.drawn) {
      this.drawn = text; // what is the same is not drawn again: it may have the focus
      this.draw();
    }
    if (this.pending && !this.waits) this.send();
    this.host.dataset.seq = String(data.seq);
  }

  draw() {
    const { data } = this;
    const u = this.measure();
    this.said(data);
    for (const [name, part] of Object.entries(this.parts)) {
      const given = data[name];
      part.root.hidden = given === null || given === undefined;
      if (given) part.update(given, data, u);
    }
    this.opened.refresh(data);
  }

  // Which layout the width asks for; returns the scale of the type.
  measure() {
    const u = Number(getComputedStyle(this.root).getPropertyValue("--scale")) || 1;
    this.width = this.root.clientWidth;
    this.root.classList.toggle("narrow", this.width / u < 620);
    this.root.classList.toggle("middle", this.width / u < 980);
    return u;
  }

  // Only what is drawn to the pixel is drawn again.
  resized() {
    const { data } = this;
    if (!data || this.root.clientWidth === this.width) return;
    const u = this.measure();
    for (const name of ["growth", "balance"]) if (data[name]) this.parts[name].update(data[name], data, u);
  }

  said({ model, memory_why: why, unlinked }) {
    const lines = [];
    for (const text of model?.warnings ?? []) lines.push(el("p", "warn", icon("warn"), el("span", "", text)));
    if (unlinked) lines.push(el("p", "warn", icon("warn"), el("span", "", unlinked)));
    if (why) lines.push(el("p", "warn", icon("warn"), el("span", "", why)));
    this.notes.replaceChildren(...lines);
    this.notes.hidden = lines.length === 0;
  }

  // One change in flight at a time: the newest waits for the answer to the one before.
  choose(change) {
    this.pending = { ...this.pending, ...change };
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.send(), PAUSE_MS);
  }

  send() {
    if (!this.pending) return;
    if (this.waits && performance.now() - this.waits.at < PATIENCE_MS) {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.send(), PATIENCE_MS);
      return;
    }
    const place = this.pending;
    this.pending = null;
    this.seq = Math.max(this.seq, this.data.seq) + 1;
    this.waits = { seq: this.seq, at: performance.now() };
    this.component.setStateValue("choice", { seq: this.seq, place });
  }
}
