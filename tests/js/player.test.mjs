// The player's parts that need no page: where blocks lie on the map, who got the budget, which steps
// hold a kind of event, what the table says.
import assert from "node:assert/strict";
import test from "node:test";
import { sharesOf, sums } from "../../ui/components/run_player/js/budget.js";
import { numbersOf } from "../../ui/components/run_player/js/difference.js";
import { slug, stepsCsv } from "../../ui/components/run_player/js/exports.js";
import { kindsOf, neighbour } from "../../ui/components/run_player/js/kinds.js";
import { MapView } from "../../ui/components/run_player/js/mapview.js";
import { reduce } from "../../ui/components/run_player/js/reducer.js";
import { RunInfo } from "../../ui/components/run_player/js/runinfo.js";
import { StepView } from "../../ui/components/run_player/js/view.js";
import { makeRun, sampleRun } from "./sample.mjs";

function viewAt(run, k) {
  const info = new RunInfo(run);
  return new StepView(info, reduce(run).seek(k), run.steps[k]);
}

test("a whole pool is seen in whole squares, and every pixel names its block", () => {
  for (const [n, width] of [[4096, 900], [65536, 900], [65536, 334], [1025, 800], [3, 500]]) {
    const view = new MapView(n);
    view.fit(width, 236);
    assert.ok(Number.isInteger(view.least) || view.least < 2, `${n}: ${view.least}`);
    assert.ok(view.width <= width && view.height <= 1.6 * 236, `${n}: ${view.width} × ${view.height}`);
    assert.ok(!view.zoomed);
    for (const b of [0, 1, view.columns, n - 1].filter((b) => b < n)) {
      const [x, y] = view.xy(b);
      assert.equal(view.blockAt(x + view.size / 2, y + view.size / 2), b);
    }
    assert.equal(view.blockAt(-1, 0), null);
    assert.equal(view.blockAt(view.width - 0.1, view.height - 0.1), n % view.columns ? null : n - 1);
  }
});

test("a million blocks take no more room than a few", () => {
  const view = new MapView(1 << 20);
  view.fit(900, 236);
  assert.ok(view.least < 1);
  assert.ok(view.height <= 1.6 * 236);
});

test("zooming keeps the block under the pointer there, as far as the edges let it", () => {
  const view = new MapView(65536);
  view.fit(900, 236);
  const [px, py] = [400, 150];
  let b = view.blockAt(px, py);
  const first = b;
  for (let i = 0; i < 12; i++) {
    view.zoomAt(1.5, px, py);
    const now = view.blockAt(px, py);
    assert.ok(Math.abs((now % view.columns) - (first % view.columns)) <= 1, `column of ${now}, not of ${first}`);
    assert.ok(Math.abs(Math.floor(now / view.columns) - Math.floor(first / view.columns)) <= 1);
    b = now;
  }
  assert.equal(view.size, 44, "as near as it goes");
  view.reveal(0);
  assert.equal(view.blockAt(1, 1), 0);
  view.reveal(65535);
  const [x, y] = view.xy(65535);
  assert.ok(x >= 0 && y >= 0 && x + view.size <= view.width + 1 && y + view.size <= view.height + 1);
  for (let i = 0; i < 30; i++) view.zoomAt(1 / 1.5, 10, 10);
  assert.deepEqual([view.zoomed, view.x, view.y], [false, 0, 0], "and back to the whole");
});

test("the window names what is in sight and nothing else", () => {
  const view = new MapView(4096);
  view.fit(900, 236);
  view.zoomAt(4, 0, 0);
  view.pan(1000, 300);
  const [c0, c1, r0, r1] = view.window;
  const seen = new Set();
  for (let y = 0.5; y < view.height; y += 3) for (let x = 0.5; x < view.width; x += 3) seen.add(view.blockAt(x, y));
  seen.delete(null);
  for (const b of seen) {
    assert.ok(b % view.columns >= c0 && b % view.columns < c1);
    assert.ok(Math.floor(b / view.columns) >= r0 && Math.floor(b / view.columns) < r1);
  }
  assert.equal(seen.size, [...Array(4096).keys()].filter((b) => b % view.columns >= c0 && b % view.columns < c1 && Math.floor(b / view.columns) >= r0 && Math.floor(b / view.columns) < r1).length);
});

