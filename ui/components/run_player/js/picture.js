// The picture to take away, drawn from the state: name and label of the run, the step and its
// sentence, the sequences, and the pool. Two runs stand side by side, as on the page.
import { sharesOf, sums } from "./budget.js";
import { mix } from "./canvas.js";
import { lanesOf } from "./lanes.js";
import { Cells, Density, MapInk, Squares } from "./mapdraw.js";
import { MapView } from "./mapview.js";
import { provenance } from "./provenance.js";
import { num, plural } from "./util.js";

export const WIDTH = 1200; // of a run alone, in units of two pixels
const HALF = 820; // of one of two
const SHARP = 2;
const EDGE = 28;
const LINE = 24;
const MOST_LINES = 24;
const BLOCK = 40; // a block's side at most
const POOL_TALL = 420; // the pool's height, about

export function picture(player) {
  const parts = player.shown.map((pane) => new Part(pane, player.colors, player.both ? HALF : WIDTH));
  const lines = Math.max(...parts.map((p) => p.lines));
  for (const p of parts) p.lay(lines);
  const canvas = document.createElement("canvas");
  canvas.width = SHARP * parts.reduce((a, p) => a + p.width, 0);
  canvas.height = SHARP * Math.max(...parts.map((p) => p.height));
  const ctx = canvas.getContext("2d");
  ctx.scale(SHARP, SHARP);
  ctx.fillStyle = player.colors.surface;
  ctx.fillRect(0, 0, canvas.width, canvas.height);
  for (const p of parts) {
    ctx.save();
    p.draw(ctx);
    ctx.restore();
    ctx.translate(p.width, 0);
  }
  return canvas;
}

class Part {
  constructor(pane, colors, width) {
    Object.assign(this, { pane, c: colors, width });
    this.room = width - 2 * EDGE;
    this.lanes = lanesOf(pane.sv);
    this.rows = Math.min(MOST_LINES, this.lanes.length);
    this.view = new MapView(pane.info.n, BLOCK);
    this.view.fit(this.room, POOL_TALL);
    this.lines = Math.max(1, this.rows + (this.lanes.length > this.rows));
    this.lanesTop = 196;
  }

  // Both pools begin at one height.
  lay(lines) {
    this.poolTop = this.lanesTop + lines * LINE + 44;
    this.height = Math.ceil(this.poolTop + this.view.height + EDGE);
  }

  draw(ctx) {
    const { pane, c } = this;
    const { info, sv } = pane;
    this.ctx = ctx;
    ctx.textBaseline = "alphabetic";
    this.words(info.name, EDGE, 48, 22, 650, c.text);
    this.label(EDGE, 64);
    const { title, text } = pane.headline;
    const at = this.words(`Step ${num(pane.k)} of ${num(Math.max(0, pane.last))}. ${title}.`, EDGE, 122, 17, 650, c.text);
    this.words(text, at + 10, 122, 17, 400, c.text);
    this.budget(sv, 140);
    this.heading("Sequences, in logical order", `${num(info.running[pane.k] ?? 0)} running, ${num(sv.state.waiting.length)} waiting`, this.lanesTop - 10);
    this.lanes.slice(0, this.rows).forEach((lane, i) => this.lane(lane, this.lanesTop + i * LINE));
    if (this.lanes.length > this.rows) this.words(`and ${num(this.lanes.length - this.rows)} more`, EDGE, this.lanesTop + this.rows * LINE + 17, 14, 400, c.muted);
    if (!this.lanes.length) this.words("Nothing runs or waits after this step.", EDGE, this.lanesTop + 17, 14, 400, c.muted);
    const u = sv.state.usage;
    this.heading("Pool, in physical order", `${num(u.in_use)} in use, ${num(u.cached)} cached, ${num(u.free)} free`, this.poolTop - 10);
    this.pool(sv);
  }

  // Cut where it would leave its part; gives where it ends.
  words(text, x, y, size, weight, color, mono = false) {
    const { ctx, c } = this;
    ctx.font = `${weight} ${size}px ${mono ? c.mono : c.font}`;
    ctx.fillStyle = color;
    const room = this.width - EDGE - x;
    let shown = text;
    if (ctx.measureText(shown).width > room) {
      let n = text.length;
      while (n > 1 && ctx.measureText(`${text.slice(0, n)}…`).width > room) n = Math.min(n - 1, Math.floor(n * 0.97));
      shown = `${text.slice(0, n)}…`;
    }
    ctx.fillText(shown, x, y);
    return x + ctx.measureText(shown).width;
  }

  heading(left, right, y) {
    const { ctx, c } = this;
    this.words(left, EDGE, y, 15, 650, c.text);
    ctx.font = `400 15px ${c.font}`;
    this.words(right, this.width - EDGE - ctx.measureText(right).width - 1, y, 15, 400, c.muted);
  }

