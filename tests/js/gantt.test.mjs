// The Gantt chart: which targets are met, where a step lies, how waits are stacked, what is said.
import assert from "node:assert/strict";
import test from "node:test";
import { Axis, gapsByStep, goodput, meets, nearestStop, queueOf, stops } from "../../ui/components/gantt/js/measure.js";
import { lifeOf, metricsCsv, shareOf, time, tipOf, waitsOf } from "../../ui/components/gantt/js/words.js";

const row = (more) => ({
  sequence: "A", request: "A", prompt_tokens: 5, output_tokens: 3, arrived: 0, admitted: 2, first_token: 2, ended: 5,
  finish_reason: "max_tokens", rejected: null, sampled: [2, 3, 5], waits: [[0, 1, "max_num_seqs", 1, 0], [1, 2, "behind_head", null, null]], preempted: [],
  computed: 7, recomputed: 0, cached: 0, ttft_steps: 3, worst_gap_steps: 2, ttft_us: 30000, worst_gap_us: 21000, gaps_us: [9000, 21000], ...more,
});

test("a request counts when its first token and every gap meet the targets", () => {
  assert.ok(meets(row(), { ttft: 3, gap: 2 }, "steps"));
  assert.ok(!meets(row(), { ttft: 3, gap: 1 }, "steps"));
  assert.ok(!meets(row(), { ttft: 2, gap: 2 }, "steps"));
  assert.ok(meets(row(), { ttft: 30000, gap: 21000 }, "ms"));
  assert.ok(meets(row({ worst_gap_steps: null }), { ttft: 3, gap: 1 }, "steps"), "one token has no gap");
  assert.ok(!meets(row({ ttft_steps: null }), { ttft: 99, gap: 99 }, "steps"), "none ever came");
  const loose = { ttft: 99, gap: 99 };
  assert.ok(!meets(row({ finish_reason: "cancelled" }), loose, "steps"), "nobody got the answer");
  assert.ok(!meets(row({ finish_reason: null, ended: null }), loose, "steps"), "it is not at its end");
  assert.ok(!meets(row({ finish_reason: null, rejected: "exceeds_pool" }), loose, "steps"));
});

test("goodput is a share and a rate of requests, and a refused one is a request", () => {
  const refused = { request: "C", finish_reason: null, rejected: "exceeds_pool", ttft_steps: null, ttft_us: null };
  const rows = [row(), row({ request: "B", ttft_steps: 9 }), row(refused), row({ request: "D", finish_reason: "cancelled" })];
  const serving = { rows, summary: { steps: 50, duration_us: 2e6 } };
  assert.deepEqual(goodput(serving, { ttft: 3, gap: 2 }, "steps"), { met: 1, of: 4, share: 0.25, rate: 2 });
  assert.deepEqual(goodput(serving, { ttft: 30000, gap: 21000 }, "ms"), { met: 2, of: 4, share: 0.5, rate: 1 });
  assert.deepEqual(goodput({ ...serving, rows: [] }, { ttft: 3, gap: 2 }, "steps"), { met: 0, of: 0, share: null, rate: 0 });
});

test("several answers are one request, met when each of them is", () => {
  const met = (...rows) => goodput({ rows, summary: { steps: 50 } }, { ttft: 3, gap: 2 }, "steps");
  assert.equal(met(row(), row({ sequence: "A#1" })).met, 1);
  assert.deepEqual([met(row(), row({ worst_gap_steps: 3 })).met, met(row(), row({ worst_gap_steps: 3 })).of], [0, 1]);
  assert.equal(met(row(), row({ finish_reason: "pruned", worst_gap_steps: 3 })).met, 1, "a pruned beam is no answer");
});

test("the slider's stops are round, rise, and hold all values", () => {
  for (const [values, whole] of [[[1, 25, 14], true], [[53764, 493549], false], [[1], true], [[0.4, 3], false]]) {
    const list = stops(values, whole);
    assert.deepEqual(list, [...new Set(list)].sort((a, b) => a - b));
    assert.ok(list.at(-1) >= Math.max(...values));
    assert.ok(list[0] <= Math.min(...values));
    if (whole) assert.ok(list.every(Number.isInteger));
  }
  assert.equal(nearestStop([10, 20, 30], 29.9), 1);
  assert.equal(nearestStop([10, 20, 30], 5), 0);
});

test("on a clock a step is as wide as it took, and is found again under its middle", () => {
  const ends = [10, 110, 120];
  for (const axis of [new Axis("ms", ends, 120, 600), new Axis("steps", ends, 3, 600)]) {
    for (let k = 0; k < 3; k++) {
      const [x, w] = axis.column(k);
      assert.equal(axis.at(x + w / 2, 3), k);
    }
  }
  assert.deepEqual(new Axis("ms", ends, 120, 600).column(1), [50, 500]);
});

test("waits that touch are one span, and no two in a lane overlap", () => {
  const rows = [row(), row({ sequence: "B", waits: [[1, 4, "behind_head", null, null]] }), row({ sequence: "C", waits: [[2, 3, "token_budget", 1, 0]] })];
  const { spans, lanes } = queueOf(rows);
  assert.deepEqual(spans, [{ sequence: "A", from: 0, to: 2, lane: 0 }, { sequence: "B", from: 1, to: 4, lane: 1 }, { sequence: "C", from: 2, to: 3, lane: 0 }]);
  assert.equal(lanes, 2);
});

test("a gap belongs to the step that ends it", () => {
  const serving = { rows: [row()], summary: { steps: 6 } };
  assert.deepEqual(gapsByStep(serving, "steps")[5], [{ sequence: "A", gap: 2 }]);
  assert.deepEqual(gapsByStep(serving, "ms")[3], [{ sequence: "A", gap: 9000 }]);
  assert.deepEqual(gapsByStep(serving, "ms")[2], [], "the first token has none");
});

test("a bar says when it came, why it waited and what it cost", () => {
  const engine = { max_num_seqs: 4 };
  assert.deepEqual(waitsOf(row(), engine).map((w) => [w.when, w.reason]), [["in step 0", "max_num_seqs"], ["in step 1", "behind_head"]]);
  const said = tipOf(row({ preempted: [4], recomputed: 7 }), "ms", engine);
  for (const part of ["arrives in step 0", "let in in step 2", "first token in step 2", "sent away in 1 step: 4", "7 tokens computed again", "ends in step 5", "no more than 4 sequences may run", "First token after 30.0 ms, longest gap 21.0 ms"]) assert.ok(said.includes(part), `${part} in ${said}`);
  assert.deepEqual(lifeOf(row({ rejected: "exceeds_pool" }), "steps"), ["arrives in step 0 and is refused (exceeds_pool)"]);
  assert.equal(time(null, "ms"), "–");
  assert.equal(time(1, "steps"), "1 step");
  assert.equal(shareOf(0.426), "43\u00a0%");
});

test("the CSV has a line for each request and run, and no cell begins like a formula", () => {
  const lines = metricsCsv([{ name: "=Static", serving: { rows: [row()] } }]).trimEnd().split("\r\n");
  assert.equal(lines.length, 2);
  const cells = lines[1].split(",");
  const of = (name) => cells[lines[0].split(",").indexOf(name)];
  assert.equal(of("run"), "'=Static");
  assert.equal(of("ttft_us"), "30000");
  assert.equal(of("waited_steps"), "2");
  assert.equal(of("wait_reasons"), "max_num_seqs behind_head");
});
