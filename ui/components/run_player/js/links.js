// Linking: what is pointed at or has the focus in one picture lights up in all of them, with lines
// between a table entry and its block, and says in a tooltip what it is.
import { clamp, el } from "./util.js";

export class Links {
  constructor(player) {
    this.player = player;
    this.lit = null; // {blocks: Set, slot?, seq?, pos?}
    this.tipNode = el("div", "tip");
    this.tipNode.setAttribute("role", "tooltip");
    this.tipNode.id = "kv-tip";
    this.settled = true;
    const { host } = player;
    for (const type of ["pointerover", "focusin"]) host.addEventListener(type, (e) => this.onPoint(e));
    host.addEventListener("pointermove", (e) => {
      if (e.target.tagName === "CANVAS" && e.pointerType !== "touch") this.onPoint(e);
    });
    for (const type of ["pointerleave", "focusout"]) host.addEventListener(type, () => this.light(null));
  }

  dispose() {
    cancelAnimationFrame(this.after);
  }

  // What has to read the layout waits for the next frame, when the browser has one anyway.
  settle() {
    this.settled = true;
    for (const pane of this.player.shown) pane.lanes.settle?.();
    this.player.log.root.scrollTop = 0;
    this.drawWires();
  }

  onPoint(e) {
    const p = this.player;
    const node = e.target;
    if (!node.closest) return;
    if (!p.runs) return;
    let t = null;
    const at = p.shown.find((pane) => pane.root.contains(node));
    for (const v of at ? [at.lanes, at.pool] : [p.tree, p.log]) {
      if (v.root.contains(node)) t = v.target?.(node, e) ?? null;
    }
    if (t) t.pane = at ?? p.pane;
    this.light(t, node);
    const tip = node.closest("[data-tip]");
    if (tip) this.tip(tip.dataset.tip, tip.getBoundingClientRect());
    else if (t?.tip) {
      const at = e.clientX !== undefined && e.type !== "focusin" && node.tagName === "CANVAS" ? { left: e.clientX, top: e.clientY - 6, width: 0, bottom: e.clientY + 14 } : node.getBoundingClientRect();
      this.tip(t.tip, at);
    } else if (!node.classList.contains("rng")) this.tip(null);
  }

  light(t, node = null) {
    if (!t && !this.lit) return;
    this.lit = t ? { ...t, blocks: new Set(t.blocks) } : null;
    this.litNode = node;
    if (!t) this.tip(null);
    this.show();
  }

  show() {
    const p = this.player;
    if (!p.sv) return;
    for (const pane of p.shown) {
      const t = this.of(pane);
      pane.ends = pane.lanes.light(t) ?? [];
      pane.pool.light(t);
    }
    p.tree.light(this.of(p.pane));
    cancelAnimationFrame(this.after);
    this.after = requestAnimationFrame(() => (this.settled ? this.drawWires() : this.settle()));
  }

  // What is lit in a pane.
  of(pane) {
    return this.lit && (this.lit.pane ?? this.player.pane) === pane ? this.lit : null;
  }

  drawWires() {
    const p = this.player;
    for (const pane of p.shown) {
      const t = this.of(pane);
      pane.wires.clear();
      if (t && t.blocks.size && t.blocks.size <= 2 && !p.phone) {
        for (const [g, b] of pane.ends) {
          const cell = pane.pool.anchor(b);
          if (cell) pane.wires.link(g.querySelector?.(".ent") ?? g, cell);
        }
      } else if (!this.lit) {
        for (const e of pane.sv.copies.slice(0, 4)) {
          const [a, b] = [pane.pool.anchor(e.src), pane.pool.anchor(e.dst)];
          if (a && b) pane.wires.copy(a, b);
        }
      }
    }
  }

  tip(words, r) {
    const n = this.tipNode;
    this.described?.removeAttribute("aria-describedby");
    this.described = null;
    if (!words) {
      n.classList.remove("on");
      return;
    }
    if (this.player.focused instanceof Element) {
      this.described = this.player.focused;
      this.described.setAttribute("aria-describedby", n.id);
    }
    if (n.textContent !== words) n.textContent = words;
    n.classList.add("on");
    const w = n.offsetWidth;
    const h = n.offsetHeight;
    n.style.left = `${clamp(r.left + r.width / 2 - w / 2, 8, window.innerWidth - w - 8)}px`;
    n.style.top = `${r.top > h + 14 ? r.top - h - 8 : r.bottom + 8}px`;
  }
}
