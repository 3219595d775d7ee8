// One run as a Gantt chart: a row a place, a bar a stay, and below on the same axis the queue and
// the gaps between tokens. Drawn once a size; afterwards only the cursor and the lights move.
import { HATCH } from "../../run_player/js/canvas.js";
import { svg } from "../../run_player/js/icons.js";
import { requestOf } from "../../run_player/js/runinfo.js";
import { clamp, num } from "../../run_player/js/util.js";
import { ticks } from "../../live_run/js/scales.js";
import { Axis, gapsByStep, queueOf } from "./measure.js";
import { bare, time } from "./words.js";

const QUEUE_LANES = 5;
const SPIKE = 2; // a gap so many times the usual one is named in the picture

export class Picture {
  // lane: {name, info, serving}; id: tells its patterns from those of the other pictures.
  constructor(lane, id) {
    this.lane = lane;
    this.id = id;
    this.root = svg("svg", { role: "img", class: "picture" });
    const { serving } = lane;
    this.rows = new Map(serving.rows.map((r) => [r.sequence, r]));
    this.used = 1 + serving.stays.reduce((most, [row]) => Math.max(most, row), 0);
    this.queue = queueOf(serving.rows);
    this.finds = new Map();
  }

  // shared: {width, u, unit, axis, span, gutter, rowsDrawn, pictures, present, topGap: what the height of the
  // gaps stands for, 0 where every gap is a single step and there is nothing to see}
  draw(shared) {
    Object.assign(this, shared);
    const { u, root, gutter } = this;
    const { places, steps } = this.lane.serving.summary;
    this.axisX = new Axis(shared.axis, this.lane.serving.ends_us, shared.span, this.width - gutter);
    this.rowH = (shared.rowsDrawn > 12 ? 14 : shared.rowsDrawn > 6 || shared.present ? 19 : 25) * u;
    root.replaceChildren();
    this.defs = svg("defs", {}, root);
    this.patterns();
    let y = 2 * u;
    const rest = places - this.used;
    for (let row = 0; row < this.used; row++) {
      this.label(num(row + 1), y + this.rowH / 2);
      svg("rect", { x: gutter, y, width: this.x(steps) - gutter, height: this.rowH - 3 * u, class: "empty", fill: `url(#${this.id}-empty)` }, root);
      y += this.rowH;
    }
    this.bars(2 * u);
    if (rest > 0) {
      svg("rect", { x: gutter, y, width: this.x(steps) - gutter, height: 6 * u, class: "empty", fill: `url(#${this.id}-empty)` }, root);
      this.label(rest > 1 ? `${this.used + 1}–${places}` : num(places), y + 3 * u);
      y += 15 * u;
    }
    if (this.queue.lanes) y = this.waiting(y + 3 * u);
    if (this.topGap) y = this.gaps(y + 4 * u);
    this.ruler(y);
    this.height = y + 16 * u;
    this.cursor = svg("rect", { y: 0, height: y, class: "cursor", rx: 2 }, root);
    root.setAttribute("width", this.width);
    root.setAttribute("height", this.height);
    root.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    this.at(this.k ?? 0);
  }

  x(k) {
    return this.gutter + this.axisX.start(k);
  }

  label(words, y) {
    svg("text", { x: this.gutter - 7 * this.u, y: y + 4 * this.u, "text-anchor": "end", class: "v" }, this.root).textContent = words;
  }

  // The hatches of the ten colours, and those of empty and kept places.
  patterns() {
    const { u, id, defs } = this;
    const make = (name, size, cls, draw) => {
      const p = svg("pattern", { id: `${id}-${name}`, width: size, height: size, patternUnits: "userSpaceOnUse", class: cls }, defs);
      draw(p);
    };
    const colors = new Set(this.lane.serving.rows.map((r) => this.lane.info.color(r.sequence)));
    for (const c of colors) {
      const kind = HATCH[c];
      make(`h${c}`, 4 * u, `c${c}`, (p) => {
        svg("rect", { width: 4 * u, height: 4 * u, class: "ground" }, p);
        if (kind === 1) svg("path", { d: `M0 ${4 * u}L${4 * u} 0`, class: "ink", "stroke-width": 1.4 * u }, p);
        if (kind === 2) svg("path", { d: `M${u} 0V${4 * u}`, class: "ink", "stroke-width": 1.6 * u }, p);
        if (kind === 3) svg("circle", { cx: 2 * u, cy: 2 * u, r: 1.1 * u, class: "inkdot" }, p);
        if (kind === 4) svg("path", { d: `M0 ${2 * u}H${4 * u}`, class: "ink", "stroke-width": 1.4 * u }, p);
      });
      make(`again${c}`, 7 * u, `c${c}`, (p) => {
        svg("rect", { width: 7 * u, height: 7 * u, class: "ground" }, p);
        svg("path", { d: `M0 0L${7 * u} ${7 * u}M${-u} ${6 * u}L${u} ${8 * u}M${6 * u} ${-u}L${8 * u} ${u}`, class: "stripe", "stroke-width": 2.2 * u }, p);
      });
    }
    make("empty", 6 * u, "", (p) => svg("path", { d: `M0 ${6 * u}L${6 * u} 0`, class: "hair" }, p));
    make("held", 5 * u, "", (p) => {
      svg("rect", { width: 5 * u, height: 5 * u, class: "sunk" }, p);
      svg("path", { d: `M0 0L${5 * u} ${5 * u}`, class: "hair strong" }, p);
    });
  }

