// How a large pool is painted: one square of a few pixels a block, written straight into an image;
// where a pixel stands for several blocks, by how many of them are held; and zoomed in far enough,
// cells with the letter of their request.
import { HATCH, hatch, inked, mix, pixel } from "./canvas.js";
import { num } from "./util.js";

const IDLE = -2;
const SHADES = 4;

// What a block shows: twice its holder's colour (and 1 if filled in part), idle, or -1.
const shown = (sv, b) => (sv.tint[b] >= 0 ? sv.tint[b] : sv.state.entry[b] !== null ? IDLE : -1);

export class MapInk {
  constructor(c) {
    this.c = c;
    this.full = c.r.map(pixel);
    this.partly = c.r.map((r) => pixel(mix(r, c.surface, 0.55)));
    this.idle = pixel(c.line);
    this.bare = pixel(c.sunken);
    this.gap = pixel(c.surface);
    this.inks = c.o.map(pixel);
    this.shades = c.r.map((r) => Array.from({ length: SHADES + 1 }, (_, i) => pixel(mix(r, c.sunken, 0.25 + (0.75 * i) / SHADES))));
  }
}

// Squares of at least one pixel. Only those that have changed since the last time are written.
export class Squares {
  constructor(image, view, dpr, ink) {
    Object.assign(this, { image, view, dpr, ink });
    this.px = new Uint32Array(image.data.buffer);
    this.px.fill(ink.gap);
    this.codes = new Int16Array(view.n).fill(-9);
  }

  draw(sv) {
    const { codes, view } = this;
    const [c0, c1, r0, r1] = view.window;
    for (let r = r0; r < r1; r++) {
      const end = Math.min(view.n, r * view.columns + c1);
      for (let b = r * view.columns + c0; b < end; b++) {
        const code = shown(sv, b);
        if (codes[b] === code) continue;
        codes[b] = code;
        this.square(b - r * view.columns, r, code);
      }
    }
  }

  square(column, row, code) {
    const { px, ink, view, dpr } = this;
    const { width: W, height: H } = this.image;
    const s = view.size * dpr;
    const [ox, oy] = [view.x * dpr, view.y * dpr];
    const inner = s >= 3 ? 1 : 0; // a line of surface between squares, where there is room for one
    const left = Math.round(column * s - ox);
    const top = Math.round(row * s - oy);
    const x0 = Math.max(0, left);
    const x1 = Math.min(W, Math.round((column + 1) * s - ox) - inner);
    const y1 = Math.min(H, Math.round((row + 1) * s - oy) - inner);
    const i = code >> 1;
    const v = code >= 0 ? (code & 1 ? ink.partly : ink.full)[i] : code === IDLE ? ink.idle : ink.bare;
    const kind = code >= 0 && view.size >= 7 ? HATCH[i] : 0;
    const foot = top + Math.round(s * 0.55);
    for (let y = Math.max(0, top); y < y1; y++) {
      const at = y * W;
      px.fill(v, at + x0, at + x1);
      // Cached and idle: only every second pixel, so that it is not told by colour alone.
      if (code === IDLE) for (let x = x0 + ((x0 + y + 1) & 1); x < x1; x += 2) px[at + x] = ink.bare;
      if (kind && y >= foot) for (let x = x0; x < x1; x++) if (inked(kind, x - left, y - foot)) px[at + x] = ink.inks[i];
    }
  }
}

// More blocks than pixels: a pixel is the darker the more of its blocks are held.
export class Density {
  constructor(image, view, ink) {
    Object.assign(this, { image, view, ink });
    this.px = new Uint32Array(image.data.buffer);
    this.held = new Uint32Array(this.px.length);
    this.all = new Uint32Array(this.px.length);
    this.top = new Int16Array(this.px.length);
  }

