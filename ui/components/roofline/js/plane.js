// The picture: roofs with their ridges, a model's work as points on the first roof, and the steps of a
// run as they were measured, which can be pointed at and brushed.
import { svg } from "../../run_player/js/icons.js";
import { clamp, el } from "../../run_player/js/util.js";
import { tokens } from "../../kv_sizing/js/curves.js";
import { LogLog } from "../../live_run/js/loglog.js";
import { decades } from "../../live_run/js/scales.js";
import { spread } from "../../series/js/values.js";
import { places } from "./places.js";

export const CLASSES = ["a", "h", "g", "e"]; // of the roofs, in their order
const NEAR = 22; // pixels around a mark that are its own
const UNITS = ["", "k", "M", "G", "T", "P", "E"];

// A power of ten of FLOP/s: 1e11 → "100 G".
export function rateText(v) {
  const power = Math.round(Math.log10(v));
  const unit = Math.max(0, Math.min(UNITS.length - 1, Math.floor(power / 3)));
  return `${Number((10 ** (power - 3 * unit)).toPrecision(3))} ${UNITS[unit]}`.trim();
}
const byLog = (values) => values.filter((v) => v > 0);

// A mark: round for decode, square for prefill, a diamond for both; full for matrices, open for
// attention.
export function mark(parent, x, y, r, kind, cls) {
  if (kind === "decode") return svg("circle", { cx: x, cy: y, r, class: cls }, parent);
  const s = kind === "prefill" ? r * 0.9 : r * 0.95;
  return svg("rect", { x: x - s, y: y - s, width: 2 * s, height: 2 * s, class: cls, ...(kind === "both" ? { transform: `rotate(45 ${x} ${y})` } : {}) }, parent);
}

export class Plane {
  // act: {hover(step), pick(step, adds), brush(steps)}, of steps by their number
  constructor(act) {
    this.act = act;
    this.root = svg("svg", { role: "img" });
    this.box = el("div", "plot plane", this.root);
    this.lit = new Set();
    this.box.onpointermove = (e) => this.moved(e);
    this.box.onpointerleave = () => !this.from && act.hover(null);
    this.box.onpointerdown = (e) => this.pressed(e);
    this.box.onpointerup = (e) => this.released(e);
    this.box.onpointercancel = () => this.ended();
  }

