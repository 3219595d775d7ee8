// Sequences in logical order, token by token: each box is one entry of the block table. For small
// runs; bars.js draws the same for large ones.
import { badge, paint } from "./badge.js";
import { icon } from "./icons.js";
import { GIVEN_BACK } from "./state.js";
import { refusedText, waitingText } from "./waiting.js";
import { button, el, num, plural, times } from "./util.js";

const tokenWord = (info, token) => {
  const w = info.word(token);
  return w.trim() === "" ? info.show(token) : w.replace(/\n/g, "⏎").replace(/\t/g, "⇥");
};

// Everything that is on the page at this step, in the order in which it is shown.
export function lanesOf(sv) {
  const { state, events, k } = sv;
  const out = [];
  for (const id of state.running) out.push([id, state.seqs.get(id).status === "held" ? "held" : "run"]);
  for (const e of events) {
    if (e.type === "finished" && !e.holds && state.seqs.get(e.sequence)?.status === "ended") out.push([e.sequence, "ended"]);
    if (e.type === "pruned") out.push([e.sequence, "ended"]);
  }
  for (const id of state.waiting) out.push([id, "wait"]);
  for (const s of state.seqs.values()) if (s.status === "rejected" && s.endStep === k) out.push([s.id, "refused"]);
  const seen = new Set();
  return out.filter(([id]) => !seen.has(id) && seen.add(id));
}

export class Lanes {
  constructor(player) {
    this.player = player;
    this.root = el("div", "lanes");
    this.rows = new Map();
  }

  load(info) {
    this.info = info;
    this.rows.clear();
    this.root.replaceChildren();
    this.root.style.setProperty("--rows", Math.min(info.maxLanes, 12));
  }

  draw(sv) {
    const seen = new Set();
    let at = 0;
    for (const [id, kind] of lanesOf(sv)) {
      seen.add(id);
      let row = this.rows.get(id);
      if (!row) this.rows.set(id, (row = { node: el("div", "lane") }));
      row.node.dataset.seq = id;
      const sig = this.signature(sv, id, kind);
      if (row.sig !== sig) {
        row.sig = sig;
        this.fill(row.node, sv, id, kind);
      }
      if (this.root.children[at] !== row.node) this.root.insertBefore(row.node, this.root.children[at] ?? null);
      at++;
    }
    for (const [id, row] of this.rows) {
      if (seen.has(id)) continue;
      row.node.remove();
      this.rows.delete(id);
    }
    if (!at) this.root.replaceChildren(el("p", "nothing", "Nothing runs or waits after this step."));
    else this.root.querySelector(".nothing")?.remove();
  }

  // Long sequences show their end, where the step happens. Reads the layout, so it runs once a
  // frame, after all writing is done.
  settle() {
    const wide = [];
    for (const row of this.rows.values()) {
      const groups = row.node.lastElementChild;
      const more = groups.scrollWidth > groups.clientWidth + 1;
      if (row.groups === groups && row.end === groups.scrollWidth) continue;
      Object.assign(row, { groups, end: groups.scrollWidth });
      wide.push([groups, more]);
    }
    for (const [groups, more] of wide) {
      groups.classList.toggle("cut", more && this.root.clientWidth > 560);
      if (more) groups.scrollLeft = groups.scrollWidth;
    }
  }

  signature(sv, id, kind) {
    const s = sv.state.seqs.get(id);
    const t = sv.state.tables.get(id);
    const now = sv.state.scheduled.get(id);
    const refs = t ? t.map((b) => `${b}.${sv.state.ref[b]}`) : "";
    return [kind, s.numTokens, s.computed, refs, now ? `${now.from}+${now.n}+${now.hit}` : "", kind === "wait" ? JSON.stringify(s.reason) + s.preempted : "", kind === "ended" ? sv.k : ""].join("|");
  }