test("the budget's tokens are told apart: a prompt's are prefill, one sampled before is decode", () => {
  const run = sampleRun();
  const shares = (k) => sharesOf(viewAt(run, k)).map((s) => [s.id, s.n, s.decode]);
  assert.deepEqual(shares(0), [["A#0", 1, false]], "a prompt of one token is still a prompt");
  assert.deepEqual(shares(1), [["A#0", 1, true], ["A#1", 1, true]]);
  assert.deepEqual(sums(sharesOf(viewAt(run, 1)), 64), { prefill: 0, decode: 2, left: 62 });
  assert.deepEqual(sums([], 64), { prefill: 0, decode: 0, left: 64 });
});

test("what is computed again after a preemption is prefill", () => {
  const row = { num_scheduled_tokens: 3, num_computed_tokens: 0, num_cached_tokens: 0 };
  const run = makeRun([
    {
      events: [
        { type: "request_arrived", request: "A", sequences: ["A"], num_prompt_tokens: 1, position: 0 },
        { type: "token_sampled", request: "A", sequence: "A", token: 2 },
        { type: "token_sampled", request: "A", sequence: "A", token: 3 },
        { type: "resumed", request: "A", sequence: "A", num_tokens: 3, num_cached_tokens: 0 },
        { type: "scheduled", request: "A", sequence: "A", ...row },
      ],
    },
  ]);
  assert.deepEqual(sums(sharesOf(viewAt(run, 0)), 4), { prefill: 3, decode: 0, left: 1 });
});

test("only the kinds that a run has, with the steps that hold them", () => {
  const kinds = kindsOf([sampleRun()]);
  assert.deepEqual(Object.fromEntries(kinds), { notable: [0, 1], copy: [1], fork: [0], admission: [0], finish: [3], cancel: [2], arrival: [0] });
  assert.deepEqual(kindsOf([sampleRun(), sampleRun()]).get("fork"), [0], "of two runs, each step once");
  assert.equal(kindsOf([makeRun([{ events: [] }])]).size, 0);
});

test("the next of a kind and the one before", () => {
  assert.deepEqual([2, 5, 9].map((k) => neighbour([2, 5, 9], k, 1)), [5, 9, null]);
  assert.deepEqual([2, 5, 9].map((k) => neighbour([2, 5, 9], k, -1)), [null, 2, 5]);
  assert.equal(neighbour([2, 5, 9], 6, 1), 9);
  assert.equal(neighbour([], 0, 1), null);
});

test("a row of the table for each step, and no milliseconds where no model ran", () => {
  const run = sampleRun();
  run.steps[1].timing = { schedule_us: 500, forward_us: 1200, sample_us: 300 };
  const info = new RunInfo(run);
  assert.equal(
    stepsCsv([info]),
    "step,running,waiting,in_use,cached,free,tokens,ms\n0,2,0,1,0,3,1,\n1,2,0,2,0,2,2,2.000\n2,2,0,2,0,2,0,\n3,0,0,0,1,3,0,\n",
  );
  const two = stepsCsv([info, Object.assign(new RunInfo(sampleRun()), { name: 'a "b", c' })]).split("\n");
  assert.equal(two[0], "run,step,running,waiting,in_use,cached,free,tokens,ms");
  assert.equal(two[5], '"a ""b"", c",0,2,0,1,0,3,1,');
});

test("names of files are plain", () => {
  assert.equal(slug("Two answers, one prefix, a full pool"), "two-answers-one-prefix-a-full-pool");
  assert.equal(slug("../../§"), "run");
});

test("the numbers of a step, for the line of differences", () => {
  assert.deepEqual(numbersOf(viewAt(sampleRun(), 1)), { running: 2, waiting: 0, "in use": 2, free: 2, tokens: 2 });
});
