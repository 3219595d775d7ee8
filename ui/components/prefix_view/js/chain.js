// The hash chain: each cached block with its key, behind the block whose key it chains.
import { badge, paint } from "../../run_player/js/badge.js";
import { button, el, num, plural } from "../../run_player/js/util.js";
import { chainLayout } from "./layout.js";
import { Pane, place, wire } from "./pane.js";

export class ChainPane extends Pane {
  constructor(view) {
    super(view, "Hash chain", "Each full block has a key made from its tokens and its parent’s key. A lookup follows keys until one is missing.");
  }

  draw(path) {
    const { sv, info, order, read } = this.side;
    const { state } = sv;
    const layout = chainLayout(state, order, this.level);
    this.layout = layout;
    const at = new Map(layout.cells.map((c) => [c.b, c]));
    const paths = [];
    const lost = layout.cells.filter((c) => c.lost).length;
    for (const c of layout.cells) {
      const used = state.ref[c.b] > 0;
      const box = this.box(c.b, `hc ${used ? "used" : "idle"}${c.lost ? " lost" : ""}`);
      const sig = `${this.level}.${c.key}.${state.ref[c.b]}.${sv.holder[c.b]}.${c.lost}.${this.view.isPicked(this.side, c.b)}`;
      if (box.dataset.sig !== sig) this.fill(box, c, sig, read, info);
      place(box, c);
      const p = at.get(c.parent);
      if (p) paths.push([wire(p.x + p.w, p.y + p.h / 2, c.x, c.y + c.h / 2), path.has(c.key) && path.has(p.key) ? "on" : ""]);
      else if (c.lost) paths.push([`M${c.x - 22} ${c.y + c.h / 2}H${c.x}`, "gone"]);
    }
    this.count.textContent = `${plural(state.numCached, "block")}${lost ? `; ${plural(lost, "block")} cannot be reached: what came before went first` : ""}`;
    this.settle(at, layout, paths);
    this.reveal(layout.cells.findLast((c) => path.has(c.key)));
    this.drawEviction();
  }

  fill(box, c, sig, read, info) {
    const { sv } = this.side;
    const { state } = sv;
    const e = state.entry[c.b];
    const holder = sv.holder[c.b];
    const words = read(e.tokens);
    const refs = state.ref[c.b];
    const b = button("in", `block ${c.b}, ${words}, ${refs ? plural(refs, "reference") : "not in use"}, key ${e.key.slice(0, 6)}, ${e.parent_key ? `from ${e.parent_key.slice(0, 6)}` : "from the root"}`);
    b.tabIndex = -1;
    b.dataset.k = c.key;
    b.dataset.b = c.b;
    if (this.level < 2) {
      const right = refs ? badge(info, holder ?? "", info.letter(holder ?? "")) : el("span", "muted", "ref 0");
      b.append(el("span", "h", el("b", "", num(c.b)), this.level === 0 || refs ? right : "", refs > 1 ? el("span", "plus", `+${num(refs - 1)}`) : ""), el("span", "w", words));
      if (this.level === 0) b.append(el("span", "k", `${e.key.slice(0, 6)} ← ${e.parent_key ? e.parent_key.slice(0, 6) : "root"}`));
    } else b.dataset.tip = `block ${c.b}: ${words}`;
    b.onclick = () => this.view.pickBlock(this.side, c.b, c.key);
    if (this.view.isPicked(this.side, c.b)) b.setAttribute("aria-current", "true");
    const kept = box.firstChild && box.contains(box.getRootNode().activeElement);
    const tab = box.firstChild?.tabIndex ?? -1;
    b.tabIndex = tab;
    box.replaceChildren(b);
    box.dataset.sig = sig;
    if (holder) paint(box, info, holder);
    if (kept) b.focus({ preventScroll: true });
  }

  grid() {
    const rows = [];
    for (const c of this.layout?.cells ?? []) (rows[c.row] ??= []).push(this.boxes.get(c.b)?.firstChild);
    return rows.map((r) => r.filter(Boolean)).filter((r) => r.length);
  }
}
