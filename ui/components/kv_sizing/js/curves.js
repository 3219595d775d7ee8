// Lines over a continuous axis, linear or in powers, drawn as SVG: axes, lines with their names at
// the end, one level line, one point, and a cursor that reads the values of a place.
import { svg } from "../../run_player/js/icons.js";
import { clamp } from "../../run_player/js/util.js";
import { spread } from "../../series/js/values.js";

export class Curves {
  constructor() {
    this.root = svg("svg", { role: "img" });
  }

  // spec: {xs, lines: [{name, values, cls}], level: {value, name} | null, point: [x, y] | null,
  //        x: {ticks, log, text, label}, y: {ticks, log, text, label}}
  draw(spec, width, height, u) {
    const { root } = this;
    root.replaceChildren();
    Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` }).forEach(([k, v]) => root.setAttribute(k, v));
    const wide = width >= 460 * u;
    const names = spec.lines.map((l) => l.name.length).concat(spec.level ? [spec.level.name.length] : []);
    const right = wide ? Math.min(Math.max(0, ...names) * 6.6 * u + 14 * u, width * 0.42) : 12 * u;
    const left = Math.max(...spec.y.ticks.map((v) => spec.y.text(v).length)) * 7.2 * u + 12 * u;
    Object.assign(this, { spec, u, x0: left, x1: width - right, y0: height - 36 * u, y1: 26 * u });
    const [xa, xb] = [spec.x.ticks[0], spec.x.ticks.at(-1)];
    const [ya, yb] = [spec.y.ticks[0], spec.y.ticks.at(-1)];
    const scale = (v, a, b, log) => (log ? Math.log(v / a) / Math.log(b / a) : (v - a) / (b - a));
    this.X = (v) => this.x0 + scale(Math.max(v, spec.x.log ? xa : 0), xa, xb, spec.x.log) * (this.x1 - this.x0);
    this.Y = (v) => this.y0 - scale(Math.max(v, spec.y.log ? ya : 0), ya, yb, spec.y.log) * (this.y0 - this.y1);
    this.axes();
    this.paths(wide);
    this.cursor = svg("g", { class: "cursor" }, root);
  }

  text(x, y, words, more = {}) {
    svg("text", { x, y, ...more }, this.root).textContent = words;
  }

  axes() {
    const { x, y } = this.spec;
    const { u } = this;
    y.ticks.forEach((v, i) => {
      svg("line", { x1: this.x0, x2: this.x1, y1: this.Y(v), y2: this.Y(v), class: i ? "grid" : "axis" }, this.root);
      this.text(this.x0 - 6 * u, this.Y(v) + 4 * u, y.text(v), { "text-anchor": "end", class: "v" });
    });
    const room = Math.max(1, Math.floor((this.x1 - this.x0) / (74 * u)));
    const every = Math.ceil((x.ticks.length - 1) / room);
    x.ticks.forEach((v, i) => {
      if (i % every === 0) this.text(this.X(v), this.y0 + 15 * u, x.text(v), { "text-anchor": "middle", class: "v" });
    });
    this.text(this.x0, 12 * u, y.label, { class: "n" });
    this.text(this.x1, this.y0 + 31 * u, x.label, { "text-anchor": "end", class: "n" });
  }

  paths(wide) {
    const { spec, u, root } = this;
    const top = spec.y.ticks.at(-1);
    const ends = [];
    const clip = `kv-clip-${Math.random().toString(36).slice(2)}`;
    const box = svg("clipPath", { id: clip }, svg("defs", {}, root));
    svg("rect", { x: this.x0, y: this.y1 - 2, width: Math.max(0, this.x1 - this.x0), height: Math.max(0, this.y0 - this.y1 + 4) }, box);
    const plot = svg("g", { "clip-path": `url(#${clip})` }, root);
    if (spec.level) {
      const y = this.Y(spec.level.value);
      svg("line", { x1: this.x0, x2: this.x1, y1: y, y2: y, class: "level" }, plot);
      ends.push({ name: spec.level.name, cls: "level", x: this.x1, y: Math.max(this.y1, y), hidden: spec.level.value > top });
    }
    for (const line of spec.lines) {
      const points = spec.xs.map((x, i) => [x, line.values[i]]).filter(([x, v]) => v !== null && (!spec.x.log || x > 0) && (!spec.y.log || v > 0));
      svg("path", { d: points.map(([x, v], i) => `${i ? "L" : "M"}${this.X(x)} ${this.Y(v)}`).join(""), class: `line ${line.cls}` }, plot);
      const last = points.findLast(([, v]) => v <= top) ?? points[0];
      const out = points.length > 0 && points.at(-1)[1] > top;
      ends.push({ name: line.name, cls: line.cls, x: this.x1, y: out ? this.y1 : last ? this.Y(last[1]) : this.y0 });
    }
    if (spec.point) {
      const [x, y] = spec.point;
      svg("line", { x1: this.X(x), x2: this.X(x), y1: clamp(this.Y(y), this.y1, this.y0), y2: this.y0, class: "drop" }, root);
      svg("circle", { cx: this.X(x), cy: clamp(this.Y(y), this.y1, this.y0), r: 5 * u, class: "here" }, root);
    }
    if (!wide) return;
    const named = ends.filter((e) => !e.hidden);
    const places = spread(named.map((e) => e.y), 15 * u, this.y1, this.y0);
    const fits = Math.floor((this.root.getAttribute("width") - this.x1 - 8 * u) / (6.4 * u));
    named.forEach((e, i) => this.text(e.x + 8 * u, places[i] + 4 * u, e.name.length > fits ? `${e.name.slice(0, fits - 1)}…` : e.name, { class: `name ${e.cls}` }));
  }

  // Which of the places is under a point, in pixels from the left.
  at(px) {
    let best = 0;
    this.spec.xs.forEach((x, i) => {
      if (Math.abs(this.X(x) - px) < Math.abs(this.X(this.spec.xs[best]) - px)) best = i;
    });
    return best;
  }

  read(i) {
    this.cursor.replaceChildren();
    if (i === null) return;
    const { spec, u } = this;
    const x = this.X(spec.xs[i]);
    svg("line", { x1: x, x2: x, y1: this.y1, y2: this.y0, class: "now" }, this.cursor);
    for (const line of spec.lines) {
      const v = line.values[i];
      if (v !== null && v <= spec.y.ticks.at(-1) && (!spec.y.log || v > 0)) svg("circle", { cx: x, cy: this.Y(v), r: 3.5 * u, class: `dot ${line.cls}` }, this.cursor);
    }
  }
}

// 0, 50, 100 … up to at least `top`, about five of them.
export function round5(top) {
  const raw = top / 5 || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
  const out = [];
  for (let v = 0; v < top + step * 0.999; v += step) out.push(v);
  return out;
}

export const tokens = (v) => (v >= 1048576 ? `${v / 1048576}M` : v >= 1024 ? `${Number((v / 1024).toFixed(1))}K` : String(v));
