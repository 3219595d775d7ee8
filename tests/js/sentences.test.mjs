// Every event and reason of the contract has one plain sentence.
import assert from "node:assert/strict";
import test from "node:test";
import { KIND, context, headline, routine } from "../../ui/components/run_player/js/events.js";
import { tell } from "../../ui/components/run_player/js/history.js";
import { reduce } from "../../ui/components/run_player/js/reducer.js";
import { RunInfo } from "../../ui/components/run_player/js/runinfo.js";
import { SENTENCES, code, sentence } from "../../ui/components/run_player/js/sentences.js";
import { blocks, bytes, list, num, ordinal, percent, range } from "../../ui/components/run_player/js/util.js";
import { sampleRun } from "./sample.mjs";

const who = { request: "A", sequence: "A" };
// Type → [fields, reasons or null, the name of the field that holds the reason]
const CONTRACT = {
  request_arrived: [{ request: "A", sequences: ["A"], num_prompt_tokens: 1 }],
  request_rejected: [{ request: "A", needed: 20, available: 16 }, ["empty_prompt", "prompt_too_long", "exceeds_pool", "invalid"]],
  waiting: [
    { ...who, needed: 5, available: 1 },
    ["no_free_blocks", "no_contiguous_run", "max_num_seqs", "token_budget", "watermark", "behind_head", "preemption_in_step", "batch_not_finished"],
  ],
  admitted: [{ ...who, num_tokens: 11, num_cached_tokens: 8 }],
  resumed: [{ ...who, num_tokens: 11, num_cached_tokens: 0 }],
  scheduled: [{ ...who, num_scheduled_tokens: 3, num_computed_tokens: 0, num_cached_tokens: 8 }],
  blocks_allocated: [{ ...who, blocks: [1, 2] }, ["prompt", "decode", "copy_on_write", "reserve"]],
  block_shared: [{ ...who, blocks: [4, 5], index: 0 }, ["hit", "canonical"], "cause"],
  block_cached: [{ ...who, blocks: [3], index: 0, keys: ["k"] }],
  block_uncached: [{ ...who, block: 3 }],
  block_copied: [{ ...who, reason: "copy_on_write", src: 6, dst: 7, index: 2, num_slots: 2 }],
  block_evicted: [{ blocks: [3] }, ["reused", "cache_reset"]],
  blocks_freed: [{ ...who, blocks: [3, 2], to: "back" }, ["finished", "preempted", "cancelled", "pruned", "duplicate", "window"]],
  forked: [{ ...who, sequences: ["A#0", "A#1"], blocks: [4] }],
  node_split: [{ node: 1, new_parent: 4, num_blocks: 2 }],
  pruned: [{ ...who }],
  preempted: [{ ...who, by: "B", num_output_tokens: 2, position: 0 }, ["no_free_blocks", "priority"]],
  token_sampled: [{ ...who, token: 1234567 }],
  cancelled: [{ request: "A" }],
  finished: [{ ...who, num_output_tokens: 2 }, ["stop_token", "stop_string", "max_tokens", "max_model_len", "script_end", "cancelled", "error"]],
};

const info = new RunInfo(sampleRun());

function* everyEvent() {
  for (const [type, [fields, reasons, field = "reason"]] of Object.entries(CONTRACT)) {
    for (const r of reasons ?? [null]) yield r ? { type, ...fields, [field]: r } : { type, ...fields };
  }
}

test("no event or reason of the contract is without a sentence, a title and a line of code", () => {
  for (const e of everyEvent()) {
    const of = SENTENCES[e.type];
    assert.ok(of, e.type);
    const reason = e.cause ?? e.reason;
    if (typeof of !== "function") assert.equal(typeof of[reason], "function", `${e.type} ${reason}`);
    assert.ok(KIND[e.type], `${e.type} has a title`);
    assert.ok(code(e).startsWith(e.type));
  }
  assert.deepEqual(Object.keys(SENTENCES).sort(), Object.keys(CONTRACT).sort());
});

