// The browser's reducer: each event on its own, and going back and forth over a whole run.
import assert from "node:assert/strict";
import test from "node:test";
import { FreeList } from "../../ui/components/run_player/js/freelist.js";
import { APPLY, reduce } from "../../ui/components/run_player/js/reducer.js";
import { RunInfo } from "../../ui/components/run_player/js/runinfo.js";
import { StepView } from "../../ui/components/run_player/js/view.js";
import { makeRun, sampleRun } from "./sample.mjs";

const KEY = (c) => c.repeat(16);

test("the free order keeps its ends and its middle", () => {
  const f = new FreeList(4);
  f.remove(1);
  assert.deepEqual(f.first(), [0, 2, 3]);
  f.pushFront(1);
  assert.deepEqual(f.first(), [1, 0, 2, 3]);
  f.remove(0);
  f.pushBack(0);
  assert.deepEqual(f.first(), [1, 2, 3, 0]);
  f.remove(2);
  f.insertBefore(2, 0);
  assert.deepEqual(f.first(2), [1, 3]);
  assert.deepEqual(f.first(), [1, 3, 2, 0]);
  assert.equal(f.remove(2) && f.remove(2), false, "a second removal does nothing");
});

test("a fresh pool is free, in the order of its ids", () => {
  const s = reduce(makeRun([{ events: [] }])).stateAt(0);
  assert.deepEqual(s.free_order, [0, 1, 2, 3]);
  assert.deepEqual(s.block_tables, {});
  assert.deepEqual(s.tree, []);
});

test("a request that is rejected leaves no outputs and no place in the queue", () => {
  const run = makeRun([{ events: [{ type: "request_arrived", request: "A", sequences: ["A"], num_prompt_tokens: 0 }, { type: "request_rejected", request: "A", reason: "empty_prompt" }] }]);
  const s = reduce(run).stateAt(0);
  assert.deepEqual(s.waiting, []);
  assert.deepEqual(s.outputs, {});
});

test("copy-on-write: the writer's entry moves, the source loses one reference", () => {
  const cursor = reduce(sampleRun());
  const before = cursor.stateAt(0);
  assert.deepEqual(before.block_tables, { "A#0": [0], "A#1": [0] });
  assert.deepEqual(before.ref_counts, { 0: 2 });
  const after = cursor.stateAt(1);
  assert.deepEqual(after.block_tables, { "A#0": [1], "A#1": [0] });
  assert.deepEqual(after.ref_counts, { 0: 1, 1: 1 });
  const note = cursor.notes[cursor.run.steps[1].events.findIndex((e) => e.type === "block_copied")];
  assert.deepEqual(note, { before: 2, after: 1 });
});

test("released blocks go where the event says, and the table is gone", () => {
  const s = reduce(sampleRun()).stateAt(3);
  assert.deepEqual(s.block_tables, {});
  assert.deepEqual(s.ref_counts, {});
  assert.deepEqual(s.free_order, [0, 2, 3, 1]);
  assert.deepEqual(s.cached, { 1: { tokens: [1, 2], key: KEY("a"), parent_key: null, last_used: 3, lock_ref: 0, hits: 0 } });
  assert.deepEqual(s.running, []);
});

test("any step can be reached from any other, and is the same each time", () => {
  const run = sampleRun();
  const straight = reduce(run);
  const states = run.steps.map((_, k) => JSON.stringify(straight.stateAt(k)));
  const wild = reduce(run);
  for (const k of [3, 0, 2, 1, 3, 2, 0, 1, 0, 3]) assert.equal(JSON.stringify(wild.stateAt(k)), states[k], `step ${k}`);
});

test("usage is counted while applying and adds up to the pool", () => {
  const cursor = reduce(sampleRun());
  for (let k = 0; k < cursor.length; k++) {
    const u = cursor.seek(k).usage;
    assert.deepEqual(u, cursor.run.steps[k].usage, `step ${k}`);
    assert.equal(u.free + u.cached + u.in_use, 4);
  }
});

test("a tree grows, splits between blocks and loses its last block first", () => {
  const run = makeRun([{ events: [] }]);
  run.header.prompts.A = [1, 2, 3, 4, 5, 6];
  const cursor = reduce(run);
  const st = cursor.state;
  const note = {};
  const ev = (e) => APPLY[e.type](st, e, note);
  st.step = 0;
  ev({ type: "request_arrived", request: "A", sequences: ["A"], num_prompt_tokens: 6, position: 0 });
  ev({ type: "admitted", sequence: "A", request: "A", num_tokens: 6, num_cached_tokens: 0 });
  ev({ type: "blocks_allocated", sequence: "A", reason: "prompt", blocks: [0, 1, 2] });
  ev({ type: "block_cached", sequence: "A", blocks: [0, 1, 2], index: 0, keys: [KEY("a"), KEY("b"), KEY("c")], node: 7, parent: -1 });
  ev({ type: "node_split", node: 7, new_parent: 8, num_blocks: 1 });
  assert.deepEqual(
    st.toJSON().tree.map((n) => [n.id, n.parent, n.blocks, n.tokens, n.lock_ref]),
    [[7, 8, [1, 2], [3, 4, 5, 6], 1], [8, null, [0], [1, 2], 1]],
  );
  assert.equal(st.entry[1].parent_key, KEY("a"));
  ev({ type: "blocks_freed", sequence: "A", reason: "finished", blocks: [2, 1, 0], to: "back" });
  ev({ type: "block_evicted", reason: "reused", blocks: [2] });
  ev({ type: "block_evicted", reason: "reused", blocks: [1] });
  assert.deepEqual(st.toJSON().tree.map((n) => n.id), [8], "an empty node disappears");
});

