// The plan step by step: a number a row, its formula with the values put in, and the ledger's claims.
import { el } from "../../run_player/js/util.js";
import { legible } from "../../kv_sizing/js/legible.js";
import { amount, modelled, opens } from "../../kv_sizing/js/said.js";
import { money } from "./answer.js";

// Sizes in both units, times in milliseconds.
function valueOf({ value, unit, both }) {
  if (value === null) return "none";
  if (unit === "B") return value >= 1e6 ? both : amount(value, unit);
  if (unit === "s" && value < 10) return `${amount(1000 * value)} ms`;
  return unit === "$/h" ? `${money(value)} an hour` : `${amount(value)} ${unit}`;
}

export class Steps {
  constructor(open) {
    this.open = open;
    this.prov = el("span", "provs");
    this.list = el("ol", "psteps");
    this.root = el("section", "panel steps-p", el("header", "head", el("h2", "", "Step by step"), this.prov), this.list);
  }

  update(steps, data) {
    this.prov.replaceChildren(modelled([data.model.title]));
    this.list.replaceChildren(...steps.map((one) => this.row(one, data.present)));
  }

  row({ figure, lines, claims }, present) {
    const whole = valueOf(figure);
    const head = el("div", "sline", el("span", "sname", figure.label, figure.scope.includes("replica") ? el("small", "", figure.scope) : null), opens(figure, this.open, whole));
    const code = lines.map((text) => el("code", "scode", legible(text)));
    const said = claims.length ? el("span", "sclaims", "The chapter here: ", ...claims.flatMap(([id, verdict], i) => [i ? ", " : "", present ? id : claimTo(id), ` ${verdict}`])) : null;
    return el("li", "", head, ...code, said);
  }
}

// No link on a projector, which is not left by a slip of the hand.
export function claimTo(id) {
  const a = Object.assign(el("a", "", id), { href: `claims_ledger?claim=${id}`, target: "_self" });
  a.setAttribute("aria-label", `Claim ${id} in the ledger`);
  return a;
}
