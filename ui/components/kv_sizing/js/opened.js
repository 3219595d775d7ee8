// A number, opened: its formula with the values put in, each letter, what it rests on, its source.
import { button, el, num } from "../../run_player/js/util.js";
import { icon } from "../../run_player/js/icons.js";
import { legible } from "./legible.js";
import { SCOPES, amount } from "./said.js";

const BASIS = { arithmetic: "follows from the inputs", convention: "rests on a rule of thumb", literature: "as reported by others" };
const written = (v) => (typeof v === "number" ? (Number.isInteger(v) ? num(v) : String(Number(v.toPrecision(6)))) : v === null ? "none" : String(v));

export class Opened {
  constructor() {
    this.figure = null;
    this.title = el("h3", "");
    this.title.tabIndex = -1;
    this.body = el("div", "obody");
    const shut = button("btn quiet icon", "Close", icon("close"));
    shut.onclick = () => this.close();
    this.root = el("section", "panel opened", el("header", "", this.title, shut), this.body);
    this.root.hidden = true;
    this.root.setAttribute("role", "dialog");
    this.root.setAttribute("aria-label", "How a number is reached");
    this.onKey = (e) => {
      if (e.key === "Escape" && !this.root.hidden) {
        e.preventDefault();
        e.stopPropagation();
        this.close();
      }
    };
    this.root.addEventListener("keydown", this.onKey);
  }

  dispose() {
    this.root.removeEventListener("keydown", this.onKey);
  }

  show(figure, from) {
    this.from = from;
    this.draw(figure);
    this.root.hidden = false;
    this.title.focus({ preventScroll: true });
    this.root.scrollIntoView({ block: "nearest" });
  }

  // After new data: the same number, found again by its name and scope.
  refresh(data) {
    if (this.root.hidden || !this.figure) return;
    const same = find(data, (f) => f.label === this.figure.label && f.scope === this.figure.scope);
    if (same && same !== this.figure) this.draw(same);
  }

  close() {
    this.root.hidden = true;
    if (this.from?.isConnected) this.from.focus();
  }

  draw(figure) {
    this.figure = figure;
    const scope = SCOPES[figure.scope] ?? figure.scope;
    const unit = figure.unit === "B" || figure.unit === "fraction" ? "" : ` ${figure.unit}`;
    this.title.replaceChildren(figure.label, el("small", "", [scope, BASIS[figure.basis]].filter(Boolean).join("; ")));
    const steps = el("ol", "steps", ...figure.steps.map(([formula, values, value, u]) => el("li", "", el("code", "", formula), values ? el("code", "", `= ${legible(values, 6)}`) : null, el("code", "v", `= ${written(value)} ${u}`))));
    const rows = figure.symbols.map(([sym, text, value, u]) => el("tr", "", el("th", "", el("code", "", sym)), el("td", "", text), el("td", "n", `${written(value)} ${u}`)));
    for (const row of rows) row.firstElementChild.scope = "row";
    const table = el("table", "t letters", el("caption", "sr", "Letters of the formula"), el("tbody", "", ...rows));
    this.body.replaceChildren(
      el("p", "val0", el("b", "", `${amount(figure.value, figure.unit)}${unit}`), figure.both && figure.value >= 1000 ? el("span", "", figure.both) : null),
      ...(figure.steps.length ? [steps] : []),
      ...(rows.length ? [table] : []),
      ...figure.notes.filter((n) => n !== figure.both).map((n) => el("p", "small", n)),
      ...(figure.source ? [el("p", "small muted", `Source: ${figure.source}`)] : []),
    );
  }
}

function find(node, test) {
  if (node === null || typeof node !== "object") return null;
  if (!Array.isArray(node) && "steps" in node && "label" in node) return test(node) ? node : null;
  for (const child of Object.values(node)) {
    const found = find(child, test);
    if (found) return found;
  }
  return null;
}
