// The prefix cache's instrument without a browser: layouts, sentences, links, files.
import assert from "node:assert/strict";
import test from "node:test";
import { csv } from "../../ui/components/prefix_view/js/facts.js";
import { chainLayout, CARD, levelFor, NODE, treeLayout } from "../../ui/components/prefix_view/js/layout.js";
import { hitSentence, lookAt, policyWords, reader, whySentence } from "../../ui/components/prefix_view/js/looks.js";
import { RunInfo } from "../../ui/components/run_player/js/runinfo.js";
import { parsePick, pickText } from "../../ui/components/prefix_view/js/prefixview.js";
import { blockAnswer, nodeAnswer } from "../../ui/components/prefix_view/js/why.js";

// A state with these cached blocks: [block, key, parent key], and these nodes: [id, parent, blocks].
function stateOf(entries, nodes = []) {
  const n = 1 + Math.max(0, ...entries.map(([b]) => b));
  const state = { n, entry: new Array(n).fill(null), nodeOf: new Array(n).fill(-1), ref: new Array(n).fill(0), nodes: new Map() };
  for (const [b, key, parent_key] of entries) state.entry[b] = { key, parent_key, tokens: [b] };
  for (const [id, parent, blocks] of nodes) {
    state.nodes.set(id, { id, parent, blocks, tokens: blocks });
    for (const b of blocks) state.nodeOf[b] = id;
  }
  return state;
}

const orderOf = (...keys) => new Map(keys.map((k, i) => [k, i]));

test("the chain: depth to the right, each other child a row below", () => {
  const state = stateOf([[0, "a", null], [1, "b", "a"], [2, "c", "b"], [3, "d", "b"], [4, "x", null]]);
  const { cells, cols, rows } = chainLayout(state, orderOf("a", "b", "c", "d", "x"));
  assert.deepEqual(cells.map((c) => [c.b, c.parent, c.col, c.row]), [[0, null, 0, 0], [1, 0, 1, 0], [2, 1, 2, 0], [3, 1, 2, 1], [4, null, 0, 2]]);
  assert.deepEqual([cols, rows], [3, 3]);
});

test("a block whose parent is gone stands last and says so; two under one key stand side by side", () => {
  const state = stateOf([[0, "a", null], [1, "a", null], [2, "b", "a"], [3, "z", "gone"]]);
  const { cells } = chainLayout(state, orderOf("z", "a", "b"));
  assert.deepEqual(cells.map((c) => [c.b, c.parent, c.row, c.lost]), [[0, null, 0, false], [2, 0, 0, false], [1, null, 1, false], [3, null, 2, true]]);
  assert.equal(cells.at(-1).col, 1);
});

const overlap = (a, b) => a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;

test("no two boxes of a tree lie on each other, at any level, also with hundreds of nodes", () => {
  const entries = [];
  const nodes = [];
  let block = 0;
  let seed = 7;
  const random = (n) => (seed = (seed * 48271) % 2147483647) % n;
  for (let id = 0; id < 240; id++) {
    const parent = id && random(4) ? random(id) : null;
    const blocks = Array.from({ length: 1 + random(9) }, () => block++);
    blocks.forEach((b, i) => entries.push([b, `k${b}`, i ? `k${blocks[i - 1]}` : null]));
    nodes.push([id, parent, blocks]);
  }
  const state = stateOf(entries, nodes);
  const order = new Map(entries.map(([, key], i) => [key, i]));
  for (const level of [0, 1, 2]) {
    const layout = treeLayout(state, order, level);
    assert.equal(layout.nodes.length, 240);
    layout.nodes.forEach((a, i) => layout.nodes.slice(i + 1).forEach((b) => assert.ok(!overlap(a, b), `${a.id} and ${b.id} at level ${level}`)));
    for (const n of layout.nodes) if (n.parent !== null) assert.ok(n.x > layout.nodes.find((p) => p.id === n.parent).x);
  }
});

test("a folded node hides what is below it, and says how much", () => {
  const state = stateOf([[0, "a", null], [1, "b", "a"], [2, "c", "b"], [3, "d", "a"]], [[0, null, [0]], [1, 0, [1]], [2, 1, [2]], [3, 0, [3]]]);
  const order = orderOf("a", "b", "c", "d");
  assert.deepEqual(treeLayout(state, order, 0, new Set([0])).nodes.map((n) => [n.id, n.hidden]), [[0, 3]]);
  assert.deepEqual(treeLayout(state, order, 0, new Set([1])).nodes.map((n) => [n.id, n.hidden]), [[0, 0], [1, 1], [3, 0]]);
});

test("a first child stands beside its parent", () => {
  const state = stateOf([[0, "a", null], [1, "b", "a"], [2, "c", "a"], [3, "d", null]], [[0, null, [0]], [1, 0, [1]], [2, 0, [2]], [3, null, [3]]]);
  const at = new Map(treeLayout(state, orderOf("a", "b", "c", "d")).nodes.map((n) => [n.id, n]));
  assert.equal(at.get(1).y, at.get(0).y);
  assert.ok(at.get(2).y > at.get(1).y && at.get(3).y > at.get(2).y);
  assert.equal(at.get(3).x, at.get(0).x);
});

