// By hand: who can be acted on after a step, and what a new request must say.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import test from "node:test";
import { aliveAt, asked, canFork, whyNot } from "../../ui/components/hand_bar/js/reach.js";

const spans = [
  { seq: "A", request: "A", first: 0, last: 9, forks: [[0, 3], [6, 8]], full: [[9, 9]] },
  { seq: "B#0", request: "B", first: 2, last: 4, forks: [], full: [] },
];
const data = { refused: null, forks: true };

test("a sequence is alive from its first to its last step", () => {
  const ids = (k) => aliveAt(spans, k).map((s) => s.seq);
  assert.deepEqual([ids(0), ids(2), ids(4), ids(5), ids(10)], [["A"], ["A", "B#0"], ["A", "B#0"], ["A"], []]);
});

test("it can be forked while it runs, and not while it waits for its blocks again", () => {
  assert.deepEqual([0, 3, 4, 5, 6, 9, 10].map((k) => canFork(spans[0], k)), [true, true, false, false, true, false, false]);
  assert.equal(whyNot("fork", spans[0], 3, data), null);
  assert.match(whyNot("fork", spans[0], 4, data), /A has no token/);
  assert.match(whyNot("fork", spans[0], 9, data), /^No place .* A: see max_num_seqs/);
  assert.equal(whyNot("cancel", spans[0], 4, data), null);
  assert.match(whyNot("fork", spans[0], 3, { ...data, forks: false }), /cannot fork/);
});

test("what is not possible says why", () => {
  assert.match(whyNot("finish", undefined, 12, data), /after step 12/);
  assert.equal(whyNot("add", undefined, 12, data), null);
  assert.equal(whyNot("add", spans[0], 0, { ...data, refused: "Beams." }), "Beams.");
});

test("a new request is what its form says", () => {
  const form = { kind: "prefix", text: "", own: "5", shared: " 8 ", seq: "A", max: "4", n: "2" };
  assert.deepEqual(asked(form), { max_tokens: 4, n: 2, own: 5, shared: 8, seq: "A" });
  assert.deepEqual(asked({ ...form, own: "0" }).own, 0, "it may be all prefix");
  assert.deepEqual(asked({ ...form, kind: "tokens" }), { max_tokens: 4, n: 2, own: 5 });
  assert.deepEqual(asked({ ...form, kind: "text", text: "hi" }), { max_tokens: 4, n: 2, text: "hi" });
});

test("a form that says too little or too much is answered by one sentence", () => {
  const form = { kind: "tokens", text: "", own: "5", shared: "8", seq: "A", max: "4", n: "1" };
  const bad = [{ max: "0" }, { max: "x" }, { n: "9" }, { n: "-1" }, { own: "" }, { own: "5.5" }, { own: "99999" }, { own: "0" }, { kind: "text" }, { kind: "prefix", shared: "" }, { kind: "prefix", seq: "" }];
  for (const change of bad) assert.match(asked({ ...form, ...change }).why, /^[A-Z].*\.$/, JSON.stringify(change));
});

test("no file turns strings into markup, or asks for anything over the network", () => {
  const folder = new URL("../../ui/components/hand_bar/js/", import.meta.url);
  const forbidden = /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|\bfetch\(|XMLHttpRequest|WebSocket/;
  for (const name of readdirSync(folder)) assert.doesNotMatch(readFileSync(new URL(name, folder), "utf8"), forbidden, name);
});
