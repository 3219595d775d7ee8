// "Why are you here?": the selected block answers for itself.
import { badge } from "./badge.js";
import { History } from "./history.js";
import { button, bytes, el, list, num, plural, range } from "./util.js";

function order(place) {
  if (place <= 0) return "I am the next block to be taken.";
  return `${plural(place, "block goes", "blocks go")} before me.`;
}

export function answer(sv, b) {
  const { info, state } = sv;
  const { bs } = info;
  const fill = sv.fill[b];
  const open = bs - fill;
  const kind = sv.kind(b);
  if (kind === "free") return `I am free and hold nothing that anyone could match. ${order(sv.place(b))}`;
  if (kind === "idle") {
    const node = state.nodes.get(state.nodeOf[b]);
    const last = node && node.blocks[node.blocks.length - 1] === b;
    const tree = node && !last ? " In the tree, the blocks after me must go first." : "";
    return `Nobody reads me, but my tokens can still be matched, so I am kept. ${order(sv.place(b))}${tree}`;
  }
  const h = sv.holders(b);
  const [id, l] = h[0];
  const from = l * bs;
  if (h.length > 1) {
    const who = list(h.map(([s, i]) => `${s} (entry ${num(i)})`), 5);
    return `${num(h.length)} sequences read me: ${who}. I hold tokens ${range(from, from + fill - 1)} of each, stored once. ${open > 0 ? "The next of them to write gets a copy." : "I am full, so nobody will write here."}`;
  }
  const s = state.seqs.get(id);
  if (s.status === "held") return `${id} has ended, but its static batch has not, so I stay entry ${num(l)} of its table and nobody else can use me.`;
  if (!fill) return `${id} has reserved me as entry ${num(l)} of its table. None of my ${num(bs)} slots is filled yet, and nobody else can use them.`;
  const tail = open > 0 ? `, and ${plural(open, "slot is", "slots are")} still empty` : "";
  return `${id} needs me: I am entry ${num(l)} of its block table. I hold its ${fill === 1 ? "token" : "tokens"} ${range(from, from + fill - 1)}${tail}. I stay until it ends or gives way${info.window === null || info.radix || info.contiguous ? "" : ", or the sliding window has passed me"}.`;
}

export class Inspector {
  constructor(player) {
    this.player = player;
    this.root = el("section", "insp");
    this.root.setAttribute("aria-label", "Why are you here?");
    this.root.tabIndex = 0; // it scrolls, so it must be reachable
  }

  load(info) {
    this.info = info;
    this.history = null;
  }

  draw(sv, b) {
    if (b === null || b === undefined) {
      this.root.replaceChildren(el("p", "say muted", "Choose a block, and it will tell you why it is there."));
      return;
    }
    this.history ??= new History(this.info.run);
    this.root.replaceChildren(...this.content(sv, b));
  }

  // A node of the prefix tree, as long as it is there.
  drawNode(sv, id) {
    const { state, info } = sv;
    const node = state.nodes.get(id);
    const head = el("h3", "", "Node ", el("span", "no", num(id)), el("span", "eyebrow", "Prefix tree"));
    if (!node) {
      this.root.replaceChildren(head, el("p", "say", "I am not in the tree after this step."));
      return;
    }
    const lock = state.nodeLock(node);
    const kids = [...state.nodes.values()].filter((n) => n.parent === id);
    const last = kids.length ? "My last block cannot be evicted before my children are gone." : "I have no children, so my last block is the first that can be evicted here.";
    const said = lock ? `${plural(lock, "sequence reads", "sequences read")} me, so none of my blocks can be evicted.` : `Nobody reads me now. ${last}`;
    const dl = el("dl");
    const row = (name, value) => dl.append(el("dt", "", name), el("dd", "", value));
    row("Tokens", `${num(node.tokens.length)}: ${info.quote(node.tokens.slice(0, 48))}${node.tokens.length > 48 ? " …" : ""}`);
    row("Blocks", this.links(node.blocks));
    row("References", list(node.blocks.slice(0, 8).map((b) => state.ref[b]), 8) + (node.blocks.length > 8 ? " …" : ""));
    row("Lock", num(lock));
    row("Last used", `in step ${num(state.nodeUsed(node))}`);
    row("Parent", node.parent === null ? "root" : this.nodeLink(node.parent));
    row("Children", kids.length ? el("span", "", ...kids.slice(0, 8).flatMap((n, i) => [i ? ", " : "", this.nodeLink(n.id)]), kids.length > 8 ? ` and ${num(kids.length - 8)} more` : "") : "none");
    this.root.replaceChildren(head, el("p", "say", said), dl);
  }

