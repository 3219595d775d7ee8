// The two pictures once more: as tables to read, and as files to take away.
import { fit, readColors } from "../../run_player/js/canvas.js";
import { button, el, num } from "../../run_player/js/util.js";
import { evictionOrder, NODE } from "./layout.js";

const MOST_ROWS = 400;
const HEADS = ["Cache", "Block", "Tokens", "Key", "Made from", "Node", "References", "Hits", "Last used in step", "Place in eviction"];

// One row for each cached block of a side.
export function rowsOf(side) {
  const { state } = side.sv;
  const place = new Map(evictionOrder(state).order.map((b, i) => [b, i + 1]));
  const rows = [];
  for (let b = 0; b < state.n; b++) {
    const e = state.entry[b];
    if (e) rows.push([side.name, b, side.read(e.tokens), e.key, e.parent_key ?? "root", state.nodeOf[b] >= 0 ? state.nodeOf[b] : "", state.ref[b], state.hits[b], state.lastUsed(b), place.get(b) ?? "in use"]);
  }
  return rows;
}

// A field that a spreadsheet would take for a formula is text.
const quoted = (v) => {
  const s = String(v);
  const safe = /^[=+\-@\t\r]/.test(s) && Number.isNaN(Number(s)) ? `'${s}` : s;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};

export const csv = (rows) => [HEADS, ...rows].map((r) => r.map(quoted).join(",")).join("\r\n") + "\r\n";

export class Facts {
  constructor(view) {
    this.view = view;
    this.body = el("div", "tbox");
    this.body.tabIndex = 0;
    this.body.setAttribute("role", "region");
    this.body.setAttribute("aria-label", "Both caches after this step");
    this.details = el("details", "", el("summary", "", "Both caches of this step as a table"), this.body);
    this.details.ontoggle = () => this.draw();
    this.root = el("div", "tables", this.details);
  }

  draw() {
    if (!this.details.open) return;
    const rows = this.view.sides.flatMap(rowsOf);
    const number = new Set([1, 5, 6, 7, 8, 9]);
    const t = el("table", "t", el("caption", "", "Both caches after this step"));
    const head = el("tr");
    HEADS.forEach((h, i) => {
      const th = el("th", number.has(i) ? "n" : "", h);
      th.scope = "col";
      head.append(th);
    });
    t.append(el("thead", "", head), el("tbody", "", ...rows.slice(0, MOST_ROWS).map((r) => el("tr", "", ...r.map((v, i) => el("td", number.has(i) ? "n" : "", typeof v === "number" ? num(v) : v))))));
    this.body.replaceChildren(t, rows.length > MOST_ROWS ? el("p", "say muted", `${num(rows.length - MOST_ROWS)} more rows are in the CSV file.`) : "");
  }
}

function give(name, blob) {
  const href = URL.createObjectURL(blob);
  const a = el("a");
  a.href = href;
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(href), 1000);
}

export function exportMenu(view) {
  const name = (end) => `prefix-cache-step-${view.k}.${end}`;
  const make = (label, act) => {
    const b = button("btn quiet", `${label}, download`, label);
    b.onclick = act;
    return b;
  };
  return [
    make("PNG", () => paintPng(view).toBlob((blob) => give(name("png"), blob))),
    make("CSV", () => give(name("csv"), new Blob([csv(view.sides.flatMap(rowsOf))], { type: "text/csv" }))),
    make("JSON", () => give(name("json"), new Blob([JSON.stringify({ step: view.k, chain: view.sides[0].run, radix: view.sides[1].run })], { type: "application/json" }))),
  ];
}

// Both pictures on one canvas, with the labels that say where they come from.
export function paintPng(view) {
  const c = readColors(view.root);
  const gap = 24;
  const tops = 62;
  const panes = view.panes.map((p) => ({ p, ...p.layout }));
  const widths = panes.map((p) => Math.max(380, p.w + 8));
  const W = widths[0] + widths[1] + 3 * gap;
  const H = Math.max(...panes.map((p) => p.h), 60) + tops + 2 * gap;
  const canvas = document.createElement("canvas");
  const ctx = fit(canvas, W, H);
  ctx.fillStyle = c.surface;
  ctx.fillRect(0, 0, W, H);
  ctx.textBaseline = "top";
  panes.forEach(({ p }, i) => {
    const x0 = gap + i * (widths[0] + gap);
    const { info, sv, read, name } = p.side;
    const { state } = sv;
    const label = p.prov.textContent;
    ctx.fillStyle = c.text;
    ctx.font = `650 18px ${c.font}`;
    ctx.fillText(`${name}, step ${view.k}`, x0, gap);
    ctx.fillStyle = c.muted;
    ctx.font = `12px ${c.font}`;
    ctx.fillText(label, x0, gap + 26, widths[i]);
    ctx.save();
    ctx.translate(x0, gap + tops);
    ctx.lineWidth = 1.5;
    for (const path of p.lines.querySelectorAll("path")) {
      ctx.strokeStyle = path.classList.contains("on") ? c.text : c.line;
      ctx.stroke(new Path2D(path.getAttribute("d")));
    }
    const clip = (words, w) => {
      let s = words;
      while (s.length > 1 && ctx.measureText(s).width > w) s = `${s.slice(0, -2)}…`;
      return s;
    };
    const frame = (x, y, w, h, used, owner) => {
      ctx.fillStyle = used ? c.surface : c.sunken;
      ctx.fillRect(x, y, w, h);
      ctx.setLineDash(used ? [] : [3, 3]);
      ctx.strokeStyle = owner ? c.r[info.color(owner)] : c.line;
      ctx.strokeRect(x, y, w, h);
      ctx.setLineDash([]);
    };
    const line = (words, x, y, w, color = c.text) => {
      ctx.fillStyle = color;
      ctx.fillText(clip(words, w), x, y);
    };
    ctx.font = `12px ${c.font}`;
    for (const cell of p.layout.cells ?? []) {
      frame(cell.x, cell.y, cell.w, cell.h, state.ref[cell.b] > 0, sv.holder[cell.b]);
      if (cell.w < 40) continue;
      line(`${cell.b}  ${sv.holder[cell.b] ?? ""}`, cell.x + 5, cell.y + 4, cell.w - 10);
      line(read(state.entry[cell.b].tokens), cell.x + 5, cell.y + 20, cell.w - 10);
    }
    for (const n of p.layout.nodes ?? []) {
      const node = state.nodes.get(n.id);
      frame(n.x, n.y, n.w, n.h, state.nodeLock(node) > 0, sv.holder[node.blocks[0]]);
      line(n.w < 60 ? `${n.id}` : `node ${n.id}  lock ${state.nodeLock(node)}`, n.x + 5, n.y + 5, n.w - 8);
      if (p.level > 0) continue;
      node.blocks.slice(0, NODE[0].lines).forEach((b, j) => line(`${read(state.entry[b].tokens)}  · ${b}`, n.x + 6, n.y + 29 + 21 * j, n.w - 12));
    }
    ctx.restore();
  });
  return canvas;
}