  // shown: {modelled, steps, own: {flops, bytes, name} | null, view, about}
  draw(shown, width, height, u) {
    const { root } = this;
    const { modelled, own, view } = shown;
    Object.assign(this, { shown, u });
    root.replaceChildren();
    Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` }).forEach(([k, v]) => root.setAttribute(k, v));
    root.setAttribute("aria-label", shown.about);
    this.dots = [];
    for (const step of shown.steps)
      for (const part of ["matrices", "attention"]) if (step[part]) this.dots.push({ step: step.step, kind: step.kind, part, x: step[part].intensity, y: step[part].rate });
    const near = view === "own" && shown.steps.length > 0; // the measured points alone, and closer
    const roofs = near ? [] : modelled.roofs;
    const points = near ? [] : modelled.points.filter((p) => p.reaches);
    const xs = decades(...this.span([...this.dots.map((d) => d.x), ...points.map((p) => p.at.value), ...roofs.map((r) => 2 * (r.flops / r.bytes)), ...(own ? [2 * (own.flops / own.bytes)] : [])]));
    const ys = decades(...this.span([...this.dots.map((d) => d.y), ...points.map((p) => p.reaches.value), ...roofs.map((r) => r.flops), ...(own ? [own.flops] : [])]));
    const wide = width >= 520 * u;
    const names = [...roofs.map((r) => r.short), ...(own ? [own.name] : [])];
    const right = wide ? width - Math.min(Math.max(...names.map((n) => n.length), 0) * 6.3 * u + 14 * u, width * 0.34) : width - 12 * u;
    this.labels = [];
    this.taken = [];
    this.lines = [];
    this.area = { left: 46 * u, right, top: 26 * u, base: height - 36 * u };
    const plane = (this.plane = new LogLog(root, { xs, ys, box: this.area, u }));
    plane.grid(rateText, 9);
    plane.text(0, 12 * u, "FLOP/s", { class: "n" });
    plane.text(right, height - 4 * u, "FLOP per byte moved", { "text-anchor": "end", class: "n" });
    const ends = [];
    roofs.forEach((_, i) => {
      const k = roofs.length - 1 - i; // the first roof is drawn last, over the others
      ends.push(this.roof(roofs[k], `line ${CLASSES[k]}`, CLASSES[k]));
    });
    if (own) ends.push(this.roof(own, "line own", "own"));
    if (wide) this.names(ends);
    this.measured();
    if (points.length) this.trail(modelled);
    this.points(points);
    this.write();
    this.cursor = svg("g", { class: "cursor" }, root);
    this.frame = svg("rect", { class: "brush", visibility: "hidden" }, root);
    this.light(this.lit);
  }

  span(values) {
    const found = byLog(values);
    const lo = Math.min(...found);
    const hi = Math.max(...found);
    return found.length ? [lo * 0.7, Math.max(hi * 1.3, lo * 20)] : [1, 1000];
  }

  roof(machine, cls, kind) {
    const { plane, u } = this;
    const { ridge } = plane.roof(machine, cls);
    const [x, y] = [plane.X(ridge), plane.Y(machine.flops)];
    const rise = Math.log10(ridge / plane.xs[0]); // decades to the left edge: as many down
    this.lines.push([plane.X(plane.xs[0]), plane.Y(machine.flops / 10 ** rise), x, y], [x, y, this.area.right, y]);
    svg("path", { d: `M${x - 4 * u} ${y}L${x} ${y - 4 * u}L${x + 4 * u} ${y}L${x} ${y + 4 * u}Z`, class: `ridge ${kind}` }, this.root);
    this.label(x, y, ridge >= 100 ? Math.round(ridge).toLocaleString("en-US") : ridge.toPrecision(3), `v name ${kind}`, { r: 6, weight: 1 });
    return { name: machine.short ?? machine.name, kind, y };
  }

  names(ends) {
    const { plane, u, area } = this;
    const at = spread(ends.map((e) => e.y), 15 * u, area.top, area.base);
    ends.forEach((e, i) => plane.text(area.right + 7 * u, at[i] + 4 * u, e.name, { class: `name ${e.kind}` }));
  }

  // A name beside a mark, written once it is known where there is room. weight: the lowest first
  label(x, y, words, cls, { r, weight }) {
    const { u } = this;
    this.labels.push({ x, y, words, cls, weight, width: words.length * 6.7 * u, height: 15 * u, r: r * u, far: weight === 0 });
    this.taken.push({ x0: x - 0.6 * r * u, x1: x + 0.6 * r * u, y0: y - 0.6 * r * u, y1: y + 0.6 * r * u });
  }

  write() {
    const { plane, u, area } = this;
    const wanted = this.labels.toSorted((a, b) => a.weight - b.weight);
    const found = places(wanted, this.taken, { x0: area.left, x1: area.right + 4 * u, y0: area.top - 16 * u, y1: area.base }, this.lines);
    wanted.forEach((w, i) => {
      if (!found[i]) return;
      this.lead(w, found[i].area);
      plane.text(found[i].x, found[i].y, w.words, { "text-anchor": found[i].anchor, class: w.cls });
    });
  }

  // From a name that stands away from its mark a line leads there.
  lead({ x, y, r, far }, { x0, x1, y0, y1 }) {
    const [tx, ty] = [clamp(x, x0 + 4, x1 - 4), y < y0 ? y0 : y1];
    const away = Math.hypot(tx - x, ty - y);
    if (!far || (y > y0 && y < y1) || away < r + 4 * this.u) return;
    svg("line", { x1: x + ((tx - x) * r) / away, y1: y + ((ty - y) * r) / away, x2: tx, y2: ty, class: "lead" }, this.root);
  }

  // Where the matrices stand with 1, 4, 16 … tokens in a step: one line for decode and prefill.
  trail({ trail }) {
    const { plane, u, root } = this;
    for (const [count, x, y] of trail) {
      svg("circle", { cx: plane.X(x), cy: plane.Y(y), r: 2.6 * u, class: "waymark" }, root);
      this.label(plane.X(x), plane.Y(y), tokens(count), "v way", { r: 5, weight: 2 });
    }
  }

  measured() {
    this.marks = new Map();
    const group = svg("g", { class: "measured" }, this.root);
    for (const d of this.dots) {
      const [px, py] = [this.plane.X(d.x), this.plane.Y(d.y)];
      Object.assign(d, { px, py });
      this.lines.push([px - 4 * this.u, py, px + 4 * this.u, py]);
      const node = mark(group, px, py, 4 * this.u, d.kind, `m ${d.part}`);
      if (!this.marks.has(d.step)) this.marks.set(d.step, []);
      this.marks.get(d.step).push(node);
    }
  }

  points(points) {
    const { plane, u, root, area } = this;
    for (const p of points) {
      const [x, y] = [plane.X(p.at.value), plane.Y(p.reaches.value)];
      const [kind, part] = p.id.split("-");
      svg("line", { x1: x, x2: x, y1: y, y2: area.base, class: "drop" }, root);
      mark(root, x, y, 7 * u, kind, `pt ${part}`);
      this.label(x, y, p.label, "halo s", { r: 11, weight: 0 });
    }
  }

  // Steps that are pointed at or selected stand out, the others step back.
  light(steps) {
    this.lit = steps;
    if (!this.marks) return;
    this.root.classList.toggle("some", steps.size > 0);
    for (const [step, nodes] of this.marks) for (const node of nodes) node.classList.toggle("on", steps.has(step));
    for (const step of steps) for (const node of this.marks.get(step) ?? []) node.parentNode.append(node); // over the others
  }

  point(step) {
    this.cursor?.replaceChildren();
    if (step === null || !this.cursor) return;
    for (const d of this.dots.filter((one) => one.step === step)) {
      svg("line", { x1: d.px, x2: d.px, y1: d.py, y2: this.area.base, class: "drop" }, this.cursor);
      mark(this.cursor, d.px, d.py, 6.5 * this.u, d.kind, `m now ${d.part}`);
    }
  }

  // --- the pointer ----------------------------------------------------------------------------------
  where(e) {
    const r = this.root.getBoundingClientRect();
    return [e.clientX - r.left, e.clientY - r.top];
  }

  nearest([x, y]) {
    let best = null;
    let least = NEAR ** 2;
    for (const d of this.dots) {
      const away = (d.px - x) ** 2 + (d.py - y) ** 2;
      if (away < least) [best, least] = [d, away];
    }
    return best;
  }

  moved(e) {
    if (!this.dots) return;
    const at = this.where(e);
    if (!this.from) return this.act.hover(this.nearest(at)?.step ?? null);
    this.to = at;
    const box = this.brushed();
    Object.entries({ x: box.x0, y: box.y0, width: box.x1 - box.x0, height: box.y1 - box.y0 }).forEach(([k, v]) => this.frame.setAttribute(k, v));
    this.frame.setAttribute("visibility", this.dragged() ? "visible" : "hidden");
    if (this.dragged()) this.light(new Set(this.within(box)));
  }

  pressed(e) {
    if (!this.dots?.length || e.button !== 0) return;
    this.from = this.to = this.where(e);
    this.box.setPointerCapture(e.pointerId);
  }

  released(e) {
    if (!this.from) return;
    this.to = this.where(e);
    if (this.dragged()) this.act.brush(this.within(this.brushed()));
    else {
      const d = this.nearest(this.to);
      if (d) this.act.pick(d.step, e.shiftKey);
      else this.act.brush([]);
    }
    this.ended();
  }

  ended() {
    this.from = null;
    this.frame?.setAttribute("visibility", "hidden");
  }

  dragged() {
    return Math.hypot(this.to[0] - this.from[0], this.to[1] - this.from[1]) > 5;
  }

  brushed() {
    const { left, right, top, base } = this.area;
    const [xa, xb] = [this.from[0], this.to[0]].map((x) => clamp(x, left, right));
    const [ya, yb] = [this.from[1], this.to[1]].map((y) => clamp(y, top, base));
    return { x0: Math.min(xa, xb), x1: Math.max(xa, xb), y0: Math.min(ya, yb), y1: Math.max(ya, yb) };
  }

  within({ x0, x1, y0, y1 }) {
    return [...new Set(this.dots.filter((d) => d.px >= x0 && d.px <= x1 && d.py >= y0 && d.py <= y1).map((d) => d.step))];
  }
}