  // Where the picture comes from: word and border as on the page.
  label(x, y) {
    const { ctx, c, pane } = this;
    const p = provenance(pane.info.header);
    const filled = p.cls === "live" || p.cls === "recorded";
    ctx.font = `700 13px ${c.font}`;
    const w = ctx.measureText(p.word).width + 18;
    ctx.strokeStyle = c.line;
    ctx.lineWidth = 1;
    ctx.setLineDash(p.cls === "simulated" ? [5, 3] : p.cls === "modelled" ? [2, 3] : []);
    ctx.fillStyle = filled ? c.text : c.sunken;
    ctx.fillRect(x, y, w, 26);
    ctx.strokeRect(x + 0.5, y + 0.5, w - 1, 25);
    ctx.setLineDash([]);
    this.words(p.word, x + 9, y + 18, 13, 700, filled ? c.surface : c.text);
    this.words(p.about.filter(Boolean).join(", "), x + w + 10, y + 18, 14, 400, c.muted);
  }

  budget(sv, y) {
    const { ctx, c, pane } = this;
    const most = pane.info.engine.max_num_batched_tokens;
    const shares = sharesOf(sv);
    const { prefill, decode } = sums(shares, most);
    const room = this.room - 330;
    ctx.strokeStyle = c.line;
    ctx.strokeRect(EDGE + 0.5, y + 0.5, room, 15);
    let x = EDGE + 1;
    for (const s of [...shares.filter((q) => !q.decode), ...shares.filter((q) => q.decode)]) {
      const w = ((room - 2) * s.n) / most;
      const tall = s.decode ? 7 : 13;
      ctx.fillStyle = c.r[pane.info.color(s.id)];
      ctx.fillRect(x, y + 14 - tall, Math.max(0.5, w - 0.5), tall);
      x += w;
    }
    this.words(`${num(prefill + decode)} of ${num(most)} budget tokens: ${num(prefill)} prefill, ${num(decode)} decode`, EDGE + room + 12, y + 13, 13, 400, c.muted);
  }

  lane([id, kind], y) {
    const { ctx, c, pane } = this;
    const { info, sv } = pane;
    const s = sv.state.seqs.get(id);
    const i = info.color(id);
    const name = id.length > 9 ? `${info.letter(id)}${id.includes("#") ? id.slice(id.lastIndexOf("#")) : ""}` : id;
    ctx.font = `700 13px ${c.mono}`;
    const w = Math.max(22, ctx.measureText(name).width + 8);
    ctx.fillStyle = c.r[i];
    ctx.fillRect(EDGE, y + 2, w, 18);
    this.words(name, EDGE + (w - ctx.measureText(name).width) / 2, y + 15, 13, 700, c.o[i], true);
    const table = sv.state.tables.get(id) ?? [];
    const x0 = EDGE + 96;
    const pitch = Math.min(46, (this.room - 330) / Math.max(1, info.maxBlocks));
    table.forEach((b, l) => {
      const x = x0 + l * pitch;
      const bar = pitch - (pitch > 12 ? 2 : pitch > 3 ? 0.5 : 0);
      if (b < 0) return;
      const filled = Math.max(0, Math.min(1, (s.computed - l * info.bs) / info.bs));
      ctx.fillStyle = mix(c.r[i], c.surface, 0.28);
      ctx.fillRect(x, y + 2, bar, 18);
      ctx.fillStyle = c.r[i];
      ctx.fillRect(x, y + 2, bar * filled, 3);
      if (pitch >= 30) this.words(num(b), x + 5, y + 17, 12, 600, c.text, true);
    });
    const state = { run: "", held: ", ended", ended: ", ended", wait: s.preempted ? ", preempted" : ", waits", refused: ", refused" }[kind];
    this.words(`${plural(table.length, "block")}, ${plural(s.computed, "token")}${state}`, x0 + table.length * pitch + 8, y + 16, 13, 400, kind === "wait" ? c.text : c.muted);
  }

  pool(sv) {
    const { ctx, view, c, pane } = this;
    const ink = new MapInk(c);
    if (view.size >= 17) {
      ctx.save();
      ctx.translate(EDGE, this.poolTop);
      new Cells(ctx, view, ink, pane.info).draw(sv);
      ctx.restore();
      return;
    }
    const small = document.createElement("canvas");
    small.width = Math.max(1, Math.round(view.width * SHARP));
    small.height = Math.max(1, Math.round(view.height * SHARP));
    const inner = small.getContext("2d");
    const image = inner.createImageData(small.width, small.height);
    const painter = view.size * SHARP < 1 ? new Density(image, view, ink) : new Squares(image, view, SHARP, ink);
    painter.draw(sv);
    inner.putImageData(image, 0, 0);
    ctx.drawImage(small, EDGE, this.poolTop, view.width, view.height);
  }
}
