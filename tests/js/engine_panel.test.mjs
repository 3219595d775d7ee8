// The engine's panel: what it says in each state.
import assert from "node:assert/strict";
import test from "node:test";
import { linesOf } from "../../ui/components/engine_panel/index.js";

const ready = {
  state: "ready",
  label_source: { device: "CPU", model: "tiny", dtype: "bfloat16" },
  live: { running: 2, waiting: 1 },
  queue: 1,
  load: { cores: 2, load_1m: 1.44, other_work: 0.05 },
};

test("device, model, load and queue of an engine that is there", () => {
  assert.deepEqual(linesOf(ready, { tiny: "Tiny" }), {
    word: "Engine ready",
    lines: ["CPU, Tiny, bf16", "2 running, 1 waiting", "1 scenario queued", "load 1.4 on 2 cores"],
    warn: null,
  });
});

test("other work is worth a word", () => {
  const { warn } = linesOf({ ...ready, load: { ...ready.load, other_work: 0.42 } }, {});
  assert.match(warn, /42 %/);
});

test("what an older engine does not tell is left out", () => {
  const { lines } = linesOf({ state: "busy", load: null }, {});
  assert.deepEqual(lines.slice(1), ["0 running, 0 waiting", "0 scenarios queued"]);
});

test("without an engine it says why, once", () => {
  const absent = { state: "absent", message: "No engine here: torch is not installed. Recorded runs play." };
  assert.deepEqual(linesOf(absent, {}), { word: "No engine here", lines: ["torch is not installed. Recorded runs play."], warn: null });
  assert.deepEqual(linesOf({ state: "absent", message: "" }, {}).lines, ["Recorded and simulated runs play all the same."]);
  assert.equal(linesOf({ state: "restarting", message: "It ended." }, {}).word, "Engine restarting");
});