test("sentences are plain: they begin and end properly, and hold nothing undefined", () => {
  for (const e of everyEvent()) {
    for (const note of [{}, { refs: [2, 2], before: 2, after: 1 }]) {
      const s = sentence(e, context(e, note, info));
      assert.match(s, /^[A-Z0-9].*\.$/, s);
      assert.doesNotMatch(s, /undefined|NaN|null|\[object|!|--|\s{2}/, s);
    }
  }
});

test("sentences also stand without the optional numbers", () => {
  for (const e of everyEvent()) {
    const bare = { ...e };
    for (const k of ["needed", "available", "by", "num_output_tokens"]) delete bare[k];
    assert.doesNotMatch(sentence(bare, context(bare, {}, info)), /undefined|NaN|null/);
  }
});

test("every place a released block can go to is told", () => {
  for (const to of ["front", "back", "before", "held"]) {
    const s = sentence({ type: "blocks_freed", ...who, reason: "finished", blocks: [3], to, before: [-1] }, context({}, {}, info));
    assert.doesNotMatch(s, /undefined/);
    assert.ok(s.includes("block 3"));
  }
});

test("a sliding window is told with its width, and what it passed needs no block", () => {
  const run = sampleRun();
  run.header.sliding_window = 3;
  const wide = new RunInfo(run);
  const say = (e) => sentence(e, context(e, {}, wide));
  const freed = { type: "blocks_freed", ...who, reason: "window", blocks: [3, 2], entries: [1, 0] };
  assert.match(say({ ...freed, to: "back" }), /^The model sees only the last 3 tokens, and A has moved on: blocks 3 and 2 go to the back/);
  assert.match(say({ ...freed, to: "held" }), /and A has moved on: it lets go of blocks 3 and 2, which others still hold\.$/);
  assert.match(say({ type: "blocks_freed", ...who, reason: "finished", blocks: [], to: "front" }), /^A has ended\. It holds no block any more/);
  run.header.scenario.engine.kv_cache = false;
  const uncached = { type: "blocks_freed", ...who, reason: "finished", blocks: [], to: "front" };
  assert.match(sentence(uncached, context(uncached, {}, new RunInfo(run))), /there is no KV cache\.$/);
  assert.match(say({ type: "block_shared", ...who, cause: "hit", blocks: [4, 5], index: 3 }), /instead of computing 10 tokens again\. The 3 entries before them can stay empty/);
  assert.equal(wide.passed("A", 1), "Entry 1 of A names no block: the model sees only the last 3 tokens, and tokens 2–3 lie before them.");
  assert.match(tell({ ...freed, to: "back" }, 3), /^A sees me no more; I go to the back/);
});

test("an ended member of a static batch says that its blocks stay", () => {
  const e = { type: "finished", ...who, reason: "max_tokens", num_output_tokens: 2, holds: true };
  assert.match(sentence(e, context(e, {}, info)), /stay held/);
});

test("numbers are written for people", () => {
  assert.equal(num(1234567), "1,234,567");
  assert.equal(num(-3), "−3");
  assert.equal(range(2, 5), "2–5");
  assert.equal(percent(1, 3), "33\u2009%");
  assert.equal(bytes(92160), "92,160 B (90 KiB)");
  assert.equal([1, 2, 3, 4, 11, 12, 13, 21, 102, 111].map(ordinal).join(" "), "1st 2nd 3rd 4th 11th 12th 13th 21st 102nd 111th");
  assert.equal(list(["a", "b", "c"]), "a, b and c");
  assert.equal(blocks([4]), "block 4");
  assert.equal(blocks([4, 5, 6, 9]), "blocks 4–6 and 9");
  assert.equal(blocks([9, 8, 7, 1]), "blocks 9–7 and 1");
});

test("each step of a run has a headline, and each block a history", () => {
  const run = sampleRun();
  const cursor = reduce(run);
  for (let k = 0; k < run.steps.length; k++) {
    cursor.seek(k);
    const h = headline(run.steps[k], cursor.notes, info);
    assert.ok(h.title && h.text);
    for (const e of run.steps[k].events) for (const b of e.blocks ?? []) assert.doesNotMatch(tell(e, b) ?? "", /undefined/);
  }
  cursor.seek(1);
  assert.equal(headline(run.steps[1], cursor.notes, info).title, "Copy-on-write");
  assert.match(headline(run.steps[1], cursor.notes, info).text, /References to 0: 2 → 1\./);
  assert.match(routine("scheduled", run.steps[1].events.filter((e) => e.type === "scheduled"), info), /2 sequences compute 2 tokens/);
  assert.match(routine("scheduled", [{ sequence: "A", num_scheduled_tokens: 3 }], info), /^1 sequence computes 3 tokens: A 3\.$/);
  assert.match(routine("token_sampled", [{ sequence: "A", token: 7 }], info), /^1 sequence samples one token: A /);
});

test("a fork off a running sequence is told apart, and so are the reasons why there can be none", () => {
  const forked = { type: "forked", request: "B", sequence: "A#1", sequences: ["A#1", "B"], blocks: [4, 5], copies_outputs: true, position: 2 };
  assert.match(sentence(forked, context(forked, {}, info)), /^B forks off A#1: .* both tables name blocks 4 and 5\.$/);
  assert.match(tell(forked, 4), /^B forks off A#1/);
  const refused = (fields) => {
    const e = { type: "request_rejected", request: "B", reason: "invalid", ...fields };
    return sentence(e, context(e, {}, info));
  };
  assert.match(refused({}), /to fork off/);
  assert.match(refused({ needed: 1, available: 0 }), /8 sequences run already/);
  assert.match(refused({ needed: 9, available: 8 }), /asks for 9 sequences/);
});
