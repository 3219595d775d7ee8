// Experiments of one click: the cards, and below them what the last one found.
import { icon } from "../../run_player/js/icons.js";
import { button, el, ms } from "../../run_player/js/util.js";
import { EXPERIMENTS, summarise } from "./experiments.js";

export class Lab {
  constructor(bench) {
    this.bench = bench;
    this.cards = EXPERIMENTS.map((x) => {
      const about = el("span", "about");
      const b = button("card", null, el("b", "", x.title), icon("arrow"), about);
      b.onclick = () => bench.experiment(x.id);
      return { ...x, b, said: about };
    });
    this.box = el("section", "panel pad lab");
    this.box.setAttribute("aria-label", "Result of the experiment");
    this.box.hidden = true;
    this.row = el("div", "exp", ...this.cards.map((c) => c.b));
    this.row.setAttribute("role", "group");
    this.row.setAttribute("aria-label", "Experiments on the engine");
    this.root = el("div", "labs", this.row, this.box);
  }

  draw() {
    const { exp, busy, session } = this.bench;
    const tokens = session.basePrompt().length;
    for (const c of this.cards) {
      c.said.textContent = c.about(tokens);
      c.b.setAttribute("aria-pressed", String(exp?.id === c.id));
      c.b.disabled = busy;
    }
    this.box.hidden = !exp;
    if (!exp) return;
    const shown = [exp, exp.runs, exp.done, exp.failed, this.bench.run.header];
    if (shown.every((x, i) => x === this.shown?.[i])) return;
    this.shown = shown;
    const card = this.cards.find((c) => c.id === exp.id);
    const badge = el("span", "prov");
    this.bench.label(badge, true);
    const close = button("btn quiet", "Close the experiment", icon("close"));
    close.onclick = () => this.bench.leaveExperiment();
    const head = el("div", "chh", el("h2", "", card.title), badge, close);
    if (exp.runs.length < exp.of || !exp.done) {
      const words = exp.of > 1 ? `Run ${Math.min(exp.runs.length + 1, exp.of)} of ${exp.of} on the engine …` : "Running on the engine …";
      this.box.replaceChildren(head, el("p", "small muted", exp.failed ?? words));
      return;
    }
    const found = summarise(exp.id, exp.runs);
    const table = el("table", "t");
    const top = el("tr", "");
    for (const h of found.head) top.append(el("th", "", h));
    table.append(el("thead", "", top));
    const body = el("tbody", "");
    for (const r of found.rows) {
      const go = button("steplink", `Show the step of ${r.label}`, r.label);
      go.onclick = () => this.bench.showRun(r.run, r.k, r.request);
      const tr = el("tr", "", el("td", "", go));
      for (const c of r.cells) tr.append(this.cell(c));
      body.append(tr);
    }
    table.append(body);
    this.box.replaceChildren(head, el("div", "scroll", table), el("p", "small", found.note));
  }

  cell({ us, of, text, share }) {
    const bar = el("span", "bar");
    const fill = el("i");
    const part = us === undefined ? share : us === null ? 0 : us / of;
    fill.style.width = `${Math.max(0, Math.min(1, part || 0)) * 100}%`;
    bar.append(fill);
    const said = us === undefined ? text : us === null ? "–" : `${ms(us)} ms`;
    return el("td", "n", el("span", "cell", bar, el("span", "num", said)));
  }
}
