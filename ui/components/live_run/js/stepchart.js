// Milliseconds step by step: a bar a step, under it a dot whose area is the tokens in the step.
import { svg } from "../../run_player/js/icons.js";
import { el, num } from "../../run_player/js/util.js";
import { ticks } from "./scales.js";
import { kindOf, promptLengths, stepTokens, stepUs } from "./metrics.js";

const LABEL = { prefill: "prefill", decode: "decode", both: "prefill and decode", again: "all computed again", idle: "idle" };
export const kindName = (kind) => LABEL[kind];

export class StepChart {
  constructor(bench) {
    this.bench = bench;
    this.box = el("div", "chartbox");
    // Not `onclick`: the bars are drawn anew at each step, and a bar that is gone gets no click.
    this.box.onpointerup = (e) => {
      const k = e.target.closest("[data-k]")?.dataset.k;
      if (k !== undefined && e.button === 0) bench.go(Number(k), true);
    };
    this.range = el("input", "rng");
    this.range.type = "range";
    this.range.min = "0";
    this.range.setAttribute("aria-label", "Step");
    this.range.oninput = () => bench.go(Number(this.range.value), true);
    this.root = el("div", "chart", this.box, this.range);
  }

  draw() {
    const { run, k, scale, compare } = this.bench;
    const steps = run.steps;
    const width = Math.max(240, this.box.clientWidth);
    const u = scale;
    const height = Math.round((this.bench.present ? 250 : 300) * u);
    const root = svg("svg", { width, height, role: "img" });
    root.setAttribute("aria-label", this.describe());
    this.box.replaceChildren(root);
    this.range.max = String(Math.max(0, steps.length - 1));
    this.range.value = String(k);
    this.range.setAttribute("aria-valuetext", `Step ${k} of ${Math.max(0, steps.length - 1)}`);
    if (!steps.length) return;

    const x0 = 40 * u;
    const x1 = width - 4 * u;
    const top = 22 * u;
    const base = height - 62 * u;
    const { gapTarget, reading } = this.bench;
    const times = steps.map((s) => stepUs(s) / 1000);
    const others = compare ? compare.steps.map((s) => stepUs(s) / 1000) : [];
    const highest = Math.max(...times, ...others, 0.001);
    const near = (v) => v && v < 1.6 * highest;
    const lines = ticks(Math.max(highest, near(gapTarget) ? gapTarget : 0, near(reading) ? reading : 0));
    const y = (v) => base - (v / lines.at(-1)) * (base - top);
    const slots = Math.max(steps.length, others.length);
    const bw = (x1 - x0) / slots;
    const text = (x, yy, words, more = {}) => (svg("text", { x, y: yy, ...more }, root).textContent = words);

    for (const v of lines) {
      svg("line", { x1: x0, x2: x1, y1: y(v), y2: y(v), class: v ? "grid" : "axis" }, root);
      text(x0 - 6 * u, y(v) + 4 * u, num(v) === "0" && v ? String(v) : String(v), { "text-anchor": "end", class: "v" });
    }
    text(0, 12 * u, "ms");

    const lengths = promptLengths(run);
    const keeps = run.header.scenario?.engine?.kv_cache !== false;
    const kinds = steps.map((s) => kindOf(s, lengths, keeps));
    const most = Math.max(...steps.map(stepTokens), 1);
    const large = steps.filter((s) => stepTokens(s) > most / 2).length > 3 ? Math.max(2 * u, Math.min(9 * u, bw * 0.45)) : 9 * u;
    const every = Math.max(1, Math.ceil((34 * u) / bw));
    const gap = Math.min(1.5 * u, bw * 0.18);
    steps.forEach((step, i) => {
      const g = svg("g", { class: `bar ${kinds[i]}${i === k ? " sel" : ""}`, "data-k": i }, root);
      svg("rect", { x: x0 + i * bw, y: top - 10 * u, width: bw, height: base - top + 46 * u, class: "hit" }, g);
      svg("rect", { x: x0 + i * bw + gap, y: y(times[i]), width: Math.max(1, bw - 2 * gap), height: Math.max(1, base - y(times[i])), rx: Math.min(1.5 * u, bw / 4), class: "ink" }, g);
      const tokens = stepTokens(step);
      if (tokens) svg("circle", { cx: x0 + (i + 0.5) * bw, cy: base + 34 * u, r: Math.max(1.3 * u, large * Math.sqrt(tokens / most)), class: "dot" }, g);
      const name = `Step ${step.step}: ${LABEL[kinds[i]]}, ${num(tokens)} ${tokens === 1 ? "token" : "tokens"}, ${times[i].toFixed(1)} ms`;
      svg("title", {}, g).textContent = name;
      if (i % every === 0 && Math.abs(i - k) >= every * 0.7) text(x0 + (i + 0.5) * bw, base + 15 * u, num(step.step), { "text-anchor": "middle", class: "v" });
    });
    text(x0 + (k + 0.5) * bw, base + 15 * u, num(steps[k].step), { "text-anchor": "middle", class: "v s" });

    if (others.length) {
      const path = others.map((v, i) => `${i ? "L" : "M"}${x0 + (i + 0.5) * bw} ${y(v)}`).join("");
      svg("path", { d: path, class: "other" }, root);
      const at = Math.floor(others.length * 0.55);
      text(x0 + at * bw, y(others[at]) - 8 * u, compare.header.scenario?.name ?? "compared", { "text-anchor": "middle", class: "s" });
    }
    this.line(root, near(gapTarget) ? gapTarget : null, "target", x0, x1, y, u);
    this.line(root, near(reading) ? reading : null, "reading speed", x0, x1, y, u);
    const first = kinds.findIndex((kind) => kind === "prefill" || kind === "both");
    if (first >= 0 && stepTokens(steps[first]) > 1 && (first + 1) * bw < (x1 - x0) * 0.6) {
      const words = `${LABEL[kinds[first]]}: ${num(stepTokens(steps[first]))} tokens in one step`;
      text(x0 + (first + 0.5) * bw, 12 * u, words, { class: "s" });
    }
    text(x0, height - 3 * u, "dot area = tokens in the step; click a step", { class: "n" });
  }

  line(root, v, words, x0, x1, y, u) {
    if (v === null) return;
    svg("line", { x1: x0, x2: x1, y1: y(v), y2: y(v), class: "target" }, root);
    svg("text", { x: x1, y: y(v) - 5 * u, "text-anchor": "end", class: "n halo" }, root).textContent = `${words} ${num(Math.round(v))} ms`;
  }

  describe() {
    const { steps } = this.bench.run;
    if (!steps.length) return "No step yet";
    const most = steps.reduce((a, s) => (stepTokens(s) > stepTokens(a) ? s : a));
    return `Bar chart of ${steps.length} steps. The step with most tokens, ${stepTokens(most)}, is step ${most.step} and takes ${(stepUs(most) / 1000).toFixed(1)} ms.`;
  }
}
