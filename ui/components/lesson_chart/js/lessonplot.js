// The picture: axes and cursor come from the curves of the sizing page; rules and names are here.
import { svg } from "../../run_player/js/icons.js";
import { Curves } from "../../kv_sizing/js/curves.js";
import { styleOf } from "../../series/js/plot.js";
import { apart, broken, freePlace } from "./axes.js";

const LINE = 15; // pixels of a line of a name, before scaling

export class LessonPlot extends Curves {
  // spec: as for Curves; and rules: [{axis: "x" | "y", at, label}]
  draw(spec, width, height, u) {
    this.names = spec.lines.map((line) => broken(line.name));
    const longest = this.names.map((lines) => lines.reduce((a, b) => (b.length > a.length ? b : a), ""));
    const lines = spec.lines.map((line, i) => ({ ...line, full: line.name, name: longest[i], cls: styleOf(line, i) }));
    super.draw({ ...spec, lines, level: null, point: null }, width, height, u);
  }

  // As many marks as have room, and the two ends before any between them.
  axes() {
    const { spec, u } = this;
    spec.y.ticks.forEach((v, i) => {
      svg("line", { x1: this.x0, x2: this.x1, y1: this.Y(v), y2: this.Y(v), class: i ? "grid" : "axis" }, this.root);
      this.text(this.x0 - 6 * u, this.Y(v) + 4 * u, spec.y.text(v), { "text-anchor": "end", class: "v" });
    });
    const half = (v) => (spec.x.text(v).length * 7.2 * u) / 2 + 5 * u;
    const { ticks } = spec.x;
    const taken = [];
    for (const v of [ticks.at(-1), ticks[0], ...ticks.slice(1, -1)]) {
      const [lo, hi] = [this.X(v) - half(v), this.X(v) + half(v)];
      if (taken.some(([a, b]) => lo < b && a < hi)) continue;
      taken.push([lo, hi]);
      this.text(this.X(v), this.y0 + 15 * u, spec.x.text(v), { "text-anchor": "middle", class: "v" });
    }
    this.text(this.x0, 12 * u, spec.y.label, { class: "n" });
    this.text(this.x1, this.y0 + 31 * u, spec.x.label, { "text-anchor": "end", class: "n" });
  }

  point(i) {
    this.read(i);
  }

  paths(wide) {
    const { spec, u, root } = this;
    this.rules();
    const ends = [];
    spec.lines.forEach((line) => {
      let pen = "M";
      let path = "";
      let last = null;
      spec.xs.forEach((x, i) => {
        const v = line.values[i];
        if (v === null || (spec.y.log && v <= 0)) pen = "M";
        else {
          path += `${pen}${this.X(x)} ${this.Y(v)}`;
          pen = "L";
          last = [this.X(x), this.Y(v)];
        }
      });
      svg("path", { d: path, class: `line ${line.cls}` }, root);
      ends.push(last ?? [this.x1, this.y0]);
    });
    if (!wide) return;
    const heights = this.names.map((lines) => lines.length * LINE * u + 3 * u);
    const middles = apart(ends.map((e) => e[1]), heights, this.y1 - 10 * u, this.y0 + 10 * u);
    spec.lines.forEach((line, i) => {
      const top = middles[i] - ((this.names[i].length - 1) * LINE * u) / 2 + 4 * u;
      const [x, y] = ends[i];
      if (Math.abs(middles[i] - y) > 6 * u || this.x1 - x > 6 * u) svg("path", { d: `M${x + 2 * u} ${y}L${this.x1 + 6 * u} ${middles[i]}`, class: "leader" }, root);
      this.names[i].forEach((words, k) => this.text(this.x1 + 9 * u, top + k * LINE * u, words, { class: `name ${line.cls}` }));
    });
  }

  // The pixel heights of all lines at a pixel x.
  heights(px) {
    const { xs, lines, y } = this.spec;
    const places = xs.map((x) => this.X(x));
    const i = places.findIndex((place) => place >= px);
    if (i < 0) return [];
    const before = Math.max(0, i - 1);
    const part = places[i] > places[before] ? (px - places[before]) / (places[i] - places[before]) : 0;
    return lines
      .map(({ values }) => [values[before], values[i]])
      .filter(([a, b]) => a !== null && b !== null && (!y.log || (a > 0 && b > 0)))
      .map(([a, b]) => this.Y(a) + part * (this.Y(b) - this.Y(a)));
  }

  rules() {
    const { spec, u, root } = this;
    for (const rule of spec.rules) {
      const flat = rule.axis === "y";
      const at = flat ? this.Y(rule.at) : this.X(rule.at);
      const [lo, hi] = flat ? [this.y1, this.y0] : [this.x0, this.x1];
      if (at < lo - 1 || at > hi + 1) continue;
      const line = flat ? { x1: this.x0, x2: this.x1, y1: at, y2: at } : { x1: at, x2: at, y1: this.y1, y2: this.y0 };
      svg("line", { ...line, class: "level" }, root);
      if (flat) {
        const place = freePlace(at, rule.label.length * 6.6 * u, this, (x) => this.heights(x), u);
        this.text(place.x, place.y, rule.label, { class: "s" });
      }
      else {
        const left = at > (this.x0 + this.x1) / 2;
        this.text(at + (left ? -5 : 5) * u, this.y1 + 10 * u, rule.label, { class: "s", "text-anchor": left ? "end" : "start" });
      }
    }
  }
}
