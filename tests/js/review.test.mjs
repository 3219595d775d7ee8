// Keys of the review card, and the filter of its lists.
import assert from "node:assert/strict";
import test from "node:test";
import { fits } from "../../ui/components/deck_list/js/filter.js";
import { digit, isSpace } from "../../ui/components/review_card/js/keys.js";

test("the digits of the four ratings are keys, others are not", () => {
  assert.deepEqual(["1", "4", "0", "5", "a", "12", "Enter"].map(digit), [1, 4, null, null, null, null, null]);
  assert.equal(isSpace(" "), true);
  assert.equal(isSpace("Spacebar"), false);
});

test("a filter finds every word, in the name or in the group", () => {
  const card = { name: "H100 SXM5, ridge, BF16", group: "Bandwidth and peak" };
  assert.equal(fits(card, ""), true);
  assert.equal(fits(card, "ridge PEAK"), true);
  assert.equal(fits(card, "ridge fp8"), false);
});
