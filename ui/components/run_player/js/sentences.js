// One plain sentence for every event and reason: what happened, to whom, with its numbers.
// `e` is the event, `c` its context: {engine, info, note}; `note` holds counts as they were at that
// moment (see reducer.js). Every sentence stands on its own.
import { blocks, cap, list, num, plural } from "./util.js";

const who = (e) => e.sequence ?? e.request ?? "The sequence";
const them = (ids) => (ids.length === 1 ? "it" : "them");
const are = (n) => (n === 1 ? "is" : "are");
const bs = (c) => c.engine.block_size;

const free = (n) => (n === undefined ? "too few are" : n <= 0 ? "none is" : n === 1 ? "only 1 is" : `only ${num(n)} are`);

export const WAITING = {
  no_free_blocks: (e) =>
    `it needs ${e.needed === undefined ? "more blocks" : plural(e.needed, "more block")} for all its tokens and ${free(e.available)} free to give.`,
  no_contiguous_run: (e) =>
    `its reserve needs ${plural(e.needed ?? 0, "block")} in one unbroken row, and the longest free row has ${num(Math.max(0, e.available ?? 0))}.`,
  max_num_seqs: (e, c) => `no more than ${plural(c.engine.max_num_seqs, "sequence")} may run at once, and ${e.needed > 1 ? `it asks for ${num(e.needed)} places` : "every place is taken"}.`,
  token_budget: (e, c) =>
    e.needed > 1 && e.available > 0
      ? `all ${num(e.needed)} tokens it lacks must fit this step at once, and ${num(e.available)} of the budget of ${num(c.engine.max_num_batched_tokens)} are left.`
      : `this step’s budget of ${plural(c.engine.max_num_batched_tokens, "token")} is spent.`,
  watermark: (e, c) => {
    const kept = Math.ceil(c.engine.watermark * c.engine.num_blocks - 1e-9);
    return `${e.needed === undefined ? "it" : `${plural(e.needed, "block")}`} would fit, but while others run ${plural(kept, "block")} ${are(kept)} kept free for them.`;
  },
  behind_head: () => "the one at the head of the queue cannot be let in yet, and nobody overtakes it.",
  preemption_in_step: () => "a sequence lost its blocks in this step, so nothing new is let in.",
  batch_not_finished: () => "a static batch takes no newcomer until its last member has ended.",
};

const REJECTED = {
  empty_prompt: (e) => `${who(e)} is refused: its prompt is empty, so there is nothing to compute.`,
  prompt_too_long: (e, c) =>
    `${who(e)} is refused: its prompt${c.prompt ? ` of ${plural(c.prompt, "token")}` : ""} leaves no room for an answer within ${plural(c.engine.max_model_len, "token")} (max_model_len).`,
  exceeds_pool: (e) => `${who(e)} is refused: at its longest it needs ${plural(e.needed ?? 0, "block")} and the whole pool has ${num(e.available ?? 0)}. It could never finish.`,
  invalid: (e, c) => {
    if (e.needed === undefined) return `${who(e)} is refused: what it is to fork off does not run with a token of its own, or has as many already as this one may have.`;
    if (e.available === 0) return `${who(e)} is refused: ${plural(c.engine.max_num_seqs, "sequence")} run already, as many as may (max_num_seqs), and a fork cannot wait.`;
    return `${who(e)} is refused: it asks for ${plural(e.needed, "sequence")} at once and no more than ${num(e.available ?? c.engine.max_num_seqs)} may run.`;
  },
};

const ALLOCATED = {
  prompt: (e) => `${who(e)} takes ${blocks(e.blocks)} from the front of the free order for the tokens it has to compute.`,
  decode: (e) => `${who(e)} has no empty slot left and takes ${blocks(e.blocks)} for its next ${e.blocks.length === 1 ? "tokens" : "blocks of tokens"}.`,
  copy_on_write: (e) => `${who(e)} takes ${blocks(e.blocks)} to hold its own copy of a block that it shares.`,
  reserve: (e, c) =>
    `${who(e)} reserves ${blocks(e.blocks)} in one row, ${plural(e.blocks.length * bs(c), "slot")} in all, before it is known how many it will fill.`,
};

const EVICTED = {
  reused: (e) => `${cap(blocks(e.blocks))} ${are(e.blocks.length)} needed for new tokens. What ${e.blocks.length === 1 ? "it" : "they"} cached is forgotten first.`,
  cache_reset: (e) => `The cache is emptied: what ${blocks(e.blocks)} held can no longer be matched.`,
};

const WHY_FREED = { finished: "has ended", preempted: "gives way", cancelled: "was cancelled", pruned: "was pruned" };

