// The roofline: every step as a dot, at its FLOPs per byte and the FLOP/s it reached; modelled
// machines show where it would stand there.
import { svg } from "../../run_player/js/icons.js";
import { el } from "../../run_player/js/util.js";
import { LogLog } from "./loglog.js";
import { decades, powerOfTen, short } from "./scales.js";
import { against, forwardUs, modelledSeconds } from "./metrics.js";

export class RoofChart {
  constructor(bench) {
    this.bench = bench;
    this.root = el("div", "chart chartbox");
  }

  // [{k, x, y}] of all steps that computed something
  points(machine) {
    const out = [];
    this.bench.run.steps.forEach((step, k) => {
      if (!step.work?.flops || !step.work.bytes) return;
      const us = machine?.modelled ? 1e6 * modelledSeconds(step.work, machine) : forwardUs(step);
      if (us > 0) out.push({ k, x: step.work.flops / step.work.bytes, y: against(step.work, us).rate });
    });
    return out;
  }

  draw() {
    const { k, scale: u, machine } = this.bench;
    const width = Math.max(220, this.root.clientWidth);
    const height = Math.round((this.bench.present ? 210 : 250) * u);
    const root = svg("svg", { width, height, role: "img" });
    this.root.replaceChildren(root);
    const dots = this.points(machine);
    root.setAttribute("aria-label", this.describe(dots, machine));
    const text = (x, yy, words, more = {}) => (svg("text", { x, y: yy, ...more }, root).textContent = words);
    if (!dots.length) {
      text(width / 2, height / 2, "This run has no counts of work.", { "text-anchor": "middle" });
      return;
    }
    const roof = machine?.flops ? machine : null;
    const ridge = roof ? roof.flops / roof.bytes : null;
    const xs = decades(Math.min(...dots.map((d) => d.x / 2), ridge ? ridge / 10 : 1), Math.max(...dots.map((d) => d.x), ridge ? ridge * 3 : 10));
    const ys = decades(Math.min(...dots.map((d) => d.y / 2), roof ? roof.bytes * xs[0] : Infinity), Math.max(...dots.map((d) => d.y), roof ? roof.flops : 0));
    const box = { left: 42 * u, right: width - 8 * u, top: 22 * u, base: height - 34 * u };
    const plane = new LogLog(root, { xs, ys, box, u });
    const { X: lx, Y: ly } = plane;
    const { left, right, base } = box;
    plane.grid((v) => powerOfTen(v / 1e9));
    text(0, 11 * u, "GFLOP/s");
    text(right, height - 3 * u, "FLOP per byte moved", { "text-anchor": "end" });
    if (roof) this.roof(plane, roof, text);

    const marks = new Map(dots.map((d) => [`${lx(d.x).toFixed(0)} ${ly(d.y).toFixed(0)}`, d])); // dots that lie on each other are drawn once
    for (const d of marks.values()) svg("circle", { cx: lx(d.x), cy: ly(d.y), r: 3.6 * u, class: machine?.modelled ? "pt modelled" : "pt" }, root);
    const now = dots.find((d) => d.k === k);
    if (!now) return;
    svg("line", { x1: lx(now.x), x2: lx(now.x), y1: ly(now.y), y2: base, class: "drop" }, root);
    svg("circle", { cx: lx(now.x), cy: ly(now.y), r: 6 * u, class: "pt now" }, root);
    const far = lx(now.x) > (left + right) / 2;
    text(lx(now.x) + (far ? -10 : 10) * u, ly(now.y) + 16 * u, `step ${this.bench.run.steps[k].step}`, { "text-anchor": far ? "end" : "start", class: "s" });
  }

  roof(plane, roof, text) {
    const { X: lx, Y: ly, right, u } = plane;
    const { from, ridge } = plane.roof(roof, roof.modelled ? "roof modelled" : "roof");
    text(right - 2 * u, ly(roof.flops) - 6 * u, `${short(roof.flops, "FLOP/s")}${roof.note ? `, ${roof.note}` : ""}`, { "text-anchor": "end" });
    const mid = from * (ridge / from) ** 0.28;
    const y = ly(roof.bytes * mid) - 7 * u;
    text(lx(mid), y, short(roof.bytes, "B/s"), { "text-anchor": "middle", transform: `rotate(${-plane.slope()} ${lx(mid)} ${y})` });
  }

  describe(dots, machine) {
    if (!dots.length) return "No counts of work in this run";
    const now = dots.find((d) => d.k === this.bench.k) ?? dots[0];
    const where = machine?.modelled ? `modelled on ${machine.title}` : "as measured";
    return `Roofline with ${dots.length} steps, ${where}. Step ${this.bench.run.steps[now.k].step}: ${now.x.toFixed(2)} FLOP per byte, ${short(now.y, "FLOP/s")}.`;
  }
}
