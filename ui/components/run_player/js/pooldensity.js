// The pool of a large run, thousands of blocks and up to a million: one square of a few pixels a
// block, written straight into the image. The last layer, drawn apart, shows what is lit, selected
// or copied.
import { HATCH, fit, inked, mix, pixel } from "./canvas.js";
import { describe } from "./poolslots.js";
import { clamp, el } from "./util.js";

export class PoolDensity {
  constructor(player) {
    this.player = player;
    this.canvas = el("canvas", "density");
    this.over = el("canvas", "over");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-label", "Pool. Arrow keys go from block to block, Enter selects.");
    this.root = el("div", "pool dense", this.canvas, this.over);
    this.at0 = 0;
    this.canvas.onkeydown = (e) => this.onKey(e);
    this.canvas.onclick = (e) => {
      const b = this.blockAt(e);
      if (b !== null) player.select((this.at0 = b));
    };
  }

  load(info) {
    this.info = info;
    this.sv = null;
  }

  layout() {
    const width = Math.max(100, this.player.size.left);
    const tall = 240 * this.player.colors.scale;
    const { n } = this.info;
    let size = 2;
    while (size < 16 && Math.ceil(n / Math.floor(width / (size + 1))) * (size + 1) <= tall) size++;
    this.size = size;
    this.columns = Math.max(1, Math.floor(width / size));
    this.rows = Math.ceil(n / this.columns);
    this.width = this.columns * size;
    this.height = this.rows * size;
  }

  draw(sv) {
    this.sv = sv;
    const { info, state } = sv;
    const c = this.player.colors;
    const dpr = window.devicePixelRatio || 1;
    this.layout();
    const ctx = fit(this.canvas, this.width, this.height);
    const W = this.canvas.width;
    const H = this.canvas.height;
    if (!this.image || this.image.width !== W || this.image.height !== H) {
      this.image = ctx.createImageData(W, H);
      this.pixels = new Uint32Array(this.image.data.buffer);
      this.codes = null;
    }
    if (this.theme !== c) {
      this.theme = c;
      this.full = c.r.map(pixel);
      this.partly = c.r.map((r) => pixel(mix(r, c.surface, 0.55)));
      this.idle = pixel(c.line);
      this.bare = pixel(c.sunken);
      this.gap = pixel(c.surface);
      this.inks = c.o.map(pixel);
      this.codes = null;
    }
    const px = this.pixels;
    const layout = `${info.n}|${this.size}|${dpr}|${this.columns}`;
    if (!this.codes || this.layoutKey !== layout) {
      this.layoutKey = layout;
      this.codes = new Int16Array(info.n).fill(-9);
      px.fill(this.gap);
    }
    const { codes } = this;
    const s = this.size * dpr;
    const inner = s >= 3 ? 1 : 0; // a line of surface between squares, where there is room for one
    const colorOf = new Map();
    const foot = Math.round(s * 0.55);
    for (let b = 0; b < info.n; b++) {
      // Only the squares that have changed are written: code is the colour, partly filled, idle or bare.
      const owner = sv.holder[b];
      let code = -1;
      if (owner !== null) {
        let i = colorOf.get(owner);
        if (i === undefined) colorOf.set(owner, (i = info.color(owner)));
        code = 2 * i + (sv.fill[b] < info.bs ? 1 : 0);
      } else if (state.entry[b] !== null) code = -2;
      if (codes[b] === code) continue;
      codes[b] = code;
      const col = b % this.columns;
      const row0 = Math.floor(b / this.columns);
      const x0 = Math.round(col * s);
      const y0 = Math.round(row0 * s);
      const x1 = Math.round((col + 1) * s) - inner;
      const y1 = Math.round((row0 + 1) * s) - inner;
      const i = code >> 1;
      const v = code >= 0 ? (code & 1 ? this.partly : this.full)[i] : code === -2 ? this.idle : this.bare;
      const kind = code >= 0 && this.size >= 7 ? HATCH[i] : 0;
      for (let y = y0; y < y1; y++) {
        const row = y * W;
        px.fill(v, row + x0, row + x1);
        // Cached and idle: only every second pixel, so that it is not told by colour alone.
        if (code === -2) for (let x = x0 + ((x0 + y + 1) & 1); x < x1; x += 2) px[row + x] = this.bare;
        if (kind && y - y0 >= foot) for (let x = x0; x < x1; x++) if (inked(kind, x - x0, y - y0 - foot)) px[row + x] = this.inks[i];
      }
    }
    ctx.putImageData(this.image, 0, 0);
    this.mark();
  }

  xy(b) {
    return [(b % this.columns) * this.size, Math.floor(b / this.columns) * this.size];
  }

  box(ctx, b, color, width) {
    const [x, y] = this.xy(b);
    ctx.strokeStyle = color;
    ctx.lineWidth = width;
    const grow = Math.max(0, (6 - this.size) / 2);
    ctx.strokeRect(x - grow - 0.5, y - grow - 0.5, this.size + 2 * grow, this.size + 2 * grow);
  }

  mark() {
    if (!this.sv) return;
    const c = this.player.colors;
    const ctx = fit(this.over, this.width, this.height);
    ctx.clearRect(0, 0, this.width, this.height);
    if (this.sv.wrote.size < 600) for (const b of this.sv.wrote.keys()) this.box(ctx, b, c.accent, 1);
    if (this.lit) for (const b of this.lit.blocks) this.box(ctx, b, c.text, 2);
    if (this.sel !== null && this.sel !== undefined) {
      this.box(ctx, this.sel, c.surface, 4);
      this.box(ctx, this.sel, c.accent, 2);
    }
    const e = this.sv.copy;
    if (!e) return;
    const [x0, y0] = this.xy(e.src).map((v) => v + this.size / 2);
    const [x1, y1] = this.xy(e.dst).map((v) => v + this.size / 2);
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

  blockAt(e) {
    const r = this.canvas.getBoundingClientRect();
    const x = Math.floor((e.clientX - r.left) / this.size);
    const y = Math.floor((e.clientY - r.top) / this.size);
    const b = y * this.columns + x;
    return x >= 0 && x < this.columns && b >= 0 && b < this.info.n ? b : null;
  }

  target(node, e) {
    if (node !== this.canvas) return null;
    const b = e.clientX === undefined || e.type === "focusin" ? this.at0 : this.blockAt(e);
    return b === null ? null : { blocks: [b], tip: describe(this.sv, b) };
  }

  onKey(e) {
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.columns, ArrowDown: this.columns }[e.key];
    if (e.key === "Enter") this.player.select(this.at0);
    else if (by && !e.altKey && !e.ctrlKey && !e.metaKey) {
      this.at0 = clamp(this.at0 + by, 0, this.info.n - 1);
      const t = this.target(this.canvas, {});
      this.player.light(t, this.canvas);
      this.player.say(t.tip);
    } else return;
    e.preventDefault();
    e.stopPropagation();
  }

  anchor() {
    return null;
  }
}