const TO = {
  front: (e, n) => `${n} the front of the free order, to be taken first, because ${e.blocks.length === 1 ? "its" : "their"} contents cannot be matched`,
  back: (e, n) => `${n} the back of the free order, still matchable until ${e.blocks.length === 1 ? "it is" : "they are"} taken`,
  before: (e, n) => `${n} ${e.blocks.length === 1 ? "its" : "their"} place in the free order`,
};

function movedOn(e, c) {
  const width = c.info?.window;
  return `The model sees only the last ${width ? plural(width, "token") : "tokens"}, and ${who(e)} has moved on`;
}

function freed(e, c) {
  if (e.reason === "duplicate") {
    return `${cap(blocks(e.blocks))} ${are(e.blocks.length)} given back: ${who(e)} computed what another block already holds, and reads that one now.`;
  }
  if (!e.blocks.length) {
    const none = c.engine.kv_cache === false ? "It holds no block: there is no KV cache" : "It holds no block any more: the sliding window has passed them all";
    return `${who(e)} ${WHY_FREED[e.reason] ?? "lets go"}. ${none}.`;
  }
  const why = e.reason === "window" ? movedOn(e, c) : `${who(e)} ${WHY_FREED[e.reason] ?? "lets go"}`;
  if (e.to === "held") return `${why}${e.reason === "window" ? ": it" : " and"} lets go of ${blocks(e.blocks)}, which others still hold.`;
  return `${why}: ${(TO[e.to] ?? TO.before)(e, `${blocks(e.blocks)} ${e.blocks.length === 1 ? "goes" : "go"} to`)}.`;
}

const FINISHED = {
  stop_token: (e, n) => `${who(e)} ends after ${n}: it sampled a stop token.`,
  stop_string: (e, n) => `${who(e)} ends after ${n}: its text contains a stop string.`,
  max_tokens: (e, n) => `${who(e)} ends after ${n}, as many as it asked for. The last one is never computed, so it needs no slot.`,
  max_model_len: (e, n, c) => `${who(e)} ends after ${n}: with its prompt it has reached ${plural(c.engine.max_model_len, "token")}, the longest a sequence may be.`,
  script_end: (e, n) => `${who(e)} ends after ${n}: its script has no more.`,
  cancelled: (e, n) => `${who(e)} ends after ${n}: its request was cancelled.`,
  error: (e, n) => `${who(e)} ends after ${n} because of an error.`,
};

const again = (c) => (c.info?.cacheOn === false ? "all its keys and values are computed again later" : "what the cache has lost by then is computed again");

const PREEMPTED = {
  no_free_blocks: (e, n, c) =>
    `${e.by === e.sequence ? `${who(e)} needs a block and none is free. It was admitted last, so it gives way itself` : `${e.by ?? "Another"} needs a block and none is free. ${who(e)} was admitted last, so it gives way`}: it keeps ${n}; ${again(c)}.`,
  priority: (e, n, c) =>
    `${e.by === e.sequence ? `${who(e)} needs a block and none is free. It is the least urgent, so it gives way itself` : `${e.by ?? "Another"} needs a block and none is free. ${who(e)} is the least urgent, so it gives way`}: it keeps ${n}; ${again(c)}.`,
};

const refsNow = (refs) => (new Set(refs).size === 1 ? num(refs[0]) + (refs.length > 1 ? " each" : "") : list(refs));

function admitted(e) {
  const verb = e.type === "resumed" ? "is back" : "is let in";
  const rest = e.num_tokens - e.num_cached_tokens;
  return e.num_cached_tokens
    ? `${who(e)} ${verb}. ${num(e.num_cached_tokens)} of its ${num(e.num_tokens)} tokens were found in the cache; ${num(rest)} remain to be computed.`
    : `${who(e)} ${verb}. Nothing of it was found in the cache, so all ${plural(e.num_tokens, "token")} must be computed.`;
}

