// What else there is: the present plan, and each plan that differs from it in one thing.
import { button, el, num } from "../../run_player/js/util.js";
import { icon } from "../../run_player/js/icons.js";
import { modelled } from "../../kv_sizing/js/said.js";
import { hasFocus, inMs, money } from "./answer.js";

const HEADS = ["change", "runs, a replica", "runs, all", "replicas", "GPUs", "price an hour", "first token", "between tokens", "limits"];

export class Others {
  constructor(choose) {
    this.choose = choose;
    this.prov = el("span", "provs");
    this.box = el("div", "obox");
    this.box.tabIndex = 0;
    this.box.setAttribute("role", "region");
    this.box.setAttribute("aria-label", "What if: one thing changed");
    this.root = el("section", "panel others", el("header", "head", el("h2", "", "What if"), this.prov), this.box);
  }

  update(rows, data) {
    this.prov.replaceChildren(modelled([data.model.title]));
    const head = el("tr", "", ...HEADS.map((name) => Object.assign(el("th", "", name), { scope: "col" })));
    let group = "";
    const body = [];
    for (const one of rows) {
      if (one.group && one.group !== group) {
        group = one.group;
        body.push(el("tr", "grp", Object.assign(el("th", "", group), { scope: "colgroup", colSpan: HEADS.length })));
      }
      body.push(this.row(one));
    }
    const used = hasFocus(this.box);
    this.box.replaceChildren(el("table", "t", el("caption", "sr", "The present plan beside plans that differ in one thing"), el("thead", "", head), el("tbody", "", ...body)));
    if (used) this.box.focus(); // the button that was pressed is gone
  }

  row(one) {
    const name = Object.assign(el("th", "", one.name), { scope: "row" });
    if (one.why) return el("tr", "", name, Object.assign(el("td", "muted", one.why), { colSpan: HEADS.length - 1 }));
    const ok = el("span", one.meets ? "yes" : "no", icon(one.meets ? "check" : "warn"), el("span", "sr", one.meets ? "keeps what is asked" : one.holds ? "over a limit" : "too few"));
    const use = Object.keys(one.set).length ? button("btn quiet use", `Set the controls to: ${one.name}`, "Use") : null;
    if (use) use.onclick = () => this.choose(one.set);
    const cells = [num(one.each), num(one.held), num(one.replicas), one.gpus ? num(one.gpus) : "–", one.price === null ? "–" : money(one.price), inMs(one.ttft), one.itl === null ? "–" : inMs(one.itl)];
    return el("tr", use ? "" : "present", name, ...cells.map((c) => el("td", "n", c)), el("td", "ok", ok, use));
  }
}
