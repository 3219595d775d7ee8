// A plane of FLOP/s over FLOP per byte, both axes in powers of ten: its grid, its roofs, its places.
import { svg } from "../../run_player/js/icons.js";
import { clamp } from "../../run_player/js/util.js";
import { powerOfTen } from "./scales.js";

export class LogLog {
  // xs, ys: the powers of ten at the grid's lines; box: {left, right, top, base} in pixels
  constructor(root, { xs, ys, box, u }) {
    Object.assign(this, { root, xs, ys, ...box, u });
    const across = Math.log10(xs.at(-1) / xs[0]);
    const up = Math.log10(ys.at(-1) / ys[0]);
    this.X = (v) => this.left + (Math.log10(v / xs[0]) / across) * (this.right - this.left);
    this.Y = (v) => this.base - (Math.log10(v / ys[0]) / up) * (this.base - this.top);
  }

  text(x, y, words, more = {}) {
    const node = svg("text", { x, y, ...more }, this.root);
    node.textContent = words;
    return node;
  }

  // The grid with its labels. label: how a rate is written; most: labels on the upright axis
  grid(label, most = 5) {
    const { xs, ys, left, right, top, base, u, root } = this;
    const room = Math.max(2, Math.floor((right - left) / (34 * u)));
    const across = Math.ceil(xs.length / room);
    xs.forEach((v, i) => {
      svg("line", { x1: this.X(v), x2: this.X(v), y1: top, y2: base, class: "grid" }, root);
      if (i % across === 0) this.text(clamp(this.X(v), left, right), base + 15 * u, powerOfTen(v), { "text-anchor": v === xs.at(-1) ? "end" : "middle", class: "v" });
    });
    const sparse = Math.ceil(ys.length / most);
    ys.forEach((v, i) => {
      svg("line", { x1: left, x2: right, y1: this.Y(v), y2: this.Y(v), class: "grid" }, root);
      if (i % sparse === 0) this.text(left - 5 * u, this.Y(v) + 4 * u, label(v), { "text-anchor": "end", class: "v" });
    });
  }

  // A machine's roof: up with its memory, flat at its peak. machine: {flops, bytes} per second
  roof({ flops, bytes }, cls, parent = this.root) {
    const { xs, ys } = this;
    const from = Math.max(xs[0], ys[0] / bytes);
    const ridge = flops / bytes;
    const rise = from < ridge ? `M${this.X(from)} ${this.Y(bytes * from)}L${this.X(ridge)} ${this.Y(flops)}` : `M${this.X(from)} ${this.Y(flops)}`;
    svg("path", { d: `${rise}L${this.X(xs.at(-1))} ${this.Y(flops)}`, class: cls }, parent);
    return { from, ridge };
  }

  // How steep a memory's line is drawn, in degrees.
  slope() {
    const [x, y] = [this.xs[0], this.ys[0]];
    return (Math.atan2(this.Y(y) - this.Y(10 * y), this.X(10 * x) - this.X(x)) * 180) / Math.PI;
  }
}
