// A token's bytes in both formats, what a pool of the same bytes holds, and what was allocated.
import { icon } from "../../run_player/js/icons.js";
import { el, num, plural } from "../../run_player/js/util.js";
import { modelled, opens } from "../../kv_sizing/js/said.js";
import { measuredLabel } from "./labels.js";

export const share = (v) => v.toFixed(3);

export class Bytes {
  constructor(open) {
    this.open = open;
    this.prov = el("span", "provs");
    this.bars = el("div", "tokbars");
    this.said = el("p", "ratio");
    this.more = el("p", "small muted");
    this.checkProv = el("span", "provs");
    this.check = el("div", "cbody");
    this.checked = el("div", "check", el("header", "head", el("h3", "", "Allocated by the engine"), this.checkProv), this.check);
    this.root = el("section", "panel bytes", el("header", "head", el("h2", "", "Bytes of a token"), this.prov), this.bars, this.said, this.more, this.checked);
  }

  update({ memory: m, measured }) {
    this.prov.replaceChildren(modelled([m.shape]));
    const whole = m.own_token.value;
    this.bars.replaceChildren(this.bar(m.own, [["numbers", whole]], whole, m.own_token), this.bar(m.name, [["numbers", m.numbers], ["scales", m.scales]], whole, m.token));
    const not = m.scales ? `, and not ${share(m.bare)}: beside ${num(m.numbers)} B of numbers lie ${num(m.scales)} B of scales` : m.fixed ? ": no scale comes with a token" : "";
    this.said.replaceChildren(el("b", "", `${share(m.ratio)} of ${m.own}`), `${not}.`);
    const fixed = m.fixed ? ` The fixed scales take ${num(m.fixed)} B in all, once.` : "";
    this.more.textContent = `The ${num(m.pool_bytes)} B that hold ${plural(m.pool_tokens, "token")} in ${m.own} hold ${num(m.held)} in ${m.name}: ${(m.held / m.pool_tokens).toFixed(2)} times as many.${fixed}`;
    this.allocated(measured);
  }

  bar(name, parts, whole, figure) {
    const bar = el("div", "tokbar");
    bar.setAttribute("aria-hidden", "true");
    for (const [kind, value] of parts) if (value) bar.append(Object.assign(el("i", kind), { style: `width:${(100 * value) / whole}%` }));
    return el("div", "tokrow", el("span", "lab0", name), bar, opens(figure, this.open));
  }

  allocated(measured) {
    const found = measured?.allocated;
    this.checked.hidden = !found;
    if (!found) return;
    this.checkProv.replaceChildren(...measuredLabel(measured.label));
    const rows = [
      ["A token", found.token_formula, found.token],
      [`Pool, ${num(found.blocks)} × ${num(found.block)} tokens`, found.pool_formula, found.pool],
      ...(found.fixed_formula || found.fixed ? [["Fixed scales", found.fixed_formula, found.fixed]] : []),
    ];
    const equal = rows.every(([, a, b]) => a === b);
    const head = el("tr", "", ...["Bytes", "By the formula", "Allocated"].map((w) => Object.assign(el("th", "", w), { scope: "col" })));
    const body = rows.map(([name, a, b]) => el("tr", "", Object.assign(el("th", "", name), { scope: "row" }), el("td", "n", num(a)), el("td", "n", num(b))));
    this.check.replaceChildren(
      el("table", "t", el("caption", "sr", "Bytes by the formula, and as the engine allocated them"), el("thead", "", head), el("tbody", "", ...body)),
      el("p", equal ? "eq" : "ne", icon(equal ? "check" : "warn"), equal ? "Equal to the byte" : "They differ"),
    );
  }
}
