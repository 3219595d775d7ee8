// What happened to each block, found once for the whole run: block → [[step, event, index], …].
import { num } from "./util.js";

export class History {
  constructor(run) {
    this.of = new Map();
    run.steps.forEach((s) => {
      for (const e of s.events) {
        for (const b of e.blocks ?? []) this.add(b, s.step, e);
        if (e.type === "block_copied") {
          this.add(e.src, s.step, e);
          this.add(e.dst, s.step, e);
        } else if (e.type === "block_uncached") this.add(e.block, s.step, e);
      }
    });
  }

  add(b, k, e) {
    if (!this.of.has(b)) this.of.set(b, []);
    this.of.get(b).push([k, e]);
  }

  // The latest first, up to step k, each in the block's own words.
  until(b, k, limit = 24) {
    const out = [];
    const all = this.of.get(b) ?? [];
    for (let i = all.length - 1; i >= 0 && out.length < limit; i--) {
      if (all[i][0] > k) continue;
      const t = tell(all[i][1], b);
      if (t) out.push([all[i][0], t]);
    }
    return out;
  }
}

const TAKEN = { prompt: "for tokens it has to compute", decode: "for its next tokens", copy_on_write: "for its own copy", reserve: "with its reserve" };
const FREED = { finished: "has ended", preempted: "gives way", cancelled: "was cancelled", pruned: "was pruned", duplicate: "reads the same tokens elsewhere", window: "sees me no more" };

export function tell(e, b) {
  switch (e.type) {
    case "blocks_allocated":
      return `Taken by ${e.sequence}, ${TAKEN[e.reason] ?? ""}.`;
    case "block_shared":
      return e.cause === "hit" ? `${e.sequence} finds its prefix here.` : `${e.sequence} computed the same and reads me now.`;
    case "block_copied":
      return e.dst === b ? `Copied from block ${num(e.src)}, so that ${e.sequence} can write.` : `Copied to block ${num(e.dst)}; ${e.sequence} leaves me.`;
    case "block_cached":
      return "Full, so others can match me.";
    case "block_uncached":
      return "About to be written, so I can be matched no more.";
    case "block_evicted":
      return e.reason === "cache_reset" ? "The cache was emptied." : "My tokens are forgotten; I am needed again.";
    case "blocks_freed":
      return e.to === "held" ? `${e.sequence} ${FREED[e.reason]}; others still read me.` : `${e.sequence} ${FREED[e.reason]}; I go to the ${e.to === "front" ? "front" : e.to === "back" ? "back" : "my place"} of the free order.`.replace("the my", "my");
    case "forked":
      if (e.position !== undefined) return `${e.request} forks off ${e.sequence}: both tables name me.`;
      return `${e.request} forks: ${num(e.sequences.length)} tables name me.`;
    default:
      return null;
  }
}

