// Small runs for the tests: an engine of four blocks of two slots.
export function makeRun(steps) {
  return {
    schema: "run/1",
    header: {
      scenario: {
        schema: "scenario/1",
        name: "sample",
        engine: { num_blocks: 4, block_size: 2, max_num_seqs: 8, max_num_batched_tokens: 64, max_model_len: 64, allocator: "paged", prefix_cache: "hash", watermark: 0.25 },
        model: "none",
        requests: [{ id: "A", n: 2 }],
      },
      label: "SIMULATED",
      source: { device: null, dtype: null, model: "none" },
      prompts: { A: [1] },
      token_text: {},
      kv_bytes_per_token: null,
    },
    steps: steps.map((s, k) => ({ step: k, scheduled: {}, timing: {}, usage: { free: 4, cached: 0, in_use: 0 }, ...s })),
  };
}

const scheduled = (sequence, n, computed) => ({ type: "scheduled", request: "A", sequence, num_scheduled_tokens: n, num_computed_tokens: computed, num_cached_tokens: 0 });
const row = (n, computed) => ({ num_scheduled_tokens: n, num_computed_tokens: computed, num_cached_tokens: 0 });
const who = (s) => ({ request: "A", sequence: s });

// One request with two answers: fork, copy, the copy fills and is cached, both end.
export function sampleRun() {
  return makeRun([
    {
      scheduled: { "A#0": row(1, 0) },
      usage: { free: 3, cached: 0, in_use: 1 },
      events: [
        { type: "request_arrived", request: "A", sequences: ["A#0", "A#1"], num_prompt_tokens: 1, position: 0 },
        { type: "admitted", ...who("A#0"), num_tokens: 1, num_cached_tokens: 0 },
        { type: "blocks_allocated", ...who("A#0"), reason: "prompt", blocks: [0] },
        scheduled("A#0", 1, 0),
        { type: "forked", ...who("A#0"), sequences: ["A#0", "A#1"], blocks: [0] },
        { type: "token_sampled", ...who("A#0"), token: 2 },
        { type: "token_sampled", ...who("A#1"), token: 3 },
      ],
    },
    {
      scheduled: { "A#0": row(1, 1), "A#1": row(1, 1) },
      usage: { free: 2, cached: 0, in_use: 2 },
      events: [
        { type: "blocks_allocated", ...who("A#0"), reason: "copy_on_write", blocks: [1] },
        { type: "block_copied", ...who("A#0"), reason: "copy_on_write", src: 0, dst: 1, index: 0, num_slots: 1 },
        scheduled("A#0", 1, 1),
        scheduled("A#1", 1, 1),
        { type: "block_cached", ...who("A#0"), blocks: [1], index: 0, keys: ["a".repeat(16)] },
      ],
    },
    { usage: { free: 2, cached: 0, in_use: 2 }, events: [{ type: "cancelled", request: "A" }] },
    {
      usage: { free: 3, cached: 1, in_use: 0 },
      events: [
        { type: "finished", ...who("A#0"), reason: "cancelled", num_output_tokens: 1 },
        { type: "blocks_freed", ...who("A#0"), reason: "cancelled", blocks: [1], to: "back" },
        { type: "finished", ...who("A#1"), reason: "cancelled", num_output_tokens: 1 },
        { type: "blocks_freed", ...who("A#1"), reason: "cancelled", blocks: [0], to: "front" },
      ],
    },
  ]);
}
