// Lines from what a place builds on to the place: arcs beside the list.
import { svg } from "../../run_player/js/icons.js";

// rows: {name: middle in pixels}; edges: [from, to]; the arcs lie left of x = width.
export function drawArcs(root, rows, edges, width, height) {
  root.replaceChildren();
  Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` }).forEach(([k, v]) => root.setAttribute(k, v));
  const spans = edges.map(([from, to]) => Math.abs(rows[to] - rows[from]));
  const longest = Math.max(1, ...spans);
  edges.forEach(([from, to], i) => {
    const [a, b] = [rows[from], rows[to]];
    const reach = (12 + (width - 22) * Math.sqrt(spans[i] / longest)) * 1.3;
    const path = svg("path", { d: `M${width} ${a}C${width - reach} ${a} ${width - reach} ${b} ${width} ${b}`, class: "arc" }, root);
    path.dataset.from = from;
    path.dataset.to = to;
  });
}

// All that a place builds on, however far back.
export function before(edges, name) {
  const out = new Set();
  const look = [name];
  while (look.length) {
    const at = look.pop();
    for (const [from, to] of edges) {
      if (to === at && !out.has(from)) {
        out.add(from);
        look.push(from);
      }
    }
  }
  return out;
}
