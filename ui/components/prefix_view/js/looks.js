// Looks into the cache: who was let in when, what it found, and why the match ended there. What and
// why are computed in Python (core/trace/prefix_metrics.py); here they get their blocks and words.
import { Cursor } from "../../run_player/js/reducer.js";
import { num, plural } from "../../run_player/js/util.js";

// One pass over the run: the table of each newcomer after its step, with the keys of its full blocks;
// and how large the picture becomes.
export function collect(run, found) {
  const cursor = new Cursor(run);
  const looks = [];
  const size = { blocks: 0, nodes: 0, cols: 0, depths: 0 };
  let i = 0;
  for (let k = 0; k < run.steps.length; k++) {
    const state = cursor.seek(k);
    for (const e of run.steps[k].events) {
      if (e.type !== "admitted" && e.type !== "resumed") continue;
      const table = (state.tables.get(e.sequence) ?? state.seqs.get(e.sequence)?.lastTable ?? []).slice();
      looks.push({ ...found[i++], table, keys: table.map((b) => (b >= 0 && state.entry[b] ? state.entry[b].key : null)) });
    }
    size.blocks = Math.max(size.blocks, state.numCached);
    size.nodes = Math.max(size.nodes, state.nodes.size);
    for (const table of state.tables.values()) size.cols = Math.max(size.cols, table.length);
    for (const n of state.nodes.values()) {
      let d = 1;
      for (let p = n.parent; p !== null && p !== undefined; p = state.nodes.get(p)?.parent) d++;
      size.depths = Math.max(size.depths, d);
    }
  }
  return { looks, size };
}

// The newest look at or before step k, of one request or of any.
export function lookAt(looks, k, request) {
  return looks.findLast((l) => l.step <= k && (request === null || l.request === request)) ?? null;
}

const WHY = {
  limit: (l, bs) => `Every whole block before the last token was found. More cannot hit: at least one token is computed, so at most ${num(l.most_blocks)} of ${plural(Math.ceil(l.num_tokens / bs), "block")}.`,
  short: () => "It has no whole block before its last token, so there is nothing to look up.",
  empty: () => "Nothing is cached yet.",
  other_salt: () => "The next block is cached, but for another salt or adapter. Its key begins at another root, so it is not found.",
  evicted: (l) => `Block ${num(l.hit_blocks + 1)} of this prompt was cached once. It has been evicted, and what followed it is of no use.`,
  computing: () => "A running request has the next block's tokens and has yet to compute them. They can be found from the step after that on.",
  differs: (l, bs) => {
    const alike = l.differs_at - l.hit_blocks * bs;
    const lost = alike ? ` The ${plural(alike, "equal token")} before it in the same block ${alike === 1 ? "counts" : "count"} for nothing: a block matches whole or not at all.` : "";
    return `Token ${num(l.differs_at)} is the first that differs from what is cached, so the match ends at its block.${lost}`;
  },
  new: () => "Nothing is cached behind this point.",
};

export function whySentence(l, bs) {
  const more = l.why === "limit" || l.why === "short" || !l.most_blocks ? "" : ` At most ${num(l.most_blocks * bs)} could have hit: one token must always be computed.`;
  return WHY[l.why](l, bs) + more;
}

export function hitSentence(l) {
  if (!l.hit_blocks) return l.resumed ? "Nothing is left of it in the cache." : "No hit.";
  const again = l.resumed ? " It had run before, so these count as no hits." : "";
  return `${num(l.num_cached_tokens)} of ${num(l.num_tokens)} tokens are not computed again.${again}`;
}

// Tokens as one reads them. A model's tokens, bytes and the workloads' words carry their own spaces.
export function reader(info) {
  const spaced = info.header.source?.model !== "none" || Object.values(info.tokenText).some((t) => /^\s/.test(t));
  return (tokens) => {
    const words = tokens.map((t) => (spaced ? info.joint(t) : info.word(t)).replace(/^<\|(?:im_)?([^<>|]+)\|>$/, "⟨$1⟩").replace(/\n/g, "⏎").replace(/\t/g, "⇥"));
    return (spaced ? words.join("") : words.join(" ")).trim() || "␣";
  };
}

const ORDER = {
  lru: "released longest ago",
  fifo: "first cached, first out",
  lfu: "fewest hits",
};

export function policyWords(engine) {
  const by = ORDER[engine.eviction ?? "lru"];
  return engine.prefix_cache === "radix" ? `${by}, leaves only` : by;
}
