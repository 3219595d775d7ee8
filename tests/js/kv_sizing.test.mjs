// The KV sizing instrument: places of its sliders, axes, labels, and one change in flight at a time.
import assert from "node:assert/strict";
import test from "node:test";
import { ladder, nearest } from "../../ui/components/kv_sizing/js/controls.js";
import { round5, tokens } from "../../ui/components/kv_sizing/js/curves.js";
import { tick } from "../../ui/components/kv_sizing/js/growth.js";
import { amount, gb, gib } from "../../ui/components/kv_sizing/js/said.js";
import { Sizing } from "../../ui/components/kv_sizing/js/sizing.js";

test("a slider's places rise, end where they should, and hold every power of two", () => {
  for (const [values, low, high] of [
    [ladder(128, 1048576, 8, 16), 128, 1048576],
    [ladder(1, 4096, 8, 1), 1, 4096],
  ]) {
    assert.equal(values[0], low);
    assert.equal(values.at(-1), high);
    for (let i = 1; i < values.length; i++) assert.ok(values[i] > values[i - 1], `${values[i]}`);
    for (let v = low; v <= high; v *= 2) assert.ok(values.includes(v), `${v}`);
  }
  assert.equal(nearest([1, 10, 100], 40), 1);
});

test("an axis reaches over the highest value in round steps", () => {
  for (const top of [0.0007, 3, 17, 250, 439, 99_999]) {
    const ticks = round5(top);
    assert.equal(ticks[0], 0);
    assert.ok(ticks.at(-1) >= top && ticks.length >= 4 && ticks.length <= 8, `${top}: ${ticks}`);
  }
  assert.deepEqual(round5(439), [0, 100, 200, 300, 400, 500]);
  assert.deepEqual([0, 0.25, 2.5, 1250].map(tick), ["0", "0.25", "2.5", "1,250"]);
  assert.deepEqual([96, 4096, 131072, 1048576].map(tokens), ["96", "4K", "128K", "1M"]);
});

test("bytes are whole, shares are percent, and the two units are kept apart", () => {
  assert.equal(amount(327680, "B"), "327,680 B");
  assert.equal(amount(0.969, "fraction"), "96.9 %");
  assert.equal(amount(105.133, "sequences"), "105.1");
  assert.equal(amount(null, "streams"), "none");
  assert.equal(gb(85_899_345_920), "85.9 GB");
  assert.equal(gib(85_899_345_920), "80.0 GiB");
});

// The class without its document: only what it sends, and when.
function sender() {
  const sent = [];
  const s = Object.assign(Object.create(Sizing.prototype), { seq: 0, waits: null, pending: null, data: { seq: 0 }, component: { setStateValue: (_, value) => sent.push(value) } });
  return { s, sent };
}

test("while an answer is awaited only the newest change is kept, and it goes when the answer comes", () => {
  const { s, sent } = sender();
  s.pending = { ctx: "4096" };
  s.send();
  s.pending = { ctx: "8192" };
  s.send();
  s.pending = { ...s.pending, ctx: "16384", n: "2" };
  s.send();
  clearTimeout(s.timer);
  assert.deepEqual(sent, [{ seq: 1, place: { ctx: "4096" } }]);
  s.waits = null; // the answer has come
  s.send();
  assert.deepEqual(sent[1], { seq: 2, place: { ctx: "16384", n: "2" } });
  s.send();
  assert.equal(sent.length, 2, "nothing is left to say");
});
