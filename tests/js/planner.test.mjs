// The planner's instrument: its axes, its bars, its words for times, and what its controls send.
import assert from "node:assert/strict";
import test from "node:test";
import { inMs, money, widths } from "../../ui/components/planner/js/answer.js";
import { decades } from "../../ui/components/planner/js/frontier.js";
import { Planner } from "../../ui/components/planner/js/planner.js";
import { legible } from "../../ui/components/kv_sizing/js/legible.js";

test("an axis in powers reaches over all values, in steps of 1, 2 and 5", () => {
  for (const [low, high] of [
    [4, 58],
    [0.0123, 0.0486],
    [8, 8],
    [0.9, 1.1],
    [100, 100_000],
  ]) {
    const ticks = decades(low, high);
    assert.ok(ticks.length > 1 && ticks[0] <= low && ticks.at(-1) >= high, `${low} ${high}: ${ticks}`);
    for (let i = 1; i < ticks.length; i++) assert.ok(ticks[i] > ticks[i - 1]);
  }
  assert.deepEqual(decades(4, 58), [2, 5, 10, 20, 50, 100]);
});

test("three bounds share one axis in powers of two", () => {
  const wide = widths({ blocks: 158, max_num_seqs: 256, max_num_batched_tokens: 8192 });
  assert.equal(wide.max_num_batched_tokens, 100);
  assert.ok(wide.blocks < wide.max_num_seqs && wide.blocks > 50);
  assert.equal(widths({ blocks: 0, max_num_seqs: 4 }).blocks, 0);
});

test("times are short, and none is said", () => {
  assert.equal(inMs(0.0205466), "20.5 ms");
  assert.equal(inMs(0.9179), "918 ms");
  assert.equal(inMs(6.877), "6,877 ms");
  assert.equal(inMs(61.2), "61 s");
  assert.equal(inMs(null), "none");
});

test("what was left out is asked for once no hand moves", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const asked = [];
  const planner = Object.assign(Object.create(Planner.prototype), { outbox: { busy: true }, data: { seq: 4, frontier: null }, component: { setTriggerValue: (name, value) => asked.push([name, value]) } });
  planner.rest();
  t.mock.timers.tick(500);
  assert.deepEqual(asked, []);
  planner.outbox.busy = false;
  t.mock.timers.tick(500);
  assert.deepEqual(asked, [["rest", 4]]);
});

test("money has cents where they are read", () => {
  assert.deepEqual([money(8), money(2.5), money(0.01), money(12_345.6)], ["$8", "$2.5", "$0.01", "$12,346"]);
});

test("arithmetic is legible: thousands apart, few digits, nothing else changed", () => {
  assert.equal(legible("⌊max(0, 39933733601 − 83886080) / 251658240⌋"), "⌊max(0, 39,933,733,601 − 83,886,080) / 251,658,240⌋");
  assert.equal(legible("max(0.30318166464740615, 0.0105304)"), "max(0.3032, 0.01053)");
  assert.equal(legible("989400000000000 / 9007199254740993, 0.30318166464740615", 6), "989,400,000,000,000 / 9,007,199,254,740,993, 0.303182");
  assert.equal(legible("2 · 80 · 8 · 128 · 1, ⌈4096 / 16⌉, 0.92"), "2 · 80 · 8 · 128 · 1, ⌈4,096 / 16⌉, 0.92");
});