  draw(sv) {
    const { view, ink, px, held, all, top } = this;
    const { width: W, height: H } = this.image;
    const sx = W / view.columns;
    const sy = H / view.rows;
    held.fill(0);
    all.fill(0);
    top.fill(-1);
    for (let r = 0, b = 0; r < view.rows; r++) {
      const at = Math.floor(r * sy) * W;
      for (let c = 0; c < view.columns && b < view.n; c++, b++) {
        const p = at + Math.floor(c * sx);
        const code = shown(sv, b);
        all[p]++;
        if (code >= 0) {
          held[p]++;
          top[p] = code >> 1;
        } else if (code === IDLE && top[p] < 0) top[p] = IDLE;
      }
    }
    for (let p = 0; p < px.length; p++) {
      if (!all[p]) px[p] = ink.gap;
      else if (top[p] >= 0) px[p] = ink.shades[top[p]][Math.ceil((SHADES * held[p]) / all[p])];
      else px[p] = top[p] === IDLE && (p + Math.floor(p / W)) & 1 ? ink.idle : ink.bare;
    }
  }
}

// Large enough for letters.
export class Cells {
  constructor(ctx, view, ink, info) {
    Object.assign(this, { ctx, view, ink, info });
    this.seen = new Map();
    ctx.fillStyle = ink.c.surface;
    ctx.fillRect(0, 0, view.width, view.height);
  }

  draw(sv) {
    const { view } = this;
    const [c0, c1, r0, r1] = view.window;
    for (let r = r0; r < r1; r++) {
      const end = Math.min(view.n, r * view.columns + c1);
      for (let b = r * view.columns + c0; b < end; b++) {
        const code = shown(sv, b);
        const refs = sv.state.ref[b];
        const sig = `${code}|${refs}|${sv.fill[b]}|${sv.holder[b]}`;
        if (this.seen.get(b) === sig) continue;
        this.seen.set(b, sig);
        this.cell(...view.xy(b), b, code, refs, sv);
      }
    }
  }

  cell(x, y, b, code, refs, sv) {
    const { ctx, ink } = this;
    const { c } = ink;
    const s = this.view.size - 1.5;
    ctx.fillStyle = c.surface;
    ctx.fillRect(x, y, s + 1.5, s + 1.5);
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    if (code < 0) {
      ctx.fillStyle = c.sunken;
      ctx.fillRect(x, y, s, s);
      ctx.strokeStyle = code === IDLE ? c.line : c.border;
      ctx.lineWidth = 1;
      ctx.setLineDash(code === IDLE ? [3, 2] : []);
      ctx.strokeRect(x + 0.5, y + 0.5, s - 1, s - 1);
      ctx.setLineDash([]);
    } else {
      const i = code >> 1;
      const share = sv.fill[b] / this.info.bs;
      ctx.fillStyle = mix(c.r[i], c.surface, 0.28);
      ctx.fillRect(x, y, s, s);
      ctx.fillStyle = c.r[i];
      ctx.fillRect(x, y + s * (1 - share), s, s * share);
      hatch(ctx, i, x, y + s - s / 6, s, s / 6, c.o[i]);
      const letter = this.info.letter(sv.holder[b]);
      const size = Math.min(s * 0.55, (1.5 * s) / (letter.length + 0.4));
      ctx.font = `700 ${size}px ${c.mono}`;
      if (share < 0.75) {
        const w = size * 0.62 * letter.length + 4;
        ctx.fillStyle = c.surface;
        ctx.fillRect(x + (s - w) / 2, y + s * 0.42 - size * 0.55, w, size * 1.1);
      }
      ctx.fillStyle = share < 0.75 ? c.text : c.o[i];
      ctx.fillText(letter, x + s / 2, y + s * 0.44);
    }
    if (refs > 1 && s > 20) {
      ctx.font = `700 ${s * 0.3}px ${c.mono}`;
      const words = num(refs);
      ctx.fillStyle = c.surface;
      ctx.fillRect(x + s - (words.length * 0.2 + 0.1) * s, y, (words.length * 0.2 + 0.1) * s, s * 0.32);
      ctx.fillStyle = c.text;
      ctx.fillText(words, x + s - (words.length * 0.1 + 0.05) * s, y + s * 0.17);
    }
    if (s > 34) {
      ctx.font = `500 ${s * 0.22}px ${c.mono}`;
      ctx.fillStyle = code >= 0 ? c.o[code >> 1] : c.muted;
      if (code < 0 || sv.fill[b] >= this.info.bs) ctx.fillText(num(b), x + s / 2, y + s * (code < 0 ? 0.5 : 0.78));
    }
  }
}