  fill(node, sv, id, kind) {
    const { info } = this;
    const s = sv.state.seqs.get(id);
    const now = sv.state.scheduled.get(id);
    const words = {
      run: now ? `+${plural(now.n, "token")}` : s.hitStep === sv.k ? "forked" : sv.events.some((e) => e.type === "forked" && e.sequences.includes(id)) ? "forked" : "no turn",
      held: "ended, holds",
      ended: "ended",
      wait: s.preempted ? "preempted" : "waits",
      refused: "refused",
    };
    node.className = `lane ${kind}`;
    const groups = el("div", "groups");
    node.replaceChildren(el("div", "id", badge(info, id), el("span", "st", info.shortIds ? words[kind] : `${info.letter(id)}: ${words[kind]}`)), groups);
    if (kind === "wait" || kind === "refused") this.fillWaiting(groups, sv, s, kind);
    else this.fillTable(groups, sv, s, kind, now);
  }

  fillWaiting(groups, sv, s, kind) {
    const { info } = this;
    const g = el("div", "g");
    const toks = el("div", "toks");
    s.tokens(0, Math.min(s.numTokens, 8)).forEach((t) => toks.append(el("span", info.special(t) ? "tk sp" : "tk", info.special(t) ?? tokenWord(info, t))));
    toks.append(el("span", "tk more", s.numTokens > 8 ? `… ${plural(s.numTokens, "token")}` : s.numTokens ? plural(s.numTokens, "token") : "no tokens"));
    g.append(toks);
    const why = el("span", `why ${kind}`, icon(kind === "wait" ? "wait" : "stop"), el("span", "", kind === "wait" ? waitingText(s, sv) : refusedText(s.reason, info)));
    groups.append(g, why);
  }

  fillTable(groups, sv, s, kind, now) {
    const { info } = this;
    const { bs } = info;
    const table = sv.state.tables.get(s.id) ?? (s.lastTableStep === sv.k ? s.lastTable : []) ?? [];
    const gone = !sv.state.tables.has(s.id);
    const n = s.numTokens;
    const entries = Math.max(table.length, Math.ceil(n / bs));
    for (let l = 0; l < entries; l++) {
      const b = table[l];
      const from = l * bs;
      const own = b >= 0 && !gone;
      if (own && from >= n && info.contiguous) {
        groups.append(this.reserved(sv, s, table, l));
        break;
      }
      const g = paint(el("div", `g ${own ? "own" : "none"}`), info, s.id);
      const toks = el("div", "toks");
      for (let p = from; p < Math.min(n, from + bs); p++) {
        const computed = p < s.computed;
        const cls = ["tk"];
        if (!computed) cls.push("pend");
        if (now && p >= now.from && p < now.from + now.n) cls.push("w");
        if (now && p < now.hit && b >= 0) cls.push("hit");
        const special = info.special(s.token(p));
        if (special) cls.push("sp");
        const t = el("span", cls.join(" "), special ?? tokenWord(info, s.token(p)));
        t.dataset.p = p;
        toks.append(t);
      }
      const empty = bs - Math.max(0, Math.min(bs, s.computed - from));
      if (own && info.contiguous && empty > 0) toks.append(el("span", "tk waste", `${num(empty)} empty`));
      g.append(toks, this.entry(sv, s, l, b, own, kind, gone && b !== undefined));
      if (own) Object.assign(g.dataset, { b, l });
      groups.append(g);
    }
  }

  entry(sv, s, l, b, own, kind, back) {
    if (b === GIVEN_BACK) {
      const e = el("div", "ent", `${l} → –`, el("span", "sr", " given back"));
      e.dataset.tip = this.info.passed(s.id, l);
      return e;
    }
    if (!this.info.keepsKV) return el("div", "ent", "not kept");
    if (!own) return el("div", "ent", back ? `${l} → ${num(b)} given back` : kind === "run" ? "no slot yet" : "no slot needed");
    const refs = sv.state.ref[b];
    const e = button("ent", null, `${l} → `, el("b", "", num(b)));
    if (refs > 1) e.append(el("span", "x", times(refs)));
    // A label must contain what can be read on the button, for those who speak to their computer.
    e.setAttribute("aria-label", `${e.textContent}: table entry ${l} of ${s.id} is block ${b}${refs > 1 ? `, ${refs} references` : ""}`);
    e.tabIndex = -1;
    e.dataset.key = `${s.id}/${l}`;
    return e;
  }

