// Prompts and model output are other people's text: it may only ever enter the page as text.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import test from "node:test";
import { RunInfo, letterOf, requestOf } from "../../ui/components/run_player/js/runinfo.js";
import { provenance } from "../../ui/components/run_player/js/provenance.js";
import { sampleRun } from "./sample.mjs";

const folder = new URL("../../ui/components/run_player/js/", import.meta.url);
const sources = readdirSync(folder).filter((f) => f.endsWith(".js")).map((f) => [f, readFileSync(new URL(f, folder), "utf8")]);

test("no file turns strings into markup or code, or asks for anything over the network", () => {
  const forbidden = /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|createContextualFragment|DOMParser|srcdoc|\bfetch\(|XMLHttpRequest|WebSocket|https?:\/\/(?!www\.w3\.org\/2000\/svg)/;
  for (const [name, text] of sources) assert.doesNotMatch(text, forbidden, name);
});

test("markup in a token's text stays what it is", () => {
  const run = sampleRun();
  run.header.token_text = { 1: "<img src=x onerror=alert(1)>", 2: "\n", 3: " " };
  const info = new RunInfo(run);
  assert.equal(info.word(1), "<img src=x onerror=alert(1)>");
  assert.equal(info.show(2), "⏎");
  assert.equal(info.show(3), "␣");
});

test("any id works, and is cut where it is long", () => {
  const run = sampleRun();
  run.header.scenario.requests = [{ id: "constructor" }, { id: "__proto__" }, { id: "A" }];
  const info = new RunInfo(run);
  assert.equal(info.letter("constructor"), "A");
  assert.equal(info.letter("__proto__#1"), "B");
  assert.equal(info.short("constructor#2"), "con…tor#2");
  assert.equal(requestOf("A#12"), "A");
  assert.deepEqual([0, 25, 26, 27, 701, 702].map(letterOf), ["A", "Z", "AA", "AB", "ZZ", "AAA"]);
});

test("the provenance label names what stands behind the picture", () => {
  const header = { label: "RECORDED", source: { device: "CPU", dtype: "bfloat16", model: "smollm2-135m-instruct" }, recorded_at: "2026-11-28T20:00:00Z", revision: "4c1f2ab99" };
  assert.deepEqual(provenance(header).about, ["CPU", "SmolLM2-135M-Instruct", "bf16", "28 Nov 2026", "rev 4c1f2ab"]);
  assert.deepEqual(provenance({ ...header, label: "LIVE" }).about, ["CPU", "SmolLM2-135M-Instruct", "bf16"]);
  assert.equal(provenance({ label: "SIMULATED" }).cls, "simulated");
  assert.deepEqual(provenance({ label: "MODELLED", source: { inputs: { batch: 8 } } }).about, ["batch 8"]);
});
