// The picture as tables: the four kinds of work on the first roof, the roofs, and every measured step.
import { el, num } from "../../run_player/js/util.js";
import { amount, modelled, opens } from "../../kv_sizing/js/said.js";
import { figures, millis, share, short } from "../../live_run/js/scales.js";
import { KINDS, PARTS } from "./measured.js";

const headed = (names) => el("thead", "", el("tr", "", ...names.map((name) => Object.assign(el("th", "", name), { scope: "col" }))));
const rowHead = (...words) => Object.assign(el("th", "", ...words), { scope: "row" });
const plain = (v) => (Number.isInteger(v) ? num(v) : figures(v)); // 4 and not 4.00, where it is exact
const scrolled = (label, table) => {
  const box = el("div", "tbox", table);
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", label);
  return box;
};

export class Figures {
  constructor(open) {
    this.open = open;
    this.prov = el("span", "provs");
    this.verdict = el("p", "even");
    this.points = el("div", "");
    this.roofs = el("div", "");
    this.asides = el("p", "small muted");
    this.root = el("section", "panel figs", el("header", "head", el("h2", "", "The figures"), this.prov), this.verdict, el("div", "pair", this.points, this.roofs), this.asides);
  }

  update({ modelled: m, place }) {
    this.prov.replaceChildren(modelled([m.title, m.formats, "one GPU, no overheads"]));
    const lead = m.roofs[0];
    this.points.replaceChildren(
      scrolled(
        `Where the work stands on ${lead.short}`,
        el(
          "table",
          "t",
          el("caption", "", `On ${lead.short}`),
          headed(["work", "FLOP per byte", "at most", "bound by"]),
          el("tbody", "", ...m.points.map((p) => this.point(p))),
        ),
      ),
    );
    const load = `${num(place.b)} × ${num(place.ctx)}`;
    this.roofs.replaceChildren(
      scrolled(
        "The roofs",
        el(
          "table",
          "t",
          el("caption", "", "Each roof, at the least"),
          headed(["roof", "ridge, FLOP/B", "tokens to reach it", `decode ${load}`, `prefill ${num(place.n)}`]),
          el("tbody", "", ...m.roofs.map((r) => this.roof(r))),
        ),
      ),
    );
    this.verdict.replaceChildren(...this.said(m, place));
    this.asides.textContent = m.asides.join(" ");
    this.asides.hidden = !m.asides.length;
  }

  point(p) {
    if (!p.reaches) return el("tr", "", rowHead(p.label), el("td", "", "no such work"), el("td", "", "–"), el("td", "", "–"));
    const bound = el("td", `bound ${p.bound}`, p.bound);
    return el("tr", "", rowHead(p.label), el("td", "n", opens(p.at, this.open, plain(p.at.value))), el("td", "n", opens(p.reaches, this.open, short(p.reaches.value, "FLOP/s"))), bound);
  }

  roof(r) {
    const reach = r.saturates.value === null ? "none" : num(r.saturates.value);
    return el(
      "tr",
      "",
      rowHead(r.short),
      el("td", "n", opens(r.ridge, this.open, amount(r.ridge.value, ""))),
      el("td", "n", opens(r.saturates, this.open, reach)),
      el("td", "n", opens(r.decode, this.open, millis(r.decode.value))),
      el("td", "n", opens(r.prefill, this.open, millis(r.prefill.value))),
    );
  }

  // What the two decode points say together.
  said({ points, roofs }, place) {
    const [matrices, attention] = points;
    const reach = roofs[0].saturates.value;
    const from = reach === null ? "at no batch" : `from ${num(reach)} tokens in a step on`;
    const here = `With ${num(place.b)} ${place.b === 1 ? "sequence" : "sequences"} the matrices of decode are bound by ${matrices.bound}; they reach the ridge of ${roofs[0].short} ${from}.`;
    const there = attention.reaches ? ` Attention stays at ${plain(attention.at.value)} FLOP per byte, bound by ${attention.bound}, at any batch.` : "";
    return [`${here}${there}`];
  }
}

const COLUMNS = ["flops", "bytes", "us", "intensity", "rate", "mfu", "mbu"];

// Every measured step as rows of plain numbers: {head, rows}.
export function sheet(steps) {
  const head = ["step", "kind", "tokens", "sequences", "step_us", ...PARTS.flatMap((part) => COLUMNS.map((name) => `${part}_${name}`))];
  const rows = steps.map((s) => [s.step, s.kind, s.tokens, s.sequences, s.stepUs, ...PARTS.flatMap((part) => COLUMNS.map((name) => s[part]?.[name] ?? ""))]);
  return { head, rows };
}

export const sheetCsv = ({ head, rows }) => [head, ...rows].map((row) => row.join(",")).join("\r\n") + "\r\n";

export class StepTable {
  constructor() {
    this.steps = [];
    this.root = el("details", "tbl", el("summary", "", "Every step as a table"), el("div", "hold"));
    this.root.ontoggle = () => this.draw();
  }

  show(steps) {
    this.steps = steps;
    this.draw();
  }

  draw() {
    const hold = this.root.lastElementChild;
    if (!this.root.open) return hold.replaceChildren();
    const names = ["step", "kind", "tokens", "ms", "FLOP/B", "MFU", "MBU", "matrices FLOP/B", "FLOP/s", "attention FLOP/B", "FLOP/s"];
    const part = (p) => (p ? [figures(p.intensity), short(p.rate, "FLOP/s")] : ["–", "–"]);
    const rows = this.steps.map((s) => {
      const cells = [KINDS[s.kind], num(s.tokens), (s.stepUs / 1000).toFixed(1), figures(s.whole.intensity), share(s.whole.mfu), share(s.whole.mbu), ...part(s.matrices), ...part(s.attention)];
      return el("tr", "", rowHead(num(s.step)), ...cells.map((c) => el("td", "n", c)));
    });
    hold.replaceChildren(scrolled("Table: every step", el("table", "t", el("caption", "sr", "Every step"), headed(names), el("tbody", "", ...rows))));
  }
}