  bars(top) {
    const { u, lane, root } = this;
    const h = this.rowH - 3 * u;
    for (const [row, sequence, start, kinds] of lane.serving.stays) {
      const y = top + row * this.rowH;
      const c = lane.info.color(sequence);
      const g = svg("g", { class: `stay c${c}`, "data-s": sequence }, root);
      let k = start;
      for (const [kind, n] of kinds) {
        const x = this.x(k);
        const w = Math.max(0.8, this.x(k + n) - x);
        const fill = kind === "held" ? { fill: `url(#${this.id}-held)` } : kind === "again" ? { fill: `url(#${this.id}-again${c})` } : {};
        svg("rect", { x, y, width: w, height: h, class: `part ${kind}`, ...fill }, g);
        if (kind !== "held" && kind !== "stalled") svg("rect", { x, y: y + h - 5 * u, width: w, height: 5 * u, fill: `url(#${this.id}-h${c})` }, g);
        k += n;
      }
      // What is computed again keeps its pattern: the letter comes after it.
      const from = kinds[0][0] === "again" ? start + kinds[0][1] : start;
      const clear = this.x(from) + this.badge(g, sequence, this.x(from), y, this.x(k) - this.x(from), h);
      this.marks(g, sequence, start, k, y, h, clear);
    }
  }

  // The letter where there is room for it; returns how wide it is.
  badge(g, sequence, x, y, room, h) {
    const { u, lane } = this;
    const words = lane.info.letter(sequence) + sequence.slice(requestOf(sequence).length);
    const w = (words.length * 7.2 + 6) * u;
    if (room < w || h < 13 * u) return 0;
    svg("rect", { x, y, width: w, height: h - 5 * u, class: "tag" }, g);
    svg("text", { x: x + w / 2, y: y + (h - 5 * u) / 2 + 4.2 * u, "text-anchor": "middle", class: "letter" }, g).textContent = words;
    return w;
  }

  // clear: where the letter ends; a mark before it keeps below it.
  marks(g, sequence, start, end, y, h, clear) {
    const { u } = this;
    const row = this.rows.get(sequence);
    const first = row.first_token;
    if (first !== null && first >= start && first < end) {
      const x = this.x(first + 1);
      svg("line", { x1: x, x2: x, y1: x < clear ? y + h - 5 * u : y - u, y2: y + h + u, class: "first" }, g);
    }
    if (row.preempted.includes(end)) svg("path", { d: `M${this.x(end)} ${y}l${6 * u} ${h / 2 - 2 * u}l${-6 * u} ${h / 2 - 2 * u}z`, class: "away" }, g);
  }

  waiting(y) {
    const { u, root, queue, lane } = this;
    const high = this.present ? 10 : 15;
    const each = (queue.lanes > QUEUE_LANES ? Math.max(2.5, (QUEUE_LANES * 0.8 * high) / queue.lanes) : high) * u;
    this.label(this.gutter > 45 * u ? "queue" : "q", y + each / 2);
    for (const span of queue.spans) {
      const c = lane.info.color(span.sequence);
      const g = svg("g", { class: `wait c${c}`, "data-s": span.sequence }, root);
      const x = this.x(span.from);
      const w = Math.max(0.8, this.x(span.to) - x);
      const top = y + span.lane * each;
      svg("rect", { x, y: top, width: w, height: each - 1.5 * u, class: "waiting" }, g);
      if (each >= 15 * u && w > 12 * u) svg("text", { x: x + 3 * u, y: top + each - 3.5 * u, class: "tiny" }, g).textContent = lane.info.letter(span.sequence);
    }
    return y + queue.lanes * each + 2 * u;
  }

