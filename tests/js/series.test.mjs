// The chart over steps: what it reads out, how high it is, where the names of its lines go.
import assert from "node:assert/strict";
import test from "node:test";
import { fileName } from "../../ui/components/series/js/save.js";
import { columns, csv, highest, runsOf, sentence, spread, stacked, value } from "../../ui/components/series/js/values.js";

const data = {
  title: "Blocks",
  unit: "blocks",
  x: { label: "step", last: 2 },
  lines: [{ name: "free, all", values: [4, null, 2.25], style: "a" }],
  bands: [
    { name: "shared", values: [1, 2, 3] },
    { name: "=own", values: [1, 0, null] },
  ],
  marks: [{ x: 2, label: "B preempted" }],
};

test("bands lie on each other, and a gap counts nothing", () => {
  assert.deepEqual(stacked(data.bands, 2), [[1, 2, 3], [2, 2, 3]]);
  assert.equal(highest(data), 4);
  assert.equal(highest({ ...data, lines: [] }), 3);
});

test("a gap ends a line", () => {
  assert.deepEqual(runsOf([1, 2, null, 3]), [[[0, 1], [1, 2]], [[3, 3]]]);
  assert.deepEqual(runsOf([null]), []);
});

test("a step is read out with its marks; a missing value is a dash", () => {
  assert.equal(sentence(data, 1), "Step 1: free, all –, shared 2, =own 0 blocks");
  assert.equal(sentence(data, 2), "Step 2: free, all 2.25, shared 3, =own – blocks. B preempted");
  assert.equal(value(12345.6), "12,346");
  assert.equal(columns(data).length, 3);
});

test("names of lines that end together are pushed apart and stay inside", () => {
  assert.deepEqual(spread([50, 50, 10], 15, 0, 100), [50, 65, 10]);
  assert.deepEqual(spread([100, 100], 15, 0, 100), [85, 100]);
  for (const y of spread([3, 2, 1], 10, 5, 60)) assert.ok(y >= 5 && y <= 60);
});

test("the CSV keeps commas inside cells and lets no cell be a formula", () => {
  const rows = csv(data).split("\r\n");
  assert.equal(rows[0], `step,"free, all (blocks)",shared (blocks),'=own (blocks),marks`);
  assert.equal(rows[2], "1,,2,0,");
  assert.equal(rows[3], "2,2.25,3,,B preempted");
  assert.equal(fileName("Blocks in use, over steps", "csv"), "blocks-in-use-over-steps.csv");
});