  nodeLink(id) {
    const go = button("steplink", null, `node ${num(id)}`);
    go.onclick = () => this.player.selectNode(id);
    return go;
  }

  links(ids) {
    const all = el("span", "", `${num(ids.length)}: `);
    ids.slice(0, 12).forEach((b, i) => {
      const go = button("steplink", `Block ${num(b)}`, num(b));
      go.onclick = () => this.player.select(b);
      all.append(...(i ? [", "] : []), go);
    });
    if (ids.length > 12) all.append(` and ${num(ids.length - 12)} more`);
    return all;
  }

  content(sv, b) {
    const { info } = this;
    const { state } = sv;
    const head = el("h3", "", "Block ", el("span", "no", num(b)));
    const holders = sv.holders(b);
    holders.slice(0, 4).forEach(([s]) => head.append(badge(info, s)));
    if (holders.length > 4) head.append(el("span", "plus", `+${num(holders.length - 4)}`));
    head.append(el("span", "eyebrow", "Why are you here?"));
    const dl = el("dl");
    const row = (name, value) => dl.append(el("dt", "", name), el("dd", "", value));
    row("References", plural(state.ref[b], "table entry", "table entries"));
    row("Slots", `${num(state.ref[b] ? sv.fill[b] : state.entry[b] ? info.bs : 0)} of ${num(info.bs)} filled`);
    const tokens = info.bs <= 32 && sv.kind(b) !== "free" ? sv.tokens(b) : [];
    if (tokens.length) row("Tokens", info.quote(tokens));
    row("Key", this.key(sv, b));
    if (info.radix && state.nodeOf[b] >= 0) row("Tree", `node ${num(state.nodeOf[b])}, block ${num(state.nodes.get(state.nodeOf[b]).blocks.indexOf(b) + 1)} of ${num(state.nodes.get(state.nodeOf[b]).blocks.length)}`);
    if (state.entry[b]) row("Hits", `${num(state.hits[b])}, last used in step ${num(state.lastUsed(b))}`);
    row("Size", this.size());
    const past = el("ol", "hist");
    for (const [k, t] of this.history.until(b, sv.k)) {
      const go = button("steplink", `Go to step ${k}`, `step ${num(k)}`);
      go.onclick = () => this.player.jumpTo(k);
      past.append(el("li", "", go, el("span", "", t)));
    }
    const out = [head, el("p", "say", answer(sv, b)), dl];
    if (past.children.length) out.push(past);
    return out;
  }

  // The key, and the chain of blocks behind it as far as it can be followed.
  key(sv, b) {
    const { state } = sv;
    const e = state.entry[b];
    if (!this.info.cacheOn) return "none: the cache is off";
    if (!e) return sv.kind(b) === "used" ? "none yet, not full" : "none";
    const node = el("span", "", el("code", "", `${e.key.slice(0, 8)}…`), e.parent_key ? " after " : " first of its chain");
    node.dataset.tip = `Key ${e.key}${e.parent_key ? `, made from the key before it, ${e.parent_key},` : ", made"} and the ${plural(this.info.bs, "token")} in the block.`;
    if (e.parent_key) {
      const p = this.parent(sv, b, e.parent_key);
      if (p === null) node.append(el("code", "", `${e.parent_key.slice(0, 8)}…`), ", which is gone");
      else {
        const go = button("steplink", null, `block ${num(p)}`);
        go.onclick = () => this.player.select(p);
        node.append(go);
      }
    }
    return node;
  }

  // The block that holds the parent key: the entry before it in the table, or one found by its key.
  parent(sv, b, key) {
    const { state } = sv;
    const id = sv.holder[b];
    if (id !== null) {
      const before = state.tables.get(id)[sv.entry[b] - 1];
      if (before !== undefined && state.entry[before]?.key === key) return before;
    }
    for (let x = 0; x < this.info.n; x++) if (state.entry[x]?.key === key) return x;
    return null;
  }

  size() {
    const { bytesPerToken, bs } = this.info;
    if (!bytesPerToken) return `${plural(bs, "slot")}; without a model a slot has no size`;
    const v = el("span", "val", bytes(bytesPerToken * bs));
    v.tabIndex = 0;
    v.dataset.tip = `${num(bs)} slots × ${num(bytesPerToken)} B a token = ${num(bytesPerToken * bs)} B: keys and values of all layers, whole model.`;
    return v;
  }
}
