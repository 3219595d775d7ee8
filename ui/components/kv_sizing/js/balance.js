// Sequences over context, both in powers of two: the line on which keys and values weigh as much as
// the weights, the line on which the pool is full, and where the controls stand.
import { num } from "../../run_player/js/util.js";
import { ChartPanel } from "./chartpanel.js";
import { tokens } from "./curves.js";
import { modelled } from "./said.js";

export class Balance extends ChartPanel {
  constructor() {
    super("Weights or cache");
    this.root.classList.add("aside");
  }

  update(balance, data, u) {
    const { contexts, even, fit, at } = balance;
    const values = [...even, ...fit].filter((v) => v !== null && v > 0);
    const top = Math.max(at[1], ...values);
    const low = Math.min(1, at[1]);
    const ticks = [];
    for (let v = low; v < top * 9.99; v *= 10) ticks.push(v);
    const lines = [
      { name: "cache = weights", cls: "b", values: even },
      { name: "pool is full", cls: "a", values: fit },
    ].filter((l) => l.values.some((v) => v !== null && v > 0));
    const xs = contexts;
    this.prov.replaceChildren(modelled([`${data.place.gpus} × ${data.memory.gpu_title.split(" (")[0].replace(/^(NVIDIA|AMD) /, "")}`]));
    const value = (v) => (v === null ? null : v >= 100 || Number.isInteger(v) ? num(Math.round(v)) : v.toFixed(1));
    this.show(
      {
        xs,
        lines,
        level: null,
        point: at,
        x: { ticks: xs, log: true, text: tokens, label: "tokens of context" },
        y: { ticks: ticks.length > 1 ? ticks : [low, low * 10], log: true, text: (v) => num(v), label: "sequences" },
      },
      {
        u,
        sentence: (i) => `${num(xs[i])} tokens: cache and weights balance at ${value(even[i]) ?? "no number of"} sequences; ${value(fit[i]) ?? "any number"} fit.`,
        hint: `Above the dashed line there is more cache than weights${data.memory.copies > 1.01 ? ", each byte counted once" : ""}. ${lines.some((l) => l.cls === "a") ? "Above the solid one it does not fit." : "Nothing fits here, at any length."}`,
        columns: [
          ["tokens", (i) => num(xs[i]), (i) => xs[i]],
          ["sequences at which cache = weights", (i) => value(even[i]), (i) => even[i]],
          ["sequences that fit", (i) => value(fit[i]), (i) => fit[i]],
        ],
        about: `Sequences against tokens of context, both in powers. You are at ${num(at[1])} sequences of ${num(at[0])} tokens.`,
      },
    );
  }
}
