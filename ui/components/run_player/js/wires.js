// Lines over the pictures: from a table entry to its block, and the arrow of a copy.
import { svg } from "./icons.js";

export class Wires {
  constructor(area) {
    this.area = area;
    this.root = svg("svg", { class: "wires", "aria-hidden": "true" });
  }

  box(node) {
    const a = this.area.getBoundingClientRect();
    const r = node.getBoundingClientRect();
    return { x: r.left - a.left, y: r.top - a.top, w: r.width, h: r.height, cx: r.left - a.left + r.width / 2, bottom: r.bottom - a.top };
  }

  clear() {
    if (this.root.childNodes.length) this.root.replaceChildren();
  }

  line(d, cls) {
    svg("path", { d, class: `under ${cls}` }, this.root);
    svg("path", { d, class: cls }, this.root);
  }

  copy(src, dst) {
    const a = this.box(src);
    const b = this.box(dst);
    const lift = Math.min(13, a.h * 0.5);
    const [x0, x1] = b.x > a.x ? [a.x + a.w * 0.62, b.x + b.w * 0.4] : [a.x + a.w * 0.4, b.x + b.w * 0.62];
    const top = Math.min(a.y, b.y) - lift;
    this.line(`M${x0} ${a.y + 1}C${x0} ${top},${x1} ${top},${x1} ${b.y - 4}`, "cow");
    svg("path", { d: `M${x1 - 5} ${b.y - 8}L${x1 + 5} ${b.y - 8}L${x1} ${b.y + 1}Z`, class: "head" }, this.root);
  }

  link(from, to) {
    const a = this.box(from);
    const b = this.box(to);
    if (a.cx < 0 || a.cx > this.area.clientWidth) return; // scrolled out of its lane
    const above = a.y < b.y;
    const y0 = above ? a.bottom : a.y;
    const y1 = above ? b.y - 2 : b.bottom + 2;
    const mid = (y0 + y1) / 2;
    this.line(`M${a.cx} ${y0}C${a.cx} ${mid},${b.cx} ${mid},${b.cx} ${y1}`, "wire");
    svg("circle", { cx: a.cx, cy: y0, r: 3.5, class: "end" }, this.root);
  }
}
