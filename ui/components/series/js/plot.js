// The picture of a chart over steps: axes, bands, lines, marks and the cursor, as SVG.
import { svg } from "../../run_player/js/icons.js";
import { clamp, num } from "../../run_player/js/util.js";
import { ticks } from "../../live_run/js/scales.js";
import { has, highest, runsOf, spread, stacked, value } from "./values.js";

const STYLES = ["a", "b", "c", "d", "e", "f"];
export const styleOf = (line, i) => (STYLES.includes(line.style) ? line.style : STYLES[i % 4]);

export class Plot {
  constructor() {
    this.root = svg("svg", { role: "img" });
  }

  // u: pixels a unit; the picture keeps what `at` and `column` need to find a step again.
  draw(data, width, height, u) {
    const { root } = this;
    root.replaceChildren();
    root.setAttribute("width", width);
    root.setAttribute("height", height);
    const last = Math.max(0, data.x.last);
    const wide = width >= 520 * u && (data.lines ?? []).length > 0;
    const right = wide ? Math.min(width * 0.3, Math.max(...data.lines.map((l) => l.name.length)) * 6.6 * u + 14 * u) : 8 * u;
    const marked = (data.marks ?? []).length > 0;
    const scale = ticks(highest(data), height < 150 * u ? 2 : 4);
    const labels = scale.map(value);
    const left = Math.max(...labels.map((s) => s.length + 1), data.x.label.length + 2) * 7 * u + 4 * u;
    Object.assign(this, { data, u, last, x0: left, x1: width - right, top: (marked ? 30 : 16) * u, base: height - 24 * u });
    this.y = (v) => this.base - (v / scale.at(-1)) * (this.base - this.top);
    const text = (x, y, words, more = {}) => (svg("text", { x, y, ...more }, root).textContent = words);

    scale.forEach((v, i) => {
      svg("line", { x1: this.x0, x2: this.x1, y1: this.y(v), y2: this.y(v), class: v ? "grid" : "axis" }, root);
      text(this.x0 - 6 * u, this.y(v) + 4 * u, labels[i], { "text-anchor": "end", class: "v" });
    });
    for (const x of ticks(last, Math.max(2, Math.floor((this.x1 - this.x0) / (90 * u)))).filter((v) => v <= last && Number.isInteger(v))) {
      text(this.column(x), this.base + 15 * u, num(x), { "text-anchor": "middle", class: "v" });
    }
    text(this.x0 - 12 * u, this.base + 15 * u, data.x.label, { "text-anchor": "end", class: "n" });
    this.bands();
    this.marks(text);
    this.lines(text, wide);
    this.cursor = svg("g", { class: "cursor" }, root);
  }

  column(x) {
    return this.last ? this.x0 + ((this.x1 - this.x0) * x) / this.last : (this.x0 + this.x1) / 2;
  }

  // The step under a place, in pixels from the left edge.
  at(px) {
    return this.last ? clamp(Math.round(((px - this.x0) / (this.x1 - this.x0)) * this.last), 0, this.last) : 0;
  }

  bands() {
    const { data, root, u } = this;
    const edges = stacked(data.bands ?? [], this.last);
    const defs = edges.length ? svg("defs", {}, root) : null;
    edges.forEach((edge, i) => {
      const id = `kv-band-${i}`;
      const turn = [45, 0, 90, 135][i % 4];
      const p = svg("pattern", { id, width: 6 * u, height: 6 * u, patternUnits: "userSpaceOnUse", patternTransform: `rotate(${turn})` }, defs);
      svg("rect", { width: 6 * u, height: 6 * u, class: `wash ${STYLES[i % 4]}` }, p);
      svg("rect", { width: 1.4 * u, height: 6 * u, class: `rule ${STYLES[i % 4]}` }, p);
      const under = i ? edges[i - 1] : edge.map(() => 0);
      const over = edge.map((v, x) => `${x ? "L" : "M"}${this.column(x)} ${this.y(v)}`).join("");
      const back = under.map((v, x) => `L${this.column(x)} ${this.y(v)}`).reverse().join("");
      svg("path", { d: `${over}${back}Z`, class: "area", fill: `url(#${id})` }, root);
      svg("path", { d: over, class: `edge ${STYLES[i % 4]}` }, root);
    });
  }

  marks(text) {
    let free = -Infinity;
    for (const m of [...(this.data.marks ?? [])].sort((a, b) => a.x - b.x)) {
      const x = this.column(m.x);
      svg("line", { x1: x, x2: x, y1: this.top - 8 * this.u, y2: this.base, class: "mark" }, this.root);
      const wide = m.label.length * 6.4 * this.u;
      const at = Math.min(x, this.x1 - wide);
      if (at < free) continue; // the sentence of the step names it all the same
      text(Math.max(this.x0, at), 12 * this.u, m.label, { class: "s" });
      free = at + wide + 10 * this.u;
    }
  }

  lines(text, named) {
    const { u } = this;
    const lines = this.data.lines ?? [];
    const ends = [];
    lines.forEach((line, i) => {
      const style = styleOf(line, i);
      for (const run of runsOf(line.values)) {
        if (run.length === 1) svg("circle", { cx: this.column(run[0][0]), cy: this.y(run[0][1]), r: 2.5 * u, class: `dot ${style}` }, this.root);
        else svg("path", { d: run.map(([x, v], j) => `${j ? "L" : "M"}${this.column(x)} ${this.y(v)}`).join(""), class: `line ${style}` }, this.root);
      }
      const end = line.values.findLastIndex(has);
      ends.push(end < 0 ? [this.x1, this.base] : [this.column(end), this.y(line.values[end])]);
    });
    if (!named) return;
    const places = spread(ends.map((e) => e[1]), 15 * u, this.top, this.base);
    lines.forEach((line, i) => text(this.x1 + 8 * u, places[i] + 4 * u, line.name, { class: `name ${styleOf(line, i)}` }));
  }

  point(x) {
    this.cursor.replaceChildren();
    if (x === null) return;
    const at = this.column(x);
    svg("line", { x1: at, x2: at, y1: this.top - 4 * this.u, y2: this.base, class: "now" }, this.cursor);
    (this.data.lines ?? []).forEach((line, i) => {
      if (has(line.values[x])) svg("circle", { cx: at, cy: this.y(line.values[x]), r: 3.5 * this.u, class: `dot ${styleOf(line, i)}` }, this.cursor);
    });
  }
}
