// How the pool is used: blocks in use, cached and free, and how many of the held slots are filled.
import { el, num, percent } from "./util.js";

export class Usage {
  constructor() {
    this.root = el("span", "r usage");
  }

  draw(sv) {
    const u = sv.state.usage;
    const parts = [["u", u.in_use, "in use"], ["k", u.cached, "cached, idle"], ["f", u.free, "free"]];
    const bar = el("span", "ubar");
    const out = [];
    for (const [cls, n, word] of parts) {
      out.push(el("span", "", el("b", "", num(n)), ` ${word}`));
      const i = el("i", cls);
      i.style.flexGrow = String(n);
      bar.append(i);
    }
    const waste = sv.slotsHeld - sv.slotsFilled;
    const w = el("span", "val", el("b", "", num(sv.slotsHeld ? Math.round((100 * waste) / sv.slotsHeld) : 0)), " % ", el("span", "long", "of held slots "), "empty");
    w.dataset.tip = `${num(sv.slotsHeld)} slots are held, ${num(sv.slotsFilled)} are filled: ${num(waste)} ÷ ${num(sv.slotsHeld)} = ${percent(waste, sv.slotsHeld)} internal waste.`;
    w.tabIndex = 0;
    this.root.replaceChildren(...out, w, bar);
  }
}
