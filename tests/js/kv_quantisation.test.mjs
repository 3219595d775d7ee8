// The instrument of quantised caches: places and darkness of cells, where arrows lead, what is said
// of two texts, and the dots of the table.
import assert from "node:assert/strict";
import test from "node:test";
import { cellsOf, depth, ink, percentOf, step, worst } from "../../ui/components/kv_quantisation/js/heat.js";
import { csvOf } from "../../ui/components/kv_quantisation/js/heatpanel.js";
import { layersOf } from "../../ui/components/kv_quantisation/js/formatcontrols.js";
import { along, plain, qualityCsv, scalesOf } from "../../ui/components/kv_quantisation/js/qualitytable.js";
import { nats, shown, verdict } from "../../ui/components/kv_quantisation/js/texts.js";

const errors = { key: [[0.01, 0.02], [0.03, 0.04], [0, 0.5]], value: [[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]] };

test("cells stand in rows of heads, keys before values, each row with all layers", () => {
  const cells = cellsOf(errors);
  assert.equal(cells.length, 12);
  assert.deepEqual(cells[0], { kind: "key", head: 0, layer: 0, error: 0.01 });
  assert.deepEqual(cells[4], { kind: "key", head: 1, layer: 1, error: 0.04 });
  assert.deepEqual(cells.at(-1), { kind: "value", head: 1, layer: 2, error: 0.6 });
  assert.deepEqual(worst(cells, 2).map((one) => one.error), [0.6, 0.5]);
  assert.equal(csvOf(cells).split("\r\n")[5], "1,1,key,0.04");
});

test("an arrow leads one layer or one head on, whichever way the grid lies, and not over its edge", () => {
  const [layers, rows] = [3, 4];
  const to = (key, at, across) => step(key, at, layers, rows, across);
  assert.equal(to("ArrowRight", 0, true), 1);
  assert.equal(to("ArrowRight", 2, true), 2);
  assert.equal(to("ArrowDown", 1, true), 4);
  assert.equal(to("ArrowDown", 10, true), 10);
  assert.equal(to("ArrowDown", 0, false), 1);
  assert.equal(to("ArrowRight", 0, false), 3);
  assert.equal(to("ArrowLeft", 1, false), 1);
  assert.equal(to("Home", 5, true), 3);
  assert.equal(to("End", 3, true), 5);
  assert.equal(to("Tab", 3, true), null);
});

test("darkness follows powers of ten between 0.1 % and all", () => {
  assert.equal(depth(0), 0);
  assert.equal(depth(1), 1);
  assert.equal(depth(7), 1);
  assert.ok(Math.abs(depth(0.01) - 1 / 3) < 1e-12);
  assert.ok(depth(1e-9) > 0); // some error is never drawn as none
  for (let e = 1e-4; e < 2; e *= 1.3) assert.ok(depth(e * 1.3) >= depth(e));
});

test("percent takes at most four characters where it is below a thousand", () => {
  assert.deepEqual([0, 0.0004, 0.0053, 0.0099, 0.01, 0.0994, 0.0997, 0.126, 0.9999, 3.2].map(percentOf), ["0", "0.04", "0.53", "0.99", "1.0", "9.9", "10", "13", "100", "320"]);
});

test("the ink on a cell is the one that is read better", () => {
  const [black, white] = ["rgb(18, 23, 28)", "rgb(255, 255, 255)"];
  assert.equal(ink("rgb(240, 240, 255)", black, white), black);
  assert.equal(ink("rgb(31, 73, 198)", black, white), white);
  assert.equal(ink("rgb(147, 177, 255)", "rgb(233, 237, 241)", "rgb(21, 26, 32)"), "rgb(21, 26, 32)");
});

test("spans of layers are read as Python reads them", () => {
  assert.deepEqual(layersOf("0-2,29", 30), [0, 1, 2, 29]);
  for (const bad of ["", "30", "4-2", "-1", "1,,2", "x", "0-"]) assert.equal(layersOf(bad, 30), null);
});

const words = { same: "Same, {tokens}.", part: "To {at}.", close: "even {gap} {own}", near: "close {gap}", far: "not close {gap}", unlisted: "far off {own}", lead: "{other} by {lead}" };

test("what is said of two texts depends on how close the choice was, and is no verdict on either", () => {
  const say = (first, gap, candidates = []) => verdict({ first, gap, candidates, lengths: [64, 64] }, ["BF16", "INT4"], words);
  assert.equal(say(null, null), "Same, 64 tokens.");
  assert.equal(say(0, null), "To 1.");
  assert.equal(say(0, null, [{}, {}]), "To 1. far off BF16");
  assert.equal(say(8, 0.02), "To 9. even 0.020 BF16");
  assert.equal(say(8, 0.4), "To 9. close 0.400");
  assert.equal(say(8, 0.9), "To 9. not close 0.900");
  assert.equal(say(8, 0.02, [{ logprobs: [-1, -2.5] }, { logprobs: [-1.02, -1] }]), "To 9. even 0.020 BF16 INT4 by 1.500");
  assert.equal(say(8, 0.02, [{ logprobs: [-1, null] }, { logprobs: [-1.02, -1] }]), "To 9. even 0.020 BF16");
  assert.deepEqual([nats(null), nats(-1.25), nats(0)], ["–", "−1.250", "0.000"]);
  assert.equal(shown(" a\n"), "␣a↵");
});

const rows = [
  { name: "own", bytes: 100, perplexity: 20, change: [0, 0], kl: 0, kl_max: 0, top1: 1, diverges: { a: null } },
  { name: 'four, "one"', bytes: 25, perplexity: 2000, change: [4.6, 0.1], kl: 2, kl_max: 9, top1: 0.2, diverges: { a: 3 } },
  { name: "eight", bytes: 53, perplexity: 20.1, change: [-0.001, 0.002], kl: 0.0002, kl_max: 0.1, top1: 0.99, diverges: {} },
];

test("dots lie between the ends of their rows, in powers of ten where rows are far apart", () => {
  const s = scalesOf(rows);
  assert.deepEqual([s.kl.low, s.kl.high, s.top1.low, s.perplexity.high], [0.0001, 2, 0.2, 2000]);
  assert.equal(along(20, 20, 2000, true), 0);
  assert.ok(Math.abs(along(200, 20, 2000, true) - 0.5) < 1e-12);
  assert.equal(along(0, 1e-4, 2, true), 0);
  assert.ok(Math.abs(along(0.6, 0.2, 1, false) - 0.5) < 1e-12);
  assert.equal(along(5, 5, 5, false), 0);
  assert.deepEqual([0, 0.00011, 0.0021, 21.44, 1310.2].map(plain), ["0", "1.1·10⁻⁴", "0.0021", "21.4", "1,310"]);
});

test("the sheet of the table holds every row, and a name with quotes and commas stays one cell", () => {
  const lines = qualityCsv(rows, [{ id: "a" }]).trim().split("\r\n");
  assert.equal(lines.length, 4);
  assert.equal(lines[0], "format,kv_bytes_per_token,perplexity,nll_change_nats,nll_change_se,kl_nats,kl_max_nats,top1,diverges_a");
  assert.equal(lines[2], '"four, ""one""",25,2000,4.6,0.1,2,9,0.2,3');
  assert.equal(lines[3], '"eight",53,20.1,-0.001,0.002,0.0002,0.1,0.99,');
});
