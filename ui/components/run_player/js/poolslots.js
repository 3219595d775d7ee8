// The pool of a small run: a card for each block, with a line for each of its slots.
import { badge, paint } from "./badge.js";
import { button, el, num, ordinal } from "./util.js";

export const placeWord = (i) => (i < 0 ? "" : i === 0 ? "next" : ordinal(i + 1));

export function describe(sv, b) {
  const kind = sv.kind(b);
  const { bs } = sv.info;
  if (kind === "used") {
    const h = sv.holders(b);
    return `Block ${num(b)}: held by ${h.map(([s]) => s).join(", ")}, ${num(sv.state.ref[b])} ${sv.state.ref[b] === 1 ? "reference" : "references"}, ${num(sv.fill[b])} of ${num(bs)} slots filled${sv.state.entry[b] ? ", matchable" : ""}.`;
  }
  const place = sv.place(b);
  const order = place === 0 ? "next to be taken" : `${ordinal(place + 1)} to be taken`;
  return kind === "idle" ? `Block ${num(b)}: cached, nobody reads it, ${order}.` : `Block ${num(b)}: free, ${order}.`;
}

export class PoolSlots {
  constructor(player) {
    this.player = player;
    this.root = el("div", "pool slots");
  }

  load(info) {
    this.info = info;
    this.sigs = [];
    this.cells = Array.from({ length: info.n }, (_, b) => {
      const c = button("cell", null);
      c.dataset.b = b;
      c.tabIndex = -1;
      return c;
    });
    this.root.style.setProperty("--slots", info.bs);
    this.root.style.setProperty("--across", Math.min(8, Math.max(4, info.n)));
    this.root.replaceChildren(...this.cells);
  }

  get columns() {
    const top = this.cells[0].offsetTop;
    let n = 0;
    while (n < this.cells.length && this.cells[n].offsetTop === top) n++;
    return n;
  }

  draw(sv) {
    const { state } = sv;
    const copies = new Map();
    for (const e of sv.copies) {
      copies.set(e.src, ["src", e]);
      copies.set(e.dst, ["dst", e]);
    }
    const holders = Array.from({ length: this.info.n }, () => []);
    for (const [id, table] of state.tables) for (const b of table) holders[b]?.push(id);
    for (let b = 0; b < this.info.n; b++) {
      const kind = sv.kind(b);
      const [role, copy] = copies.get(b) ?? [null, null];
      const tokens = kind === "free" ? [] : sv.tokens(b);
      const wrote = sv.wrote.get(b);
      const place = kind === "used" ? -1 : sv.place(b);
      const sig = [kind, holders[b], state.ref[b], tokens, wrote, place, state.entry[b] !== null, role, copy && copy.num_slots].join("|");
      if (this.sigs[b] === sig) continue;
      this.sigs[b] = sig;
      this.fill(this.cells[b], sv, b, { kind, holders: holders[b], tokens, wrote, place, role, copy });
    }
  }

  fill(cell, sv, b, { kind, holders, tokens, wrote, place, role, copy }) {
    const { info } = this;
    const refs = sv.state.ref[b];
    cell.className = `cell ${kind}${role ? ` ${role}` : ""}${cell.classList.contains("sel") ? " sel" : ""}`;
    const owner = holders[0] ?? null;
    if (owner) paint(cell, info, owner);
    const top = el("span", "top", el("span", "sr", "Block "), el("span", "no", num(b)));
    top.append(...this.badges(holders, String(b).length));
    const slots = el("span", "lines");
    for (let i = 0; i < info.bs; i++) {
      const filled = i < tokens.length;
      const cls = ["sl"];
      if (filled) cls.push("f");
      if (wrote && i >= wrote[0] && i < wrote[1]) cls.push("w");
      if (role === "dst" && i < copy.num_slots) cls.push("cp");
      const special = filled ? info.special(tokens[i]) : null;
      const shown = filled ? (special ?? (info.show(tokens[i]).trim() || "␣")) : "";
      if (special) cls.push("sp");
      if (shown === "␣") cls.push("ws");
      const line = el("span", cls.join(" "), shown);
      line.dataset.i = i;
      slots.append(line);
    }
    cell.replaceChildren(top, slots, this.foot(sv, b, kind, refs, tokens.length, place, role, copy));
  }

  // Twice: each holder where there is room, and for narrow cards each request once.
  badges(holders, digits) {
    const { info } = this;
    const names = holders.map((s) => (s.includes("#") ? info.letter(s) + s.slice(s.lastIndexOf("#")) : info.letter(s)));
    const wide = (n) => names.slice(0, n).join("").length + digits + (n < names.length ? 2 : 0);
    let room = Math.min(3, holders.length);
    while (room > 1 && wide(room) > 8) room--;
    const all = holders.slice(0, room).map((s, i) => badge(info, s, names[i]));
    if (holders.length > room) all.push(el("span", "plus", `+${holders.length - room}`));
    const once = [...new Map(holders.map((s) => [info.letter(s), s])).values()];
    const brief = once.slice(0, 2).map((s) => badge(info, s, info.letter(s)));
    if (once.length > 2) brief.push(el("span", "plus", `+${once.length - 2}`));
    return [el("span", "wide", ...all), el("span", "brief", ...brief)];
  }

  foot(sv, b, kind, refs, filled, place, role, copy) {
    const foot = el("span", "bot");
    if (kind !== "used") {
      foot.append(el("span", "", kind === "idle" ? "cached" : "free"), el("b", "", placeWord(place)));
      return foot;
    }
    const word =
      role === "dst"
        ? `copy of ${num(copy.src)}`
        : sv.state.entry[b]
          ? "matchable"
          : this.info.contiguous && !filled
            ? "reserved"
            : filled < this.info.bs
              ? "open"
              : "full";
    foot.classList.toggle("long", word.length > 8);
    foot.append(el("span", role === "dst" ? "acc" : "", word));
    const r = el("span", "refs", el("span", "rw", "ref "));
    if (role === "src") r.append(el("b", "acc", `${num(refs + sv.copies.filter((e) => e.src === b).length)} → ${num(refs)}`));
    else r.append(el("b", "", num(refs)));
    foot.append(r);
    return foot;
  }

  light(t) {
    this.root.querySelectorAll(".lit, .hov").forEach((e) => e.classList.remove("lit", "hov"));
    if (!t) return;
    for (const b of t.blocks) {
      const c = this.cells[b];
      if (!c) continue;
      c.classList.add("lit");
      if (t.slot !== undefined) c.querySelector(`.sl.f[data-i="${t.slot}"]`)?.classList.add("hov");
    }
  }

  select(b) {
    this.cells.forEach((c, i) => {
      c.classList.toggle("sel", i === b);
      c.tabIndex = i === (b ?? 0) ? 0 : -1;
      c.setAttribute("aria-pressed", String(i === b));
    });
  }

  target(node) {
    const c = node.closest("[data-b]");
    if (!c) return null;
    const line = node.closest(".sl.f");
    const b = Number(c.dataset.b);
    return { blocks: [b], slot: line ? Number(line.dataset.i) : undefined };
  }

  anchor(b) {
    return this.cells[b] ?? null;
  }
}
