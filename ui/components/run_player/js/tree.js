// The prefix tree of a radix cache, root on the left: a node is a run of blocks, drawn with its
// tokens, its lock and when it was last used. Children stand to the right of their parent.

import { icon, svg } from "./icons.js";
import { paint } from "./badge.js";
import { button, el, num, plural } from "./util.js";

const MOST_NODES = 60; // nodes drawn as a tree; beyond that only the table is legible
const PAUSE = 250; // milliseconds without a step after which it is drawn out of sight as well

export class Tree {
  constructor(player) {
    this.player = player;
    this.caption = el("span", "say muted");
    this.area = el("div", "treearea");
    this.lines = svg("svg", { class: "treelines", "aria-hidden": "true" });
    this.root = el("section", "treebox", el("div", "cap", el("b", "", "Prefix tree"), this.caption), this.area);
    this.root.setAttribute("aria-label", "Prefix tree");
    this.seen = true;
    this.watch = new IntersectionObserver(([entry]) => {
      this.seen = entry.isIntersecting;
      if (this.seen) this.flush();
    }, { rootMargin: "0px 0px -76px 0px" }); // the player bar covers that much at the foot
    this.watch.observe(this.root);
  }

  dispose() {
    this.watch.disconnect();
    clearTimeout(this.timer);
  }

  load(info) {
    this.info = info;
    this.sig = this.due = null;
    this.root.hidden = !info.radix;
  }

  // Out of sight it is drawn when the steps pause: it would cost more than all the rest.
  draw(sv) {
    if (!this.info.radix) return;
    this.due = sv;
    clearTimeout(this.timer);
    if (this.seen) this.flush();
    else this.timer = setTimeout(() => this.flush(), PAUSE);
  }

  flush() {
    const sv = this.due;
    this.due = null;
    if (sv) this.render(sv);
  }

  render(sv) {
    const { state } = sv;
    const sig = [...state.nodes.values()].map((n) => `${n.id}.${n.parent}.${n.blocks.join("-")}.${state.ref[n.blocks[0]]}.${state.ref[n.blocks[0]] ? 0 : state.lastUsed(n.blocks[0])}`).join("|") + (sv.events.some((e) => e.type === "node_split") ? `s${sv.k}` : "");
    if (sig === this.sig) return;
    this.sig = sig;
    let locked = 0;
    let total = 0;
    for (const n of state.nodes.values()) {
      total += n.blocks.length;
      if (state.ref[n.blocks[0]]) locked += n.blocks.length;
    }
    this.caption.textContent = `${plural(state.nodes.size, "node")}, ${plural(total, "block")}: ${num(locked)} in use + ${num(total - locked)} evictable`;
    if (state.nodes.size > MOST_NODES) {
      this.area.replaceChildren(el("p", "say muted", `The tree has ${num(state.nodes.size)} nodes, too many to draw. It stands in the tables below.`));
      return;
    }
    this.nodes = new Map();
    const kids = new Map();
    for (const n of state.nodes.values()) {
      const p = n.parent ?? -1;
      if (!kids.has(p)) kids.set(p, []);
      kids.get(p).push(n);
    }
    const split = new Map(sv.events.filter((e) => e.type === "node_split").map((e) => [e.new_parent, e.node]));
    const branch = (n) => {
      const below = el("div", "kids", ...(kids.get(n.id) ?? []).map(branch));
      return el("div", "branch", this.node(sv, n, split), below);
    };
    this.rootDot = el("span", "rootdot", "root");
    const top = kids.get(-1) ?? [];
    this.area.replaceChildren(this.lines, el("div", "branch", this.rootDot, el("div", "kids", ...top.map(branch))));
    if (!top.length) this.area.append(el("p", "say muted", "Nothing is cached yet: a block enters the tree when its last slot is computed."));
    requestAnimationFrame(() => this.connect());
  }

