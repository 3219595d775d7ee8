// The KV sizing instrument: places of its sliders, axes, labels, and one change in flight at a time.
import assert from "node:assert/strict";
import test from "node:test";
import { ladder, nearest } from "../../ui/components/kv_sizing/js/controls.js";
import { round5, tokens } from "../../ui/components/kv_sizing/js/curves.js";
import { tick } from "../../ui/components/kv_sizing/js/growth.js";
import { amount, gb, gib } from "../../ui/components/kv_sizing/js/said.js";
import { Outbox } from "../../ui/components/roofline/js/outbox.js";
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

// An instrument without its document: only when it draws, and what its controls are told.
function still(seq) {
  const kept = [];
  const drawn = [];
  const one = Object.assign(Object.create(Sizing.prototype), {
    host: { firstElementChild: null, replaceChildren() {}, dataset: {} },
    root: { dataset: {} },
    refused: {},
    outbox: new Outbox(() => {}),
    controls: { update: (_, { keep }) => kept.push(keep) },
    draw() {
      drawn.push(this.data.seq);
    },
  });
  one.outbox.seq = seq;
  return { one, kept, drawn };
}

test("a control that has moved on keeps where it stands, and what is the same is not drawn again", () => {
  const { one, kept, drawn } = still(2);
  one.update({ data: { seq: 1, value: 5, present: false, refused: "" } });
  one.update({ data: { seq: 2, value: 5, present: false, refused: "" } });
  one.update({ data: { seq: 3, value: 6, present: true, refused: "No." } });
  assert.deepEqual(kept, [true, false, false]);
  assert.deepEqual(drawn, [1, 3]);
  assert.deepEqual([one.root.dataset.scale, one.refused.textContent, one.refused.hidden], ["present", "No.", false]);
  one.outbox.dispose();
});
