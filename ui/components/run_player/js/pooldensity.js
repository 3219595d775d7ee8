// The pool of a large run, thousands of blocks and up to a million: a map one can go nearer to, by
// wheel, pinch, buttons and keys, with an overview of where one is. The last layer, drawn apart,
// shows what is lit, selected or copied.
import { fit } from "./canvas.js";
import { icon } from "./icons.js";
import { Cells, Density, MapInk, Squares } from "./mapdraw.js";
import { MapGestures } from "./mapgestures.js";
import { MapView } from "./mapview.js";
import { describe } from "./poolslots.js";
import { button, clamp, el, num } from "./util.js";

const TALL = 236;
const LETTERS = 17; // pixels of a block's side from which it carries its request's letter
const STEP = 1.6; // of one press of a button or key
const OVERVIEW = [96, 26];

export class PoolDensity {
  constructor(player) {
    this.player = player;
    this.canvas = el("canvas", "density");
    this.over = el("canvas", "over");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-label", "Pool. Arrow keys go from block to block, Enter selects, plus and minus zoom, 0 shows the whole.");
    this.buildTools();
    this.root = el("div", "pool dense", this.canvas, this.over, this.tools);
    this.at0 = 0;
    this.canvas.onkeydown = (e) => this.onKey(e);
    this.gestures = new MapGestures(this);
  }

  buildTools() {
    const make = (name, label, tip, act) => {
      const b = button("btn icon maptool", label, icon(name));
      b.dataset.tip = tip;
      b.onclick = act;
      return b;
    };
    this.nearer = make("plus", "Nearer", "Nearer  +", () => this.zoom(STEP));
    this.further = make("minus", "Further away", "Further away  −", () => this.zoom(1 / STEP));
    this.all = make("whole", "The whole pool", "The whole pool  0", () => this.whole());
    this.overview = el("canvas", "overview");
    this.overview.setAttribute("aria-hidden", "true");
    this.overview.dataset.tip = "The whole pool, and the window that is shown";
    this.where = el("span", "mapwhere");
    this.tools = el("div", "maptools", this.further, this.nearer, this.all, this.overview, this.where);
  }

  load(info) {
    this.info = info;
    this.sv = null;
    this.view = new MapView(info.n);
    this.paint = null;
  }

  dispose() {
    this.gestures.dispose();
  }

  draw(sv) {
    this.sv = sv;
    const { view } = this;
    const c = this.player.colors;
    const dpr = window.devicePixelRatio || 1;
    view.fit(Math.max(100, this.player.width), TALL * c.scale, c.scale);
    if (this.ink?.c !== c) {
      this.ink = new MapInk(c);
      this.paint = null;
    }
    const ctx = fit(this.canvas, view.width, view.height);
    const key = [view.key, view.size, view.x, view.y, dpr].join();
    if (!this.paint || this.paintKey !== key) {
      this.paintKey = key;
      this.paint = this.painter(ctx, dpr);
      this.canvas.classList.toggle("zoomed", view.zoomed);
    }
    this.paint.draw(sv);
    if (this.paint.image) ctx.putImageData(this.paint.image, 0, 0);
    this.drawTools();
    this.mark();
  }

  painter(ctx, dpr) {
    const { view, ink, canvas } = this;
    if (view.size >= LETTERS * ink.c.scale) return new Cells(ctx, view, ink, this.info);
    if (!this.image || this.image.width !== canvas.width || this.image.height !== canvas.height) this.image = ctx.createImageData(canvas.width, canvas.height);
    return view.size * dpr < 1 ? new Density(this.image, view, ink) : new Squares(this.image, view, dpr, ink);
  }

  // The window changed, the step did not.
  again() {
    if (this.sv) this.draw(this.sv);
  }

  drawTools() {
    const { view } = this;
    this.tools.classList.toggle("zoomed", view.zoomed);
    for (const [b, off] of [[this.nearer, view.zoom >= view.most / view.least], [this.further, !view.zoomed], [this.all, !view.zoomed]]) b.setAttribute("aria-disabled", String(off));
    const [c0, c1, r0, r1] = view.window;
    const first = num(r0 * view.columns + c0);
    const last = num(Math.min(view.n, (r1 - 1) * view.columns + c1) - 1);
    this.where.textContent = view.zoomed ? `from block ${first} to ${last} of ${num(view.n)}` : `all ${num(view.n)} blocks${view.size < 1 ? ", several a pixel" : ""}; nearer for their letters`;
    if (!view.zoomed) return;
    const [w, h] = OVERVIEW.map((v) => v * this.ink.c.scale);
    const ctx = fit(this.overview, w, h);
    if (!this.small || this.small.ink !== this.ink || this.small.view !== view || this.small.image.width !== this.overview.width) {
      this.small = new Density(ctx.createImageData(this.overview.width, this.overview.height), view, this.ink);
    }
    this.small.draw(this.sv);
    ctx.putImageData(this.small.image, 0, 0);
    ctx.strokeStyle = this.ink.c.accent;
    ctx.lineWidth = 2;
    const [sx, sy] = [w / (view.columns * view.size), h / (view.rows * view.size)];
    ctx.strokeRect(view.x * sx, view.y * sy, Math.max(3, view.width * sx), Math.max(3, view.height * sy));
  }