test("a small picture is shown in full, a large one in marks", () => {
  assert.equal(levelFor(4, 10, 540, CARD, [40, 260]), 0);
  assert.equal(levelFor(6, 100, 540, CARD, [40, 260]), 1);
  assert.equal(levelFor(6, 400, 540, CARD, [40, 260]), 2);
  assert.equal(levelFor(60, 30, 540, NODE, [24, 120]), 2);
});

test("where a match ends and why, in words", () => {
  const look = { step: 4, request: "B", num_tokens: 32, num_cached_tokens: 4, hit_blocks: 1, most_blocks: 7, why: "differs", differs_at: 6 };
  assert.equal(hitSentence(look), "4 of 32 tokens are not computed again.");
  assert.equal(hitSentence({ ...look, hit_blocks: 0 }), "No hit.");
  assert.match(hitSentence({ ...look, resumed: true }), /not computed again\. It had run before, so these count as no hits\.$/);
  assert.equal(hitSentence({ ...look, resumed: true, hit_blocks: 0 }), "Nothing is left of it in the cache.");
  assert.match(whySentence(look, 4), /^Token 6 is the first that differs .* The 2 equal tokens before it .* At most 28 could have hit/);
  assert.match(whySentence({ ...look, differs_at: 4 }, 4), /ends at its block\. At most/);
  assert.match(whySentence({ ...look, hit_blocks: 7, why: "limit" }, 4), /at most 7 of 8 blocks\.$/);
  for (const why of ["short", "empty", "other_salt", "evicted", "computing", "new"]) assert.ok(whySentence({ ...look, why }, 4).endsWith("."), why);
});

test("the newest look is that of the step or before", () => {
  const looks = [{ step: 0, request: "A" }, { step: 3, request: "B" }, { step: 3, request: "C" }];
  assert.equal(lookAt(looks, 2, null).request, "A");
  assert.equal(lookAt(looks, 9, null).request, "C");
  assert.equal(lookAt(looks, 9, "B").request, "B");
  assert.equal(lookAt(looks, 2, "B"), null);
});

test("a policy is named by what the engine was given", () => {
  assert.equal(policyWords({ prefix_cache: "radix" }), "released longest ago, leaves only");
  assert.equal(policyWords({ prefix_cache: "hash", eviction: "fifo" }), "first cached, first out");
});

test("what is picked goes into the link and comes back, and nothing else does", () => {
  for (const text of ["chain:7", "tree:0", "node:12"]) assert.equal(pickText(parsePick(text)), text);
  for (const text of ["", null, "pool:1", "node:-1", "node:99999999", "tree:1;x"]) assert.equal(parsePick(text), null);
});

test("a table for a spreadsheet holds text as text", () => {
  const lines = csv([["Hash chain", 3, '=2+2, "quoted"', "ab", "root", "", 0, 1, -2, "in use"]]).split("\r\n");
  assert.equal(lines[1], `Hash chain,3,"'=2+2, ""quoted""",ab,root,,0,1,-2,in use`);
});

// What `blockAnswer` needs of a step: who holds which block.
function viewOf(state, holders, info) {
  state.free = { first: () => [...state.entry.keys()].filter((b) => !state.ref[b]) };
  state.nodeLock = (node) => state.ref[node.blocks[0]];
  for (const b of Object.keys(holders)) state.ref[b] = holders[b].length;
  return { state, info: { bs: 4, engine: { prefix_cache: info.radix ? "radix" : "hash", eviction: "lru" }, ...info }, holders: (b) => holders[b] ?? [] };
}

test("a block answers for itself", () => {
  const entries = [[0, "a", null], [1, "b", "a"], [2, "z", "gone"]];
  const chain = viewOf(stateOf(entries), { 0: [["A", 0], ["B", 0]] }, { radix: false });
  assert.match(blockAnswer(chain, 0), /^2 sequences read me: A \(entry 0\) and B \(entry 0\)/);
  assert.match(blockAnswer(chain, 1), /^Nobody reads me now.*I am the 1st cached one to go\.$/);
  assert.match(blockAnswer(chain, 2), /^Nobody can come to me/);
  const tree = viewOf(stateOf(entries.slice(0, 2), [[0, null, [0, 1]]]), {}, { radix: true });
  assert.match(blockAnswer(tree, 0), /In the tree, what follows me must go first\.$/);
  assert.match(nodeAnswer(tree, tree.state.nodes.get(0)), /I am a leaf: my last block can go first/);
});

test("a scripted token stands apart from the text before it", () => {
  const info = (model) => Object.assign(Object.create(RunInfo.prototype), { header: { source: { model } }, tokenText: { 1: "keep", 2: " time", 3: "?" } });
  assert.equal(reader(info("none"))([1, 2, 3, 1_000_000, 1_000_001]), "keep time? +0 +1");
  assert.equal(info("small").quote([1, 2, 3, 49152]), "“keep time? 49152”");
});
