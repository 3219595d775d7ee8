// How keys and values grow with the context: this model in three formats, others beside it, and the
// memory there is for all of them.
import { el, num, plural } from "../../run_player/js/util.js";
import { ChartPanel } from "./chartpanel.js";
import { round5, tokens } from "./curves.js";
import { gib, modelled } from "./said.js";

const GIB = 2 ** 30;
const FORMATS = ["b", "c"];
const MODELS = ["d", "e", "g", "h"];

export class Growth extends ChartPanel {
  constructor(choose) {
    super("Growth with context");
    this.choose = choose;
    this.picker = el("div", "picker");
    this.keys.before(this.picker);
    this.left = el("p", "small muted");
    this.table.before(this.left);
  }

  update(growth, data, u) {
    const { contexts, n } = growth;
    const styles = { format: [...FORMATS], model: [...MODELS] };
    const lines = growth.lines.map((l) => ({ name: l.name, cls: l.kind === "own" ? "a" : styles[l.kind].shift(), values: l.values.map((v) => v / GIB) }));
    const budget = growth.budget === null ? null : growth.budget / GIB;
    const own = lines[0]?.values.at(-1) ?? 1;
    const top = Math.max(own * 1.05, (budget ?? 0) * 1.25, 1e-6);
    const at = growth.at;
    const spec = {
      xs: contexts,
      lines,
      level: budget === null ? null : { value: budget, name: `room ${budget.toFixed(0)} GiB` },
      point: lines.length ? [at, this.there(lines[0], contexts, at)] : null,
      x: { ticks: [0, 1, 2, 3, 4].map((i) => (contexts.at(-1) * i) / 4), text: tokens, label: "tokens of context" },
      y: { ticks: round5(top), text: tick, label: `GiB, ${plural(n, "sequence")}, all GPUs` },
    };
    this.prov.replaceChildren(modelled([`${plural(n, "sequence")}`, `KV ${growth.format}`]));
    this.pick(data);
    const copied = growth.lines.filter((l) => l.copies > 1.01 && l.kind !== "format");
    const notes = copied.map((l) => `${l.name}: split by heads over ${data.place.gpus / data.place.adp} GPUs, a token is kept ${l.copies} times.`);
    if (growth.left_out.length) notes.push(`Cannot be split over ${plural(data.place.gpus, "GPU")}: ${growth.left_out.join(", ")}.`);
    if (growth.lines.some((l) => l.name.endsWith("*"))) notes.push("* Not a real model.");
    this.left.textContent = notes.join(" ");
    this.left.hidden = !notes.length;
    const first = lines[0];
    const fits = data.memory?.longest;
    const end = fits === undefined || fits === null ? "" : fits ? ` ${plural(n, "sequence")} of this model fit${n === 1 ? "s" : ""} up to ${plural(fits, "token")}.` : ` ${plural(n, "sequence")} of this model ${n === 1 ? "fits" : "fit"} at no length.`;
    this.show(spec, {
      u,
      sentence: (i) => `${num(contexts[i])} tokens: ${lines.map((l, j) => `${l.name} ${gib(growth.lines[j].values[i])}`).join("; ")}.`,
      hint: `Hover, or use the arrow keys, to read the values of a context.${end}`,
      columns: [["tokens", (i) => num(contexts[i]), (i) => contexts[i]], ...growth.lines.map((l) => [`${l.name} (B)`, (i) => num(l.values[i]), (i) => l.values[i]])],
      about: `Gibibytes of keys and values against tokens of context. ${lines.map((l) => `${l.name}: ${l.values.at(-1).toFixed(1)} GiB at ${num(contexts.at(-1))}`).join(", ")}.${budget === null || !first ? "" : ` Room for ${budget.toFixed(1)} GiB.${end}`}`,
    });
  }

  there(line, contexts, at) {
    const i = Math.min(contexts.length - 2, Math.floor((at / contexts.at(-1)) * (contexts.length - 1)));
    const part = (at - contexts[i]) / (contexts[i + 1] - contexts[i]);
    return line.values[i] + part * (line.values[i + 1] - line.values[i]);
  }

  // Which other models are drawn: up to four.
  pick({ options, place }) {
    const key = `${place.vs.join()}|${place.model}|${place.own}`;
    if (this.picked === key) return;
    this.picked = key;
    const titles = new Map(options.models);
    const chips = place.vs.filter((name) => place.own || name !== place.model).map((name) => {
      const off = Object.assign(el("button", "chip", `${titles.get(name)} `, el("span", "", "×")), { type: "button" });
      off.setAttribute("aria-label", `Take ${titles.get(name)} out of the chart`);
      off.onclick = () => {
        this.refocus = true;
        this.choose({ vs: place.vs.filter((other) => other !== name).join(",") });
      };
      return off;
    });
    const add = el("select", "add", el("option", "", "Add a model"), ...options.models.filter(([v]) => !place.vs.includes(v) && (place.own || v !== place.model)).map(([value, t]) => Object.assign(el("option", "", t), { value })));
    add.firstElementChild.value = "";
    add.setAttribute("aria-label", "Add a model to the chart");
    add.hidden = place.vs.length >= 4;
    add.onchange = () => {
      if (!add.value) return;
      this.refocus = true;
      this.choose({ vs: [...place.vs, add.value].join(",") });
    };
    this.picker.replaceChildren(...chips, add);
    if (this.refocus) (add.hidden ? chips.at(-1) : add).focus(); // what was pressed is gone
    this.refocus = false;
  }
}

export const tick = (v) => (v === 0 ? "0" : v < 1 ? String(Number(v.toPrecision(2))) : num(v) === "0" ? v.toFixed(1) : Number.isInteger(v) ? num(v) : String(Number(v.toFixed(1))));