  // The longest gap of each step, with the target; above the tallest, whose it is.
  gaps(y) {
    const { u, root, unit } = this;
    const h = (this.present ? 28 : this.pictures > 2 ? 38 : 50) * u;
    const base = y + h + 12 * u;
    const byStep = (this.byStep = gapsByStep(this.lane.serving, unit));
    this.gapY = (v) => base - Math.min(1, v / this.topGap) * h;
    const scale = ticks(this.topGap, 2).filter((v) => v <= this.topGap);
    for (const v of scale) {
      svg("line", { x1: this.gutter, x2: this.width, y1: this.gapY(v), y2: this.gapY(v), class: v ? "grid" : "axis" }, root);
      if (v) svg("text", { x: this.gutter - 7 * u, y: this.gapY(v) + 4 * u, "text-anchor": "end", class: "v small" }, root).textContent = bare(v, unit);
    }
    svg("text", { x: this.gutter - 7 * u, y: base + 1 * u, "text-anchor": "end", class: "n small" }, root).textContent = this.gutter > 45 * u ? "gap" : "";
    this.gapBars = byStep.map((all, k) => {
      if (!all.length) return null;
      const most = Math.max(...all.map((g) => g.gap));
      const [x, w] = this.axisX.column(k);
      const pad = Math.min(1.2 * u, w * 0.16);
      const top = this.gapY(most);
      const bar = svg("rect", { x: this.gutter + x + pad, y: top, width: Math.max(0.7, w - 2 * pad), height: Math.max(1, base - top), class: "gapbar" }, root);
      return { bar, most };
    });
    this.own = svg("g", { class: "own" }, root);
    this.line = svg("line", { x1: this.gutter, x2: this.width, class: "target" }, root);
    this.lineWords = svg("text", { x: this.width - 2 * u, "text-anchor": "end", class: "n small target" }, root);
    const peak = byStep.reduce((best, all, k) => (this.gapBars[k] && this.gapBars[k].most > (best < 0 ? 0 : this.gapBars[best].most) ? k : best), -1);
    if (peak >= 0 && this.gapBars[peak].most > SPIKE * this.usual()) this.peak(peak, base, y);
    return base + 3 * u;
  }

  // The median of the steps' longest gaps.
  usual() {
    const all = this.gapBars.filter(Boolean).map((b) => b.most).sort((a, b) => a - b);
    return all[Math.floor(all.length / 2)] ?? 0;
  }

  peak(k, base, top) {
    const { u } = this;
    const { most } = this.gapBars[k];
    const who = this.byStep[k].filter((g) => g.gap > most * 0.98).map((g) => g.sequence);
    const words = `${time(most, this.unit)}: ${who.length > 5 ? `${who.length} requests` : who.join(" ")}`;
    const x = this.x(k);
    const right = x + words.length * 6.3 * u > this.width;
    svg("text", { x: right ? x - 3 * u : this.x(k + 1) + 3 * u, y: clamp(this.gapY(most) + 9 * u, top + 9 * u, base - 4 * u), "text-anchor": right ? "end" : "start", class: "s small" }, this.root).textContent = words;
  }

  ruler(y) {
    const { u, root } = this;
    const n = this.lane.serving.summary.steps;
    const room = this.width - this.gutter;
    const count = Math.max(2, Math.floor(room / (70 * u)));
    const inMs = this.axisX.kind === "ms";
    const at = (v) => (inMs ? this.gutter + (v / this.span) * room : this.x(v));
    const values = inMs ? ticks(this.span / 1000, count).map((v) => v * 1000).filter((v) => v <= this.span) : ticks(this.span, count).filter((v) => v < n && Number.isInteger(v));
    const shift = inMs ? 0 : this.axisX.column(0)[1] / 2;
    for (const v of values) svg("text", { x: Math.min(at(v) + shift, this.width - 14 * u), y: y + 12 * u, "text-anchor": "middle", class: "v small" }, root).textContent = inMs ? num(v / 1000) : num(v);
    svg("text", { x: this.gutter - 7 * u, y: y + 12 * u, "text-anchor": "end", class: "n small" }, root).textContent = inMs ? "ms" : "step";
  }

  // --- what changes without drawing again -----------------------------------------------------------
  at(k) {
    this.k = Math.min(k, this.lane.serving.summary.steps - 1);
    const [x, w] = this.axisX.column(Math.max(0, this.k));
    const wide = Math.max(w, 3 * this.u);
    this.cursor.setAttribute("x", this.gutter + x + w / 2 - wide / 2);
    this.cursor.setAttribute("width", wide);
  }

  target(gap) {
    if (!this.topGap) return;
    const y = this.gapY(gap);
    const shown = gap <= this.topGap;
    for (const node of [this.line, this.lineWords]) node.setAttribute("display", shown ? "inline" : "none");
    this.line.setAttribute("y1", y);
    this.line.setAttribute("y2", y);
    this.lineWords.setAttribute("y", y - 3 * this.u);
    this.lineWords.textContent = `target ${time(gap, this.unit)}`;
    for (const b of this.gapBars) b?.bar.classList.toggle("late", b.most > gap);
  }

  light(sequence) {
    this.root.classList.toggle("dim", sequence !== null && this.rows.has(sequence));
    for (const g of this.root.querySelectorAll("[data-s]")) g.classList.toggle("lit", g.dataset.s === sequence);
    if (!this.topGap) return;
    this.own.replaceChildren();
    const row = this.rows.get(sequence);
    if (!row) return;
    this.own.setAttribute("class", `own c${this.lane.info.color(sequence)}`);
    this.byStep.forEach((all, k) => {
      const mine = all.find((g) => g.sequence === sequence);
      if (!mine) return;
      const [x, w] = this.axisX.column(k);
      svg("circle", { cx: this.gutter + x + w / 2, cy: this.gapY(mine.gap), r: clamp(w * 0.4, 1.2, 3.2 * this.u) }, this.own);
    });
  }

  stepAt(px) {
    return this.axisX.at(Math.max(0, px - this.gutter), this.lane.serving.summary.steps);
  }
}
