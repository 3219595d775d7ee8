// Two runs at the same step: their key numbers in one line, each with what the second has more or less.
import { el, num } from "./util.js";

export function numbersOf(sv) {
  const { state } = sv;
  const held = state.running.filter((id) => state.seqs.get(id).status === "held").length;
  const { in_use, free } = state.usage;
  return { running: state.running.length - held, waiting: state.waiting.length, "in use": in_use, free, tokens: sv.tokensInStep };
}

const signed = (n) => (n > 0 ? `+${num(n)}` : n < 0 ? num(n) : "same");

export class Difference {
  constructor() {
    this.root = el("div", "diff");
    this.root.setAttribute("role", "group");
  }

  draw([a, b]) {
    const [x, y] = [numbersOf(a.sv), numbersOf(b.sv)];
    this.root.setAttribute("aria-label", `${a.info.name} and ${b.info.name} at this step`);
    const cells = Object.keys(x).map((name) => {
      const d = y[name] - x[name];
      return el("span", d ? "differs" : "", `${name} `, el("b", "", num(x[name])), " and ", el("b", "", num(y[name])), " ", el("i", "", signed(d)));
    });
    this.root.replaceChildren(...cells);
  }
}
