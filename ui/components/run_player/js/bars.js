// Sequences of a large run: a row each, one bar an entry of the block table, drawn on one canvas.
// Only the rows in sight are drawn. With the focus on it, up and down choose the sequence, left and
// right the entry.
import { badge } from "./badge.js";
import { fit, hatch, mix } from "./canvas.js";
import { icon } from "./icons.js";
import { lanesOf } from "./lanes.js";
import { refusedText, waitingText } from "./waiting.js";
import { clamp, el, num, plural } from "./util.js";

const IN_SIGHT = 14;
const IN_SIGHT_PRESENT = 13; // the type is larger, the screen is not
const ROW = 19;

// How many of a table's entries, always the first ones, the sliding window has passed.
const numPassed = (table) => {
  let n = 0;
  while (table[n] < 0) n++;
  return n;
};

export class Bars {
  constructor(player) {
    this.player = player;
    this.canvas = el("canvas", "barscanvas");
    this.over = el("canvas", "over");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-label", "Sequences and their block tables. Up and down choose a sequence, left and right a table entry, Enter selects the block.");
    this.ids = el("div", "barids");
    this.notes = el("div", "barnotes");
    this.layer = el("div", "barlayer", this.ids, el("div", "barbox", this.canvas, this.over, this.notes));
    this.spacer = el("div", "barspace", this.layer);
    this.root = el("div", "lanes bars", this.spacer);
    this.cursor = [0, 0];
    this.rows = [];
    this.top = 0;
    this.canvas.onkeydown = (e) => this.onKey(e);
    this.canvas.onclick = (e) => {
      const t = this.at(e);
      if (t?.blocks.length) player.select(t.blocks[0]);
    };
    this.root.onscroll = () => {
      this.top = this.root.scrollTop;
      if (this.sv) this.paint();
    };
  }

  load(info) {
    this.info = info;
    this.sight = Math.min(info.maxLanes, this.player.present ? IN_SIGHT_PRESENT : IN_SIGHT);
    this.root.style.setProperty("--rows", this.sight);
    const lines = () => Array.from({ length: this.sight + 1 }, () => ({ id: el("div", "barid"), note: el("div", "barnote") }));
    this.lines = lines();
    this.ids.replaceChildren(...this.lines.map((x) => x.id));
    this.notes.replaceChildren(...this.lines.map((x) => x.note));
  }

  draw(sv) {
    this.sv = sv;
    if (this.present !== this.player.present) {
      this.present = this.player.present;
      this.load(this.info);
    }
    this.rows = lanesOf(sv);
    const tall = `${this.rows.length * ROW * this.player.colors.scale}px`;
    if (this.spacer.style.minHeight !== tall) this.spacer.style.minHeight = tall;
    this.paint();
  }

  paint() {
    const { sv, info } = this;
    const c = this.player.colors;
    const h = (this.h = ROW * c.scale);
    const width = Math.max(40, this.player.width - 62 * c.scale);
    const first = (this.first = clamp(Math.floor(this.top / h), 0, Math.max(0, this.rows.length - 1)));
    this.shift = this.rows.length > this.sight ? this.top - first * h : 0;
    this.layer.style.transform = this.shift ? `translateY(${-this.shift}px)` : "";
    const ctx = fit(this.canvas, width, this.lines.length * h);
    ctx.clearRect(0, 0, width, this.lines.length * h);
    this.pitch = Math.max(1, Math.min(11 * c.scale, (width - 190 * c.scale) / info.maxBlocks));
    this.gap = this.pitch > 4 ? 1.5 : 0;
    let longest = 0;
    this.lines.forEach((line, i) => {
      const row = this.rows[first + i];
      const id = row?.[0];
      if (line.seq !== id) {
        line.seq = id;
        line.id.replaceChildren(...(id === undefined ? [] : [this.badge(id)]));
      }
      const table = row && sv.state.tables.get(id);
      this.note(line, row, table, c);
      if (table) this.bar(ctx, id, table, i * h, c);
      longest = Math.max(longest, table?.length ?? 0);
    });
    // The lines between entries lie one under the other, so one stroke cuts all rows.
    if (this.gap) for (let l = 1; l < longest; l++) ctx.clearRect(l * this.pitch - this.gap, 0, this.gap, this.lines.length * h);
    this.mark(this.lit);
  }

  // The pool's cells have room for a letter only, so with long ids the letter stands here too.
  badge(id) {
    const { info } = this;
    if (info.shortIds) return badge(info, id);
    return badge(info, id, info.letter(id) + (id.includes("#") ? id.slice(id.lastIndexOf("#")) : ""));
  }

  note(line, row, table, c) {
    const { sv, info } = this;
    let words = "";
    let kind = "";
    if (row) {
      const [id] = row;
      const s = sv.state.seqs.get(id);
      kind = row[1];
      if (table) words = `${plural(table.length - numPassed(table), "block")}, ${plural(s.computed, "token")}${kind === "held" ? ", ended" : ""}`;
      else if (kind === "ended") words = "ended, blocks given back";
      else words = kind === "refused" ? refusedText(s.reason, info) : waitingText(s, sv);
    }
    if (row && !info.shortIds) words = `${info.short(row[0])}: ${words}`;
    const x = table ? Math.round(table.length * this.pitch + 6 * c.scale) : 0;
    const key = `${kind}|${x}|${words}`;
    if (line.key === key) return;
    line.key = key;
    line.note.className = `barnote ${kind}`;
    line.note.style.paddingLeft = `${x}px`;
    line.note.replaceChildren(...(kind === "wait" || kind === "refused" ? [icon(kind === "refused" ? "stop" : "wait")] : []), el("span", "", words));
  }

