// The steps of a run in a row, as long as each took: pointed at, picked, and selected by dragging or
// with Shift and the arrow keys.
import { button, el, num, plural } from "../../run_player/js/util.js";
import { KINDS } from "./measured.js";

export class Strip {
  // act: {hover(step), pick(step, adds), brush(steps)}
  constructor(act) {
    this.act = act;
    this.bars = el("div", "bars");
    this.bars.setAttribute("aria-hidden", "true");
    this.range = Object.assign(el("input", "rng over"), { type: "range", min: "0", step: "1" });
    this.range.setAttribute("aria-label", "Step of the run; Shift and arrow keys select several");
    this.box = el("div", "strip", this.bars, this.range);
    this.groups = el("div", "groups");
    this.groups.setAttribute("role", "group");
    this.groups.setAttribute("aria-label", "Select steps");
    this.root = el("div", "", this.box, this.groups);
    this.range.oninput = () => this.act.pick(this.steps[Number(this.range.value)].step, false);
    this.range.onkeydown = (e) => this.key(e);
    this.range.onfocus = () => this.range.matches(":focus-visible") && this.act.hover(this.steps[Number(this.range.value)]?.step ?? null);
    this.range.onblur = () => this.act.hover(null);
    this.bars.onpointermove = (e) => this.moved(e);
    this.bars.onpointerleave = () => this.from === undefined && this.act.hover(null);
    this.bars.onpointerdown = (e) => this.pressed(e);
    this.bars.onpointerup = (e) => this.released(e);
    this.bars.onpointercancel = () => (this.from = undefined);
  }

  show(steps) {
    this.steps = steps;
    const most = Math.max(...steps.map((s) => s.stepUs), 1);
    this.nodes = steps.map((s) => {
      const bar = el("i", s.kind);
      bar.style.height = `${Math.max(4, (100 * s.stepUs) / most)}%`;
      return el("span", "", bar);
    });
    this.bars.replaceChildren(...this.nodes);
    this.range.max = String(Math.max(0, steps.length - 1));
    this.range.value = "0";
    const kinds = ["prefill", "decode", "both"].filter((kind) => steps.some((s) => s.kind === kind));
    const some = (label, test) => {
      const b = button("chip", null, label);
      b.onclick = () => this.act.brush(steps.filter(test).map((s) => s.step));
      return b;
    };
    this.groups.replaceChildren(...(kinds.length > 1 ? kinds.map((kind) => some(`All ${KINDS[kind]}`, (s) => s.kind === kind)) : []), some("All steps", () => true), some("None", () => false));
  }

  light(chosen) {
    this.nodes?.forEach((node, i) => node.classList.toggle("on", chosen.has(this.steps[i].step)));
    if (chosen.size === 1) this.range.value = String(this.steps.findIndex((s) => chosen.has(s.step)));
    this.aloud();
  }

  point(step) {
    this.nodes?.forEach((node, i) => node.classList.toggle("now", this.steps[i].step === step));
  }

  aloud() {
    const s = this.steps?.[Number(this.range.value)];
    if (s) this.range.setAttribute("aria-valuetext", `step ${num(s.step)}, ${KINDS[s.kind]}, ${plural(s.tokens, "token")}, ${(s.stepUs / 1000).toFixed(1)} ms`);
  }

  key(e) {
    if (e.key === "Escape") {
      e.preventDefault();
      this.act.brush([]);
    }
    const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[e.key];
    if (!by || !e.shiftKey) return;
    e.preventDefault();
    const i = Math.max(0, Math.min(this.steps.length - 1, Number(this.range.value) + by));
    this.range.value = String(i);
    this.act.pick(this.steps[i].step, true);
    this.aloud();
  }

  at(e) {
    const r = this.bars.getBoundingClientRect();
    return Math.max(0, Math.min(this.steps.length - 1, Math.floor(((e.clientX - r.left) / r.width) * this.steps.length)));
  }

  moved(e) {
    if (!this.steps?.length) return;
    const i = this.at(e);
    if (this.from === undefined) return this.act.hover(this.steps[i].step);
    if (i !== this.from) this.act.brush(this.span(i));
  }

  span(i) {
    return this.steps.slice(Math.min(this.from, i), Math.max(this.from, i) + 1).map((s) => s.step);
  }

  pressed(e) {
    if (!this.steps?.length || e.button !== 0) return;
    this.from = this.at(e);
    this.bars.setPointerCapture(e.pointerId);
  }

  released(e) {
    if (this.from === undefined) return;
    const i = this.at(e);
    if (i === this.from) this.act.pick(this.steps[i].step, e.shiftKey);
    else this.act.brush(this.span(i));
    this.from = undefined;
  }
}