  zoom(factor, x, y) {
    const { view } = this;
    if (x === undefined) {
      // About the block that was chosen, where it is in sight.
      const [bx, by] = view.xy(this.at0).map((v) => v + view.size / 2);
      const seen = bx >= 0 && by >= 0 && bx <= view.width && by <= view.height;
      [x, y] = seen ? [bx, by] : [view.width / 2, view.height / 2];
    }
    view.zoomAt(factor, x, y);
    this.again();
  }

  whole() {
    this.view.whole();
    this.again();
  }

  pan(dx, dy) {
    this.view.pan(dx, dy);
    this.again();
  }

  box(ctx, b, color, width) {
    const { size } = this.view;
    const [x, y] = this.view.xy(b);
    if (x < -size || y < -size || x > this.view.width || y > this.view.height) return;
    ctx.strokeStyle = color;
    ctx.lineWidth = width;
    const grow = Math.max(0, (6 - size) / 2);
    ctx.strokeRect(x - grow - 0.5, y - grow - 0.5, size + 2 * grow, size + 2 * grow);
  }

  mark() {
    if (!this.sv || !this.view.width) return;
    const { view } = this;
    const c = this.player.colors;
    const ctx = fit(this.over, view.width, view.height);
    ctx.clearRect(0, 0, view.width, view.height);
    if (this.sv.wrote.size < 600) for (const b of this.sv.wrote.keys()) this.box(ctx, b, c.accent, view.size > 20 ? 2 : 1);
    if (this.lit) for (const b of this.lit.blocks) this.box(ctx, b, c.text, 2);
    if (this.sel !== null && this.sel !== undefined) {
      this.box(ctx, this.sel, c.surface, 4);
      this.box(ctx, this.sel, c.accent, 2);
    }
    const e = this.sv.copy;
    if (!e) return;
    const [x0, y0] = view.xy(e.src).map((v) => v + view.size / 2);
    const [x1, y1] = view.xy(e.dst).map((v) => v + view.size / 2);
    ctx.lineWidth = 2;
    ctx.strokeStyle = ctx.fillStyle = c.accent;
    ctx.beginPath();
    ctx.moveTo(x0, y0);
    ctx.quadraticCurveTo((x0 + x1) / 2, Math.min(y0, y1) - 18, x1, y1);
    ctx.stroke();
    ctx.beginPath();
    ctx.arc(x1, y1, 4, 0, 7);
    ctx.fill();
  }

  light(t) {
    this.lit = t;
    this.mark();
  }

  select(b) {
    this.sel = b;
    if (b !== null) this.at0 = b;
    this.mark();
  }

  choose(b) {
    this.at0 = b;
    this.player.select(b);
  }

  blockAt(e) {
    const r = this.canvas.getBoundingClientRect();
    return this.view.blockAt(e.clientX - r.left, e.clientY - r.top);
  }

  target(node, e) {
    if (node !== this.canvas) return null;
    const b = e.clientX === undefined || e.type === "focusin" ? this.at0 : this.blockAt(e);
    return b === null ? null : { blocks: [b], tip: describe(this.sv, b) };
  }

  onKey(e) {
    if (e.altKey || e.ctrlKey || e.metaKey) return;
    const { columns } = this.view;
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[e.key];
    const act = { Enter: () => this.choose(this.at0), "+": () => this.zoom(STEP), "=": () => this.zoom(STEP), "-": () => this.zoom(1 / STEP), "−": () => this.zoom(1 / STEP), 0: () => this.whole() }[e.key];
    if (act) act();
    else if (by) {
      this.at0 = clamp(this.at0 + by, 0, this.info.n - 1);
      this.view.reveal(this.at0);
      this.again();
      const t = this.target(this.canvas, {});
      this.player.light(t, this.canvas);
      this.player.say(t.tip);
    } else return;
    if (act && e.key !== "Enter") this.player.say(this.where.textContent);
    e.preventDefault();
    e.stopPropagation();
  }

  anchor() {
    return null;
  }
}
