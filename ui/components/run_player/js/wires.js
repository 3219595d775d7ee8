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

  // A bracket in the gap above the cards (between their rows, if source and copy lie in two), so
  // that it crosses no words.
  copy(src, dst) {
    const a = this.box(src);
    const b = this.box(dst);
    const right = b.cx >= a.cx;
    const x0 = a.cx + a.w * (right ? 0.2 : -0.2);
    const x1 = b.cx - (Math.abs(b.cx - a.cx) < 1 ? 0 : b.w * (right ? 0.12 : -0.12));
    const down = b.y > a.bottom;
    const up = a.y > b.bottom;
    const y0 = down ? a.bottom : a.y;
    const y1 = up ? b.bottom : b.y;
    const mid = down ? a.bottom + 4 : a.y - (up ? 4 : 7);
    const tip = up ? -5 : 5;
    this.line(`M${x0} ${y0}V${mid}H${x1}V${y1 - tip}`, "cow");
    svg("path", { d: `M${x1 - 5} ${y1 - tip}L${x1 + 5} ${y1 - tip}L${x1} ${y1 + tip / 5}Z`, class: "head" }, this.root);
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
