// The pool of a middling run, up to about a thousand blocks: one small cell a block with the
// letter of its request, how full it is, and its references if there are more than one.
import { paint } from "./badge.js";
import { PoolSlots, describe, placeWord } from "./poolslots.js";
import { button, el, num } from "./util.js";

export class PoolCells extends PoolSlots {
  constructor(player) {
    super(player);
    this.root = el("div", "pool cells");
  }

  load(info) {
    this.info = info;
    this.sigs = [];
    this.cells = Array.from({ length: info.n }, (_, b) => {
      const c = button("c2", null);
      c.dataset.b = b;
      c.tabIndex = -1;
      return c;
    });
    this.root.style.setProperty("--cols", info.n <= 64 ? 16 : info.n <= 128 ? 24 : info.n <= 320 ? 32 : info.n <= 640 ? 40 : 50);
    this.root.classList.toggle("few", info.n <= 128);
    this.root.replaceChildren(...this.cells);
  }

  draw(sv) {
    const { state, info } = sv;
    const dst = new Set(sv.copies.map((e) => e.dst));
    const src = new Set(sv.copies.map((e) => e.src));
    for (let b = 0; b < info.n; b++) {
      const refs = state.ref[b];
      const owner = sv.holder[b];
      const idle = !refs && state.entry[b] !== null;
      const place = refs ? -1 : (sv.order.get(b) ?? -1);
      const wrote = sv.wrote.has(b);
      const sig = `${owner}|${refs}|${sv.fill[b]}|${idle}|${place >= 0 && place < 3 ? place : ""}|${wrote}|${dst.has(b)}|${src.has(b)}`;
      if (this.sigs[b] === sig) continue;
      this.sigs[b] = sig;
      const c = this.cells[b];
      const part = refs > 0 && sv.fill[b] < info.bs;
      const keep = ["sel", "lit"].filter((x) => c.classList.contains(x));
      c.className = ["c2", refs ? "used" : idle ? "idle" : "free", part ? "part" : "", refs > 1 ? "sh" : "", wrote ? "w" : "", dst.has(b) ? "dst" : "", src.has(b) ? "src" : "", ...keep].filter(Boolean).join(" ");
      c.replaceChildren();
      if (refs) {
        paint(c, info, owner);
        c.style.setProperty("--f", `${(100 * sv.fill[b]) / info.bs}%`);
        c.append(el("span", "", info.letter(owner)));
        if (refs > 1) c.append(el("em", "", num(refs)));
      } else if (place >= 0 && place < 3) c.append(el("span", "ord", placeWord(place)));
      else if (idle) c.append("·");
    }
  }

  // A thousand labels a step would cost more than the picture: they are made when the focus or
  // the pointer comes.
  target(node) {
    const t = super.target(node);
    if (t) {
      const tip = describe(this.player.sv, t.blocks[0]);
      this.cells[t.blocks[0]].setAttribute("aria-label", tip);
      t.tip = tip;
    }
    return t;
  }
}