export const SENTENCES = {
  request_arrived: (e) =>
    `${e.request} arrives with ${plural(e.num_prompt_tokens, "prompt token")}${e.sequences?.length > 1 ? ` and asks for ${num(e.sequences.length)} answers` : ""}.`,
  request_rejected: REJECTED,
  waiting: Object.fromEntries(Object.entries(WAITING).map(([k, f]) => [k, (e, c) => `${who(e)} waits: ${f(e, c)}`])),
  admitted: (e, c) => (c.info?.cacheOn === false ? `${who(e)} ${e.type === "resumed" ? "is back" : "is let in"} with ${plural(e.num_tokens, "token")} to compute.` : admitted(e)),
  resumed: (e, c) => SENTENCES.admitted(e, c),
  scheduled: (e) => {
    const from = e.num_computed_tokens + e.num_cached_tokens;
    const to = from + e.num_scheduled_tokens - 1;
    return `${who(e)} computes ${from === to ? `token ${num(from)}` : `tokens ${num(from)}–${num(to)}`} in this step.`;
  },
  blocks_allocated: ALLOCATED,
  block_shared: {
    hit: (e, c) =>
      `${who(e)} reads ${blocks(e.blocks)} instead of computing ${plural((e.index + e.blocks.length) * bs(c), "token")} again.${e.index ? ` The ${e.index === 1 ? "entry" : `${num(e.index)} entries`} before ${e.blocks.length === 1 ? "it" : "them"} can stay empty: the sliding window does not reach that far.` : ""}${c.note?.refs ? ` References now: ${refsNow(c.note.refs)}.` : ""}`,
    canonical: (e, c) =>
      `${who(e)} computed the same tokens as ${blocks(e.blocks)}, so its table now names ${them(e.blocks)}.${c.note?.refs ? ` References now: ${refsNow(c.note.refs)}.` : ""}`,
  },
  block_copied: (e, c) => {
    const size = c.info?.bytesPerToken ? `, ${num(e.num_slots * c.info.bytesPerToken)} B` : "";
    const refs = c.note?.before ? ` References to ${num(e.src)}: ${num(c.note.before)} → ${num(c.note.after)}.` : "";
    return `${who(e)} must write into block ${num(e.src)}, which ${c.note?.before === 2 ? "another holds" : "others hold"} too. Only that block is copied, ${num(e.src)} → ${num(e.dst)}: ${plural(e.num_slots, "slot")}${size}.${refs}`;
  },
  block_cached: (e) => `${cap(blocks(e.blocks))} of ${who(e)} ${are(e.blocks.length)} full and can now be matched by others.`,
  block_uncached: (e) => `Block ${num(e.block)} is about to be written, so it can be matched no more.`,
  block_evicted: EVICTED,
  blocks_freed: { finished: freed, preempted: freed, cancelled: freed, pruned: freed, duplicate: freed, window: freed },
  forked: (e) => {
    const n = e.sequences.length;
    if (e.position !== undefined) return `${e.request} forks off ${e.sequence}: it starts with the same tokens. No block is copied: both tables name ${blocks(e.blocks ?? [])}.`;
    if (e.copies_outputs) return `${e.sequence} goes on in ${num(n)} ways: ${list(e.sequences)}. No block is copied: ${n === 2 ? "both" : `all ${num(n)}`} tables name ${blocks(e.blocks ?? [])}.`;
    return `${e.request} forks into ${list(e.sequences)}. No block is copied: ${n === 2 ? "both" : `all ${num(n)}`} tables name ${blocks(e.blocks ?? [])}.`;
  },
  node_split: (e) => `Node ${num(e.node)} is split after ${plural(e.num_blocks, "block")}: another sequence reads it only up to there. The first part is now node ${num(e.new_parent)}.`,
  preempted: Object.fromEntries(
    Object.entries(PREEMPTED).map(([k, f]) => [k, (e, c) => f(e, e.num_output_tokens ? `its ${plural(e.num_output_tokens, "output token")}` : "its prompt", c)]),
  ),
  token_sampled: (e, c) => `${who(e)} samples ${c.info ? c.info.quote([e.token]) : num(e.token)}.${c.info && !c.info.keepsKV ? "" : " It has no slot until it is computed."}`,
  pruned: (e) => `${who(e)} is pruned: better beams have taken its place.`,
  cancelled: (e) => `${e.request} is cancelled. What of it has not ended, ends now.`,
  finished: Object.fromEntries(
    Object.entries(FINISHED).map(([k, f]) => [
      k,
      (e, c) =>
        f(e, e.num_output_tokens === undefined ? "its output" : plural(e.num_output_tokens, "output token"), c) +
        (e.holds ? " Its blocks stay held until the whole static batch has ended." : ""),
    ]),
  ),
};

export function sentence(e, c) {
  const of = SENTENCES[e.type];
  if (typeof of === "function") return of(e, c);
  const f = of?.[e.reason ?? e.cause];
  return f ? f(e, c) : `${who(e)}: ${e.type.replaceAll("_", " ")}${e.reason ? ` (${e.reason})` : ""}.`;
}

// The line under the sentence: the event as the engine names it.
export function code(e) {
  const parts = [e.type];
  if (e.reason) parts.push(`reason ${e.reason}`);
  if (e.cause) parts.push(`cause ${e.cause}`);
  if (e.to && e.to !== "held") parts.push(`to ${e.to}`);
  return parts.join(", ");
}