  node(sv, n, split) {
    const { state, info } = sv;
    const lock = state.ref[n.blocks[0]];
    const box = el("div", `node ${lock ? "locked" : "idle"}`);
    box.dataset.node = n.id;
    const owner = sv.holder[n.blocks[0]];
    if (owner) paint(box, info, owner);
    const lockWord = el("span", "lock", ...(lock ? [icon("lock")] : []), `lock ${num(lock)}`);
    const head = button("nh", null, el("b", "", `node ${num(n.id)}`), el("span", "", `${plural(n.tokens.length, "token")}`), el("span", "", `step ${num(state.lastUsed(n.blocks[0]))}`), lockWord);
    head.dataset.node = n.id;
    head.dataset.key = `n${n.id}`;
    box.append(head);
    const most = state.nodes.size > 8 ? 2 : 5;
    const shown = n.blocks.length > most + 1 ? most : n.blocks.length;
    n.blocks.slice(0, shown).forEach((b, i) => {
      const tokens = n.tokens.slice(i * info.bs, (i + 1) * info.bs);
      const words = tokens.map((t) => info.word(t));
      const line = button("nb", null, el("span", "nt", words.some((w) => /^\s/.test(w)) ? tokens.map((t) => info.joint(t)).join("").trim() : words.join(" ")), el("span", "mono", `block ${num(b)}`));
      line.dataset.b = b;
      line.dataset.key = `t${b}`;
      box.append(line);
    });
    if (shown < n.blocks.length) box.append(el("div", "nb rest", `and ${plural(n.blocks.length - shown, "block")} more`));
    if (split.has(n.id)) {
      box.classList.add("split");
      box.append(el("div", "splitmark", `split here: node ${num(split.get(n.id))} keeps what followed`));
    }
    this.nodes.set(n.id, { box, parent: n.parent, lock });
    return box;
  }

  connect() {
    if (!this.nodes || !this.rootDot?.isConnected) return;
    // All is measured before anything is written: in turns the browser would lay out each time.
    const { scrollLeft, scrollTop, scrollWidth, scrollHeight } = this.area;
    const o = this.area.getBoundingClientRect();
    const known = new Map();
    const at = (node) => {
      if (!known.has(node)) {
        const r = node.getBoundingClientRect();
        const y = r.top - o.top + scrollTop;
        known.set(node, { l: r.left - o.left + scrollLeft, r: r.right - o.left + scrollLeft, y: y + Math.min(18, r.height / 2), mid: y + r.height / 2 });
      }
      return known.get(node);
    };
    const paths = [];
    for (const { box, parent, lock } of this.nodes.values()) {
      const up = parent === null ? this.rootDot : this.nodes.get(parent)?.box;
      if (!up) continue;
      const a = at(up);
      const b = at(box);
      const y0 = parent === null ? a.mid : a.y;
      paths.push([`M${a.r} ${y0}C${(a.r + b.l) / 2} ${y0},${(a.r + b.l) / 2} ${b.y},${b.l} ${b.y}`, lock ? "on" : ""]);
    }
    this.lines.setAttribute("width", scrollWidth);
    this.lines.setAttribute("height", scrollHeight);
    this.lines.replaceChildren();
    for (const [d, cls] of paths) svg("path", { d, class: cls }, this.lines);
  }

  light(t) {
    this.area.querySelectorAll(".lit").forEach((e) => e.classList.remove("lit"));
    if (!t) return;
    for (const line of this.area.querySelectorAll(".nb[data-b]")) if (t.blocks.has(Number(line.dataset.b))) line.classList.add("lit");
    for (const b of t.blocks) this.nodes?.get(this.player.sv.state.nodeOf[b])?.box.classList.add("lit");
  }

  target(node) {
    const line = node.closest(".nb[data-b]");
    if (line) return { blocks: [Number(line.dataset.b)] };
    const box = node.closest(".node");
    const n = box && this.player.sv.state.nodes.get(Number(box.dataset.node));
    return n ? { blocks: n.blocks } : null;
  }
}

