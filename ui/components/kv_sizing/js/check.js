// The formula against the engine: a pool of so many blocks, sized on paper and allocated for real.
import { icon } from "../../run_player/js/icons.js";
import { provenance } from "../../run_player/js/provenance.js";
import { button, el, num } from "../../run_player/js/util.js";
import { opens } from "./said.js";

export class Check {
  constructor(open, allocate) {
    this.open = open;
    this.prov = el("span", "provs");
    this.blocks = el("select", "");
    this.size = el("select", "");
    this.go = button("btn", null, "Allocate it");
    this.go.onclick = () => {
      this.go.setAttribute("aria-disabled", "true");
      allocate({ blocks: Number(this.blocks.value), size: Number(this.size.value) });
    };
    this.ask = el("div", "row", el("label", "f", el("span", "", "Blocks"), this.blocks), el("label", "f", el("span", "", "Tokens a block"), this.size), this.go);
    this.body = el("div", "cbody");
    this.root = el("section", "panel check", el("header", "head", el("h2", "", "Check against the engine"), this.prov), this.ask, this.body);
  }

  update(check) {
    this.go.removeAttribute("aria-disabled");
    for (const [select, values, chosen] of [
      [this.blocks, check.choices.blocks, check.blocks],
      [this.size, check.choices.sizes, check.size],
    ]) {
      if (!select.options.length) select.append(...values.map((v) => Object.assign(el("option", "", num(v)), { value: String(v) })));
      if (chosen && !this.touched) select.value = String(chosen);
    }
    this.blocks.onchange = this.size.onchange = () => (this.touched = true);
    this.ask.hidden = !check.live;
    if (!check.header) {
      this.prov.replaceChildren();
      this.body.replaceChildren(el("p", "", check.message));
      return;
    }
    const p = provenance(check.header);
    const label = el("span", `prov ${p.cls}`, el("b", "", icon(p.icon), p.word), el("span", "", p.about.filter(Boolean).join(", ")));
    label.title = label.textContent;
    this.prov.replaceChildren(label);
    const equal = check.allocated === check.formula.value;
    const row = (name, ...value) => el("tr", "", Object.assign(el("th", "", name), { scope: "row" }), el("td", "n", ...value));
    const [first, ...more] = check.formula.steps;
    const product = more.length === 1 ? `${first[1]} · ${num(check.blocks * check.size)}` : (more.at(-1) ?? first)[1];
    const status = el("p", "small", check.message);
    status.setAttribute("role", "status");
    this.body.replaceChildren(
      el(
        "table",
        "t",
        el("caption", "sr", "The pool by the formula, and as the engine allocated it"),
        el("tbody", "", row(`${num(check.blocks)} blocks of ${num(check.size)}, ${check.dtype}`, product), row("By the formula", opens(check.formula, this.open)), row("Allocated by the engine", `${num(check.allocated)} B`), row("In both units", check.formula.both)),
      ),
      el("p", equal ? "eq" : "ne", icon(equal ? "check" : "warn"), equal ? "Equal to the byte" : `${num(Math.abs(check.allocated - check.formula.value))} B apart`),
      status,
    );
  }
}