  // What a contiguous reservation holds and does not use, in one box.
  reserved(sv, s, table, l) {
    const rest = table.length - l;
    const g = paint(el("div", "g own waste"), this.info, s.id);
    Object.assign(g.dataset, { b: table[l], l });
    const e = button("ent", null, rest > 1 ? `${l}–${table.length - 1} → ` : `${l} → `, el("b", "", rest > 1 ? `${num(table[l])}–${num(table[table.length - 1])}` : num(table[l])));
    e.tabIndex = -1;
    e.dataset.key = `${s.id}/${l}`;
    g.append(el("div", "toks", el("span", "tk", `reserved, ${plural(rest * this.info.bs, "slot")} empty`)), e);
    return g;
  }

  light(t) {
    this.root.querySelectorAll(".lit, .hov").forEach((e) => e.classList.remove("lit", "hov"));
    if (!t) return [];
    const ends = [];
    for (const g of this.root.querySelectorAll(".g[data-b]")) {
      const b = Number(g.dataset.b);
      if (!t.blocks.has(b)) continue;
      g.classList.add("lit");
      ends.push([g, b]);
      if (t.slot === undefined) continue;
      const p = Number(g.dataset.l) * this.info.bs + t.slot;
      g.querySelector(`.tk[data-p="${p}"]`)?.classList.add("hov");
    }
    if (t.seq !== undefined && t.pos !== undefined && !t.blocks.size)
      this.rows.get(t.seq)?.node.querySelector(`.tk[data-p="${t.pos}"]`)?.classList.add("hov");
    return ends;
  }

  // What lies under the pointer or the focus, as a target for linking.
  target(node) {
    const lane = node.closest(".lane");
    if (!lane) return null;
    const seq = lane.dataset.seq;
    const tk = node.closest(".tk[data-p]");
    const g = node.closest(".g");
    const pos = tk ? Number(tk.dataset.p) : undefined;
    if (!g?.dataset.b) return tk ? { blocks: [], seq, pos, tip: this.tip(seq, pos) } : null;
    const pend = tk?.classList.contains("pend");
    if (pend) return { blocks: [], seq, pos, tip: this.tip(seq, pos) };
    return { blocks: [Number(g.dataset.b)], seq, pos, slot: tk ? pos % this.info.bs : undefined, tip: tk ? this.tip(seq, pos) : null };
  }

  tip(seq, p) {
    const { sv } = this.player;
    const { bs } = this.info;
    const s = sv.state.seqs.get(seq);
    const t = s.token(p);
    const name = `${this.info.quote([t])}, token ${num(p)} of ${seq}${p < s.prompt.length ? "" : `, output ${num(p - s.prompt.length + 1)}`}`;
    if (!this.info.keepsKV) return `${name}: computed again in every step, for nothing is kept.`;
    if (p >= s.computed) return `${name}: ${s.status === "ended" ? "sampled last and never computed" : p < s.prompt.length ? "not computed yet" : "sampled, not computed yet, so it has no slot"}.`;
    const b = sv.state.tables.get(seq)?.[Math.floor(p / bs)];
    if (b === GIVEN_BACK) return `${name}. ${this.info.passed(seq, Math.floor(p / bs))}`;
    const now = sv.state.scheduled.get(seq);
    const how = now && p < now.hit ? " Found in the cache." : now && p >= now.from && p < now.from + now.n ? " Computed in this step." : "";
    return b === undefined ? `${name}.` : `${name}: table entry ${num(Math.floor(p / bs))}, block ${num(b)}, slot ${num(p % bs)}.${how}`;
  }
}