  bar(ctx, id, table, y, c) {
    const { sv, info, h, pitch, gap } = this;
    const bar = pitch - gap;
    const i = info.color(id);
    const top = y + h * 0.18;
    const tall = h * 0.64;
    const { computed } = sv.state.seqs.get(id);
    const pale = mix(c.r[i], c.surface, 0.28);
    const start = numPassed(table) * pitch;
    ctx.fillStyle = c.line;
    ctx.fillRect(0, y + h / 2, Math.max(0, start - gap), c.scale); // the lines between entries make dashes of it
    if (numPassed(table) === table.length) return;
    ctx.fillStyle = c.r[i];
    ctx.fillRect(start, top, table.length * pitch - gap - start, tall);
    ctx.fillStyle = pale;
    const shared = (l) => sv.state.ref[table[l]] > 1;
    for (let l = 0; l < table.length; l++) {
      if (!shared(l)) continue;
      const from = l;
      while (l + 1 < table.length && shared(l + 1)) l++;
      ctx.fillRect(from * pitch, top, (l - from) * pitch + bar, tall / 2);
    }
    const full = Math.floor(computed / info.bs);
    if (full < table.length) {
      const x = full * pitch + (bar * (computed - full * info.bs)) / info.bs;
      ctx.fillRect(x, top, table.length * pitch - gap - x, tall);
    }
    hatch(ctx, i, start, top + tall - 4 * c.scale, table.length * pitch - gap - start, 4 * c.scale, c.o[i]);
  }

  // Lit entries are outlined on top of the picture; the picture below is not drawn again.
  mark(t) {
    const ctx = fit(this.over, parseFloat(this.canvas.style.width) || 1, this.lines.length * this.h);
    ctx.clearRect(0, 0, this.over.width, this.over.height);
    if (!t || !t.blocks.size) return;
    ctx.strokeStyle = this.player.colors.text;
    ctx.lineWidth = 2;
    this.lines.forEach((line, i) => {
      const table = line.seq !== undefined && this.sv.state.tables.get(line.seq);
      if (!table) return;
      table.forEach((b, l) => {
        if (t.blocks.has(b)) ctx.strokeRect(l * this.pitch, i * this.h + this.h * 0.1, Math.max(3, this.pitch), this.h * 0.8);
      });
    });
  }

  light(t) {
    this.lit = t;
    if (this.sv) this.mark(t);
    return [];
  }

  // The entry l of row i, as a target for linking.
  make(i, l) {
    const row = this.rows[i];
    const table = row && this.sv.state.tables.get(row[0]);
    if (!table || table[l] === undefined) return null;
    const b = table[l];
    if (b < 0) return { blocks: [], seq: row[0], tip: this.info.passed(row[0], l) };
    const refs = this.sv.state.ref[b];
    return { blocks: [b], seq: row[0], tip: `${row[0]}: table entry ${num(l)} is block ${num(b)}${refs > 1 ? `, ${plural(refs, "reference")}` : ""}.` };
  }

  at(e) {
    const r = this.canvas.getBoundingClientRect();
    return this.make(this.first + Math.floor((e.clientY - r.top) / this.h), Math.floor((e.clientX - r.left) / this.pitch));
  }

  target(node, e) {
    if (node !== this.canvas) return null;
    return e.clientX === undefined || e.type === "focusin" ? this.focused() : this.at(e);
  }

  focused() {
    const row = clamp(this.cursor[0], 0, Math.max(0, this.rows.length - 1));
    const table = this.rows[row] && this.sv.state.tables.get(this.rows[row][0]);
    return table ? this.make(row, clamp(this.cursor[1], 0, table.length - 1)) : null;
  }

  onKey(e) {
    const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[e.key];
    if (e.key === "Enter") {
      const t = this.focused();
      if (t?.blocks.length) this.player.select(t.blocks[0]);
    } else if (move && !e.altKey && !e.ctrlKey && !e.metaKey) {
      const i = clamp(this.cursor[0] + move[0], 0, Math.max(0, this.rows.length - 1));
      const table = this.rows[i] && this.sv.state.tables.get(this.rows[i][0]);
      this.cursor = [i, clamp(this.cursor[1] + move[1], 0, Math.max(0, (table?.length ?? 1) - 1))];
      this.reveal(i);
      const t = this.focused();
      this.player.light(t, this.canvas);
      this.player.say(t?.tip ?? `${this.rows[i]?.[0] ?? "Nothing"}: no blocks.`);
    } else return;
    e.preventDefault();
    e.stopPropagation();
  }

  reveal(i) {
    if (i < this.first) this.root.scrollTop = i * this.h;
    else if (i >= this.first + this.sight - 1) this.root.scrollTop = (i - this.sight + 1) * this.h;
  }
}
