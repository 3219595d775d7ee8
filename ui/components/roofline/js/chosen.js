// The numbers of the step that is pointed at, or of all that are selected: the whole step, and its
// matrices and its attention apart.
import { el, num, plural } from "../../run_player/js/util.js";
import { figures, share, short } from "../../live_run/js/scales.js";
import { KINDS, PARTS, kindsOf, rangesOf, sayRanges, total } from "./measured.js";

const ROWS = [
  ["FLOP", (p) => short(p.flops, "")],
  ["bytes", (p) => short(p.bytes, "B")],
  ["time", (p) => `${ms3(p.us)} ms`],
  ["FLOP/B", (p) => figures(p.intensity)],
  ["FLOP/s", (p) => short(p.rate, "")],
  ["MFU", (p) => share(p.mfu)],
  ["MBU", (p) => share(p.mbu)],
];
const ms3 = (us) => (us >= 1e5 ? num(Math.round(us / 1000)) : (us / 1000).toPrecision(3));

export class Chosen {
  constructor() {
    this.title = el("h3", "");
    this.title.setAttribute("aria-live", "polite");
    this.about = el("p", "small muted");
    this.body = el("tbody");
    const names = [el("span", "sr", "number"), "whole step", "matrices", "attention"];
    const head = names.map((name) => Object.assign(el("th", "", name), { scope: "col" }));
    this.table = el("table", "t nums", el("caption", "sr", "Numbers of the steps"), el("thead", "", el("tr", "", ...head)), this.body);
    this.root = el("div", "chosen", this.title, this.about, this.table);
  }

  // some: the steps; all: of the run. hint: what to say where none are chosen
  show(some, all, ceilings, hint) {
    if (!some.length) {
      this.title.textContent = "No step selected";
      this.about.textContent = hint;
      this.body.replaceChildren(...ROWS.map(([name]) => this.row(name, ["–", "–", "–"])));
      return;
    }
    const one = some.length === 1;
    this.title.textContent = one ? `Step ${num(some[0].step)}, ${KINDS[some[0].kind]}` : sayRanges(rangesOf(new Set(some.map((s) => s.step)), all));
    const tokens = some.reduce((a, s) => a + s.tokens, 0);
    const whole = some.reduce((a, s) => a + s.stepUs, 0);
    const sequences = one ? `, ${plural(some[0].sequences, "sequence")}` : "";
    this.about.textContent = `${one ? "" : `${plural(some.length, "step")} (${kindsOf(some)}): `}${plural(tokens, "token")}${sequences}, ${ms3(whole)} ms with scheduling and sampling`;
    const parts = PARTS.map((part) => total(some, part, ceilings));
    this.body.replaceChildren(...ROWS.map(([name, say]) => this.row(name, parts.map((p) => (p ? say(p) : "–")))));
  }

  row(name, cells) {
    return el("tr", "", Object.assign(el("th", "", name), { scope: "row" }), ...cells.map((c) => el("td", "n", c)));
  }
}
