// Tokens of every step, stacked by sequence, with marks for what happened; a range input lies over
// it, so it can be dragged and used from the keyboard. Drawn once a run; only the cursor moves.
import { fit, hatch } from "./canvas.js";
import { KIND, headline, marksOf, topEvent } from "./events.js";
import { icon } from "./icons.js";
import { clamp, el, num, plural } from "./util.js";

export class Timeline {
  constructor(player) {
    this.player = player;
    this.canvas = el("canvas", "cols");
    this.canvas.setAttribute("aria-hidden", "true");
    this.later = el("div", "later");
    this.cur = el("div", "cur");
    this.marks = el("div", "marks");
    this.marks.setAttribute("aria-hidden", "true");
    this.range = el("input", "rng");
    this.range.type = "range";
    this.range.min = "0";
    this.range.step = "1";
    this.range.setAttribute("aria-label", "Step");
    this.label = el("span", "tl");
    this.root = el("div", "track", this.canvas, this.later, this.marks, this.cur, this.label, this.range);
    this.range.oninput = () => {
      player.pause();
      player.showOf(this);
      player.go(Number(this.range.value));
    };
    this.range.onchange = () => player.commit();
    this.range.onpointermove = (e) => this.peek(e);
    this.range.onpointerleave = () => player.tip(null);
  }

  // `span` is how many steps the width stands for: two runs side by side share one scale, in steps
  // and in tokens.
  load(info, span = info.run.steps.length, most = info.maxStepTokens) {
    this.info = info;
    this.n = info.run.steps.length;
    this.span = Math.max(1, span);
    this.most = most;
    this.range.max = String(Math.max(0, this.n - 1));
    this.range.style.width = `${(100 * this.n) / this.span}%`;
    this.drawn = null;
  }

  name(words) {
    this.label.replaceChildren(...(words ? [el("b", "", words)] : ["tokens in each step, square-root scale"]));
    this.range.setAttribute("aria-label", words ? `Step of ${words}` : "Step");
  }

  get width() {
    return this.player.size.track;
  }

  // The left edge and width of step k, in CSS pixels.
  column(k) {
    const w = this.width / this.span;
    return [k * w, w];
  }

  // Called on each step; does the work only when size, theme or run have changed.
  draw(k) {
    this.cur.hidden = this.later.hidden = k < 0;
    if (k < 0) return;
    const c = this.player.colors;
    const key = [this.width, this.player.size.trackHeight, c.surface, c.scale, this.info.name, this.n, this.player.kind].join();
    if (this.drawn !== key && this.width) {
      this.drawn = key;
      this.paint(c);
    }
    const [x, w] = this.column(k);
    const wide = Math.max(w, 6);
    this.cur.style.left = `${clamp(x + w / 2 - wide / 2 - 1, 0, this.width - wide)}px`;
    this.cur.style.width = `${wide + 2}px`;
    this.later.style.left = `${Math.min(this.width, x + w)}px`;
    if (this.range.value !== String(k)) this.range.value = String(k);
    this.range.setAttribute("aria-valuetext", `Step ${k} of ${this.n - 1}, ${plural(this.info.tokens[k], "token")}`);
  }

  paint(c) {
    const foot = 18 * c.scale;
    const H = this.player.size.trackHeight - foot;
    const W = this.width;
    const ctx = fit(this.canvas, W, H);
    ctx.clearRect(0, 0, W, H);
    const gap = W / this.span > 8 ? 2 : W / this.span > 3 ? 1 : 0;
    const many = Math.max(1, Math.ceil(this.span / (W * 2))); // more steps than pixels: take every m-th
    for (let k = 0; k < this.n; k += many) {
      const [x, w] = this.column(k);
      const step = this.info.run.steps[k];
      const total = this.info.tokens[k];
      if (!total) continue;
      const full = Math.sqrt(total / this.most) * (H - 4);
      let y = H;
      const parts = Object.entries(step.scheduled);
      const line = full / parts.length > 4 ? 1 : 0;
      for (const [id, s] of parts) {
        const h = (full * s.num_scheduled_tokens) / total;
        const i = this.info.color(id);
        ctx.fillStyle = c.r[i];
        ctx.fillRect(x, y - h, Math.max(1, w * many - gap), Math.max(0.5, h - line));
        if (h > 9 && w > 10) hatch(ctx, i, x, y - h, w - gap, Math.min(4 * c.scale, h / 2), c.o[i]);
        y -= h;
      }
    }
    ctx.fillStyle = c.line;
    ctx.fillRect(0, H - 1, W, 1);
    this.paintKind(ctx, c);
    this.paintMarks(c);
  }

  // The steps with the chosen kind of event, each with a peg along the top.
  paintKind(ctx, c) {
    const { marked } = this.player;
    if (!marked) return;
    ctx.fillStyle = c.accent;
    this.info.run.steps.forEach((step, k) => {
      if (!step.events.some(marked[2])) return;
      const [x, w] = this.column(k);
      ctx.fillRect(x + (w > 3 ? w * 0.15 : 0), 0, Math.max(1.5, w * 0.7), 4 * c.scale);
    });
  }

  // Marks are placed by rank, each only where there is room; the first of a step counts most.
  paintMarks(c) {
    const size = 14 * c.scale;
    const wanted = [];
    const { marked } = this.player;
    this.info.run.steps.forEach((step, k) => {
      const types = marked ? [...new Set(step.events.filter(marked[2]).map((e) => e.type))] : marksOf(step).slice(0, 3);
      types.forEach((type) => wanted.push({ k, type }));
    });
    const rank = Object.keys(KIND);
    wanted.sort((a, b) => rank.indexOf(a.type) - rank.indexOf(b.type));
    const slots = new Set();
    const placed = new Map();
    for (const m of wanted) {
      const [x, w] = this.column(m.k);
      const mine = placed.get(m.k) ?? [];
      if (mine.length && (mine.length + 1) * size > w) continue;
      const cell = Math.floor((x + w / 2) / size);
      if (!mine.length && w < size && (slots.has(cell) || slots.has(cell - 1) || slots.has(cell + 1))) continue;
      slots.add(cell);
      mine.push(m.type);
      placed.set(m.k, mine);
    }
    const out = [];
    for (const [k, types] of placed) {
      const [x, w] = this.column(k);
      const group = el("span", "mk");
      group.style.left = `${x + w / 2}px`;
      for (const t of types) {
        const i = icon(KIND[t][1]);
        i.classList.add(`m-${t}`);
        group.append(i);
      }
      out.push(group);
    }
    this.marks.replaceChildren(...out);
  }

  peek(e) {
    const r = this.root.getBoundingClientRect();
    const k = clamp(Math.floor(((e.clientX - r.left) / r.width) * this.span), 0, this.n - 1);
    const step = this.info.run.steps[k];
    if (!step) return;
    const top = topEvent(step.events);
    const head = headline(step, [], this.info);
    this.player.tip(`Step ${num(k)}, ${plural(this.info.tokens[k], "token")}. ${top ? `${head.title}: ${head.text}` : head.text}`, { left: e.clientX, top: r.top, width: 0, bottom: r.bottom });
  }
}