test("preemption puts the sequence back into the queue with its outputs", () => {
  const run = makeRun([{ events: [] }]);
  run.header.prompts.A = [1];
  const st = reduce(run).state;
  const ev = (e) => APPLY[e.type](st, e, {});
  st.step = 0;
  ev({ type: "request_arrived", request: "A", sequences: ["A"], num_prompt_tokens: 1, position: 0 });
  ev({ type: "admitted", sequence: "A", num_tokens: 1, num_cached_tokens: 0 });
  ev({ type: "blocks_allocated", sequence: "A", reason: "prompt", blocks: [0] });
  ev({ type: "token_sampled", sequence: "A", token: 9 });
  ev({ type: "preempted", sequence: "A", reason: "no_free_blocks", by: "B", num_output_tokens: 1, position: 0 });
  ev({ type: "blocks_freed", sequence: "A", reason: "preempted", blocks: [0], to: "front" });
  const s = st.toJSON();
  assert.deepEqual([s.waiting, s.running, s.outputs.A, s.block_tables], [["A"], [], [9], {}]);
  assert.equal(st.seqs.get("A").computed, 0);
});

test("what a sliding window has passed leaves the table, which keeps its length", () => {
  const run = makeRun([{ events: [] }]);
  run.header.prompts.A = [1, 2, 3, 4, 5, 6];
  run.header.sliding_window = 2;
  const st = reduce(run).state;
  const ev = (e) => APPLY[e.type](st, e, {});
  st.step = 0;
  ev({ type: "request_arrived", request: "A", sequences: ["A", "B"], num_prompt_tokens: 6, position: 0 });
  ev({ type: "admitted", sequence: "A", num_tokens: 6, num_cached_tokens: 0 });
  ev({ type: "blocks_allocated", sequence: "A", reason: "prompt", blocks: [0, 1, 2] });
  ev({ type: "block_cached", sequence: "A", blocks: [1], index: 1, keys: [KEY("b")] });
  ev({ type: "scheduled", sequence: "A", num_scheduled_tokens: 6, num_computed_tokens: 0, num_cached_tokens: 0 });
  ev({ type: "blocks_freed", sequence: "A", reason: "window", blocks: [0], to: "front", entries: [0] });
  ev({ type: "forked", sequence: "A", request: "A", sequences: ["A", "B"], blocks: [1, 2] });
  assert.deepEqual([st.tables.get("A"), st.tables.get("B")], [[-1, 1, 2], [-1, 1, 2]]);
  assert.deepEqual(st.toJSON().ref_counts, { 1: 2, 2: 2 });
  for (const [sequence, to] of [["A", "held"], ["B", "back"]]) ev({ type: "blocks_freed", sequence, reason: "window", blocks: [1], to, entries: [1] });
  assert.deepEqual(st.toJSON().block_tables, { A: [-1, -1, 2], B: [-1, -1, 2] });
  assert.deepEqual(st.toJSON().free_order, [0, 3, 1]);
  assert.deepEqual(st.usage, { free: 2, cached: 1, in_use: 1 });
  const sv = new StepView(new RunInfo(run), st, { events: [] });
  assert.deepEqual([...sv.holder], [null, null, "A", null]);
  assert.deepEqual([...sv.wrote.keys()], [2], "what was written and given back in one step is shown as what it is now");
  assert.equal(sv.slotsHeld, 2);
  ev({ type: "blocks_freed", sequence: "B", reason: "finished", blocks: [], to: "front" });
  assert.equal(st.tables.has("B"), false, "a table of such entries alone ends without a block");
});

test("a hit may start behind entries that the window does not reach", () => {
  const st = reduce(makeRun([{ events: [] }])).state;
  st.header.prompts.A = [1, 2, 3, 4, 5, 6, 7];
  APPLY.request_arrived(st, { request: "A", sequences: ["A"], num_prompt_tokens: 7, position: 0 }, {});
  APPLY.block_shared(st, { sequence: "A", cause: "hit", blocks: [3], index: 2 }, {});
  assert.deepEqual(st.tables.get("A"), [-1, -1, 3]);
  assert.equal(st.hits[3], 1);
  assert.deepEqual(st.toJSON().ref_counts, { 3: 1 });
});

test("a member of a static batch that has ended stays in running until its blocks go", () => {
  const run = makeRun([{ events: [] }]);
  run.header.prompts.A = [1];
  const st = reduce(run).state;
  const ev = (e) => APPLY[e.type](st, e, {});
  st.step = 0;
  ev({ type: "request_arrived", request: "A", sequences: ["A"], num_prompt_tokens: 1, position: 0 });
  ev({ type: "admitted", sequence: "A", num_tokens: 1, num_cached_tokens: 0 });
  ev({ type: "blocks_allocated", sequence: "A", reason: "prompt", blocks: [0] });
  ev({ type: "finished", sequence: "A", reason: "max_tokens", num_output_tokens: 1, holds: true });
  assert.deepEqual(st.toJSON().running, ["A"]);
  ev({ type: "blocks_freed", sequence: "A", reason: "finished", blocks: [0], to: "front" });
  assert.deepEqual(st.toJSON().running, []);
});
