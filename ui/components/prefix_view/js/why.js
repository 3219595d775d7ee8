// "Why are you here?": a block or a node of either cache answers for itself, from the state.
import { badge } from "../../run_player/js/badge.js";
import { el, list, num, ordinal, plural, range } from "../../run_player/js/util.js";
import { evictionOrder } from "./layout.js";
import { policyWords } from "./looks.js";

function placeWords(state, b, tree) {
  const { order, before } = evictionOrder(state);
  const i = order.indexOf(b);
  const free = before ? `, after ${plural(before, "free block")}` : "";
  const leaf = tree && state.nodes.get(state.nodeOf[b])?.blocks.at(-1) !== b ? " In the tree, what follows me must go first." : "";
  return `If a block is needed, I am the ${ordinal(i + 1)} cached one to go${free}.${leaf}`;
}

export function blockAnswer(sv, b) {
  const { state, info } = sv;
  const e = state.entry[b];
  if (!e && !state.ref[b]) return "I am free: nothing that anyone could match lies here now.";
  const holders = sv.holders(b);
  if (!e) return `${holders[0][0]} needs me: I am entry ${num(holders[0][1])} of its block table. I am not full yet, so nobody else can find me.`;
  if (holders.length === 1) {
    const [id, l] = holders[0];
    return `${id} needs me: I am entry ${num(l)} of its block table and hold its tokens ${range(l * info.bs, (l + 1) * info.bs - 1)}. While it runs I cannot be evicted.`;
  }
  if (holders.length > 1) return `${num(holders.length)} sequences read me: ${list(holders.map(([id, l]) => `${id} (entry ${num(l)})`), 5)}. I was computed once. While one of them runs I cannot be evicted.`;
  const lost = e.parent_key !== null && !info.radix && !state.entry.some((x) => x?.key === e.parent_key);
  if (lost) return `Nobody can come to me: the block before me has been evicted, and a lookup ends there. I only wait to be taken. ${placeWords(state, b, false)}`;
  return `Nobody reads me now. I stay because the next prompt that begins with the same tokens need not compute them again. ${placeWords(state, b, info.radix)}`;
}

export function nodeAnswer(sv, node) {
  const { state, info } = sv;
  const lock = state.nodeLock(node);
  const kids = [...state.nodes.values()].filter((n) => n.parent === node.id);
  const ends = kids.length > 1 ? ` ${num(kids.length)} prompts part behind me, at a block boundary: that is why I end here.` : kids.length ? " Somebody read me only up to my end: that is why I end here." : " I am a leaf: my last block can go first.";
  if (lock) return `${plural(lock, "sequence")} ${lock === 1 ? "reads" : "read"} all of my ${plural(node.blocks.length, "block")}, so I am locked.${ends}`;
  return `Nobody reads me; my ${plural(node.blocks.length, "block")} can still be matched.${ends} By ${policyWords(info.engine)}.`;
}

export class Why {
  constructor(view) {
    this.view = view;
    this.root = el("section", "answer");
    this.root.setAttribute("aria-label", "Why are you here?");
  }

  draw(side, pick) {
    const node = pick?.node !== undefined ? side.sv.state.nodes.get(pick.node) : null;
    const b = pick?.b;
    if (!pick || (pick.node !== undefined && !node)) {
      const gone = pick ? `Node ${num(pick.node)} is not there in this step. ` : "";
      this.root.replaceChildren(el("p", "say muted", `${gone}Choose a block or a node: it tells you why it is there.`));
      return;
    }
    this.root.replaceChildren(...(node ? this.ofNode(side, node) : this.ofBlock(side, b)));
  }

  facts(rows) {
    const dl = el("dl", "facts");
    for (const [name, value] of rows) dl.append(el("div", "", el("dt", "", name), el("dd", "", value)));
    return dl;
  }

  ofBlock(side, b) {
    const { sv, info, read, name } = side;
    const { state } = sv;
    const e = state.entry[b];
    const head = el("h3", "", `${name}: block ${num(b)} `, ...sv.holders(b).slice(0, 4).map(([id]) => badge(info, id)), el("span", "eyebrow", "Why are you here?"));
    const rows = [["References", num(state.ref[b])]];
    const tokens = e ? e.tokens : sv.tokens(b);
    if (tokens.length) rows.unshift(["Tokens", `“${read(tokens)}”`]);
    if (e) {
      rows.push(["Hits", num(state.hits[b])], ["Last used", `step ${num(state.lastUsed(b))}`], ["Key", el("code", "", e.key)], ["Made from", e.parent_key ? el("code", "", e.parent_key) : "the root, and its tokens"]);
      if (state.nodeOf[b] >= 0) rows.push(["Node", num(state.nodeOf[b])]);
    }
    return [head, el("p", "say", blockAnswer(sv, b)), this.facts(rows)];
  }

  ofNode(side, node) {
    const { sv, info, read, name } = side;
    const { state } = sv;
    const holders = sv.holders(node.blocks[0]);
    const head = el("h3", "", `${name}: node ${num(node.id)} `, ...holders.slice(0, 4).map(([id]) => badge(info, id)), el("span", "eyebrow", "Why are you here?"));
    const rows = [
      ["Tokens", `${num(node.tokens.length)}: “${read(node.tokens.slice(0, 48))}${node.tokens.length > 48 ? " …" : ""}”`],
      ["Blocks", list(node.blocks, 12)],
      ["Lock", num(state.nodeLock(node))],
      ["Last used", `step ${num(state.nodeUsed(node))}`],
      ["Parent", node.parent === null ? "the root" : `node ${num(node.parent)}`],
    ];
    return [head, el("p", "say", nodeAnswer(sv, node)), this.facts(rows)];
  }
}
