// The radix tree: a node holds a run of blocks. Where prompts part, a node is split, always between
// two blocks: the boxes keep their names, so that the lower part can be seen to move.
import { paint } from "../../run_player/js/badge.js";
import { icon } from "../../run_player/js/icons.js";
import { button, el, num, plural } from "../../run_player/js/util.js";
import { NODE, treeLayout } from "./layout.js";
import { Pane, place, wire } from "./pane.js";

export class RadixPane extends Pane {
  constructor(view) {
    super(view, "Radix tree", "A node holds a run of blocks, and the step that last used it. Where prompts part, the node is split, always between two blocks.");
    this.folded = new Set();
    this.rootMark = el("span", "rootdot", "root");
  }

  load(side, level) {
    super.load(side, level);
    this.folded.clear();
  }

  draw(path) {
    const { sv, order, info, read } = this.side;
    const { state } = sv;
    const layout = treeLayout(state, order, this.level, this.folded);
    this.layout = layout;
    const at = new Map(layout.nodes.map((n) => [n.id, n]));
    const split = new Map(sv.events.filter((e) => e.type === "node_split").map((e) => [e.new_parent, e.node]));
    const lower = new Set(split.values());
    const paths = [];
    const head = NODE[this.level].head / 2;
    for (const n of layout.nodes) {
      const node = state.nodes.get(n.id);
      const lock = state.nodeLock(node);
      const box = this.box(n.id, `nd ${lock ? "locked" : "idle"}${split.has(n.id) ? " cutabove" : ""}${lower.has(n.id) ? " cutbelow" : ""}`);
      const sig = [this.level, node.blocks.join("-"), lock, state.nodeUsed(node), n.kids, n.hidden, split.get(n.id) ?? "", this.view.pickedSig(this.side)].join();
      if (box.dataset.sig !== sig) this.fill(box, n, node, sig, split, read, info);
      place(box, n);
      const p = at.get(n.parent);
      const on = node.blocks.some((b) => path.has(state.entry[b].key)) ? "on" : "";
      if (p) paths.push([wire(p.x + p.w, p.y + head, n.x, n.y + head), on]);
      else paths.push([wire(26, 14, n.x, n.y + head), on]);
    }
    this.count.textContent = `${plural(state.nodes.size, "node")}, ${plural(state.numCached, "block")}`;
    this.settle(at, layout, paths);
    this.reveal(layout.nodes.filter((n) => state.nodes.get(n.id).blocks.some((b) => path.has(state.entry[b].key))).reduce((far, n) => (far && far.depth > n.depth ? far : n), null));
    if (at.size) this.stage.append(this.rootMark);
    else this.rootMark.remove();
    this.drawEviction();
  }

  fill(box, n, node, sig, split, read, info) {
    const { state, holder } = this.side.sv;
    const lock = state.nodeLock(node);
    const owner = holder[node.blocks[0]];
    const within = box.getRootNode().activeElement;
    const focus = within && box.contains(within) ? within.dataset.f : null;
    const picked = this.view.isPickedNode(this.side, n.id);
    const head = button("nh", `node ${n.id}, ${plural(node.blocks.length, "block")}, ${lock ? `lock ${lock}` : "not locked"}, last used in step ${state.nodeUsed(node)}`);
    head.dataset.f = "head";
    head.dataset.node = n.id;
    head.onclick = () => this.view.pickNode(this.side, n.id);
    if (picked) head.setAttribute("aria-current", "true");
    const keys = node.blocks.map((b) => state.entry[b].key);
    head.dataset.ks = keys.join(" ");
    if (this.level === 0) head.append(el("b", "", `node ${num(n.id)}`), el("span", "", plural(node.tokens.length, "token")), el("span", "", `step ${num(state.nodeUsed(node))}`), el("span", "lk", ...(lock ? [icon("lock"), el("b", "", `lock ${num(lock)}`)] : ["lock 0"])));
    else if (this.level === 1) head.append(el("b", "", `node ${num(n.id)}`), el("span", "lk", ...(lock ? [icon("lock"), num(lock)] : [])));
    else head.append(el("b", "", num(n.id)));
    const out = [head];
    if (this.level === 0) {
      const { lines } = NODE[0];
      node.blocks.slice(0, lines).forEach((b) => out.push(this.line(b, read(state.entry[b].tokens))));
      if (node.blocks.length > lines) out.push(el("span", "nr rest", `and ${plural(node.blocks.length - lines, "block")} more`));
    } else if (this.level === 1) out.push(el("span", "nr ids mono", `${plural(node.blocks.length, "block")}`));
    if (n.kids) {
      const folded = this.folded.has(n.id);
      const fold = button("fold", folded ? `Show the ${plural(n.hidden, "node")} below node ${n.id}` : `Fold what is below node ${n.id}`, folded ? `+${num(n.hidden)}` : "–");
      fold.setAttribute("aria-expanded", String(!folded));
      fold.dataset.f = "fold";
      fold.onclick = () => {
        if (!this.folded.delete(n.id)) this.folded.add(n.id);
        this.view.draw();
      };
      out.push(fold);
    }
    if (split.has(n.id) && this.level === 0) out.push(el("span", "splittag", `split here: node ${num(split.get(n.id))} keeps what followed`));
    const tab = box.querySelector('[tabindex="0"]') !== null;
    box.replaceChildren(...out);
    for (const b of box.querySelectorAll("button")) b.tabIndex = -1;
    if (tab) head.tabIndex = 0;
    box.dataset.sig = sig;
    if (owner) paint(box, info, owner);
    if (focus) box.querySelector(`[data-f="${focus}"]`)?.focus({ preventScroll: true });
  }

  line(b, words) {
    const { state } = this.side.sv;
    const line = button("nr", `block ${b}, ${words}`, el("span", "w", words), el("span", "mono", `block ${num(b)}`));
    line.dataset.k = state.entry[b].key;
    line.dataset.b = b;
    line.dataset.f = `b${b}`;
    if (this.view.isPicked(this.side, b)) line.setAttribute("aria-current", "true");
    line.onclick = () => this.view.pickBlock(this.side, b, state.entry[b].key);
    return line;
  }

  grid() {
    return (this.layout?.nodes ?? []).flatMap((n) => [...(this.boxes.get(n.id)?.querySelectorAll("button") ?? [])].map((b) => [b]));
  }
}
