// The live run in the browser: streams that break, what a log says of a request, what its stages claim.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import test from "node:test";
import { gunzipSync } from "node:zlib";
import { askedOf, settle } from "../../ui/components/live_run/js/ask.js";
import { Bench } from "../../ui/components/live_run/js/bench.js";
import { EXPERIMENTS, measured, scenariosFor, summarise } from "../../ui/components/live_run/js/experiments.js";
import { against, byBatch, gapsUs, kindOf, median, promptLengths, stepUs } from "../../ui/components/live_run/js/metrics.js";
import { powerOfTen, short, ticks } from "../../ui/components/live_run/js/scales.js";
import { Session } from "../../ui/components/live_run/js/session.js";
import { SseParser, follow } from "../../ui/components/live_run/js/sse.js";
import { rows } from "../../ui/components/live_run/js/stepbox.js";
import { Growing, requestsOf, story } from "../../ui/components/live_run/js/trace.js";
import { stageOf, stages } from "../../ui/components/live_run/js/walk.js";

const runsFolder = new URL("../../runs/", import.meta.url);
const load = (name) => JSON.parse(gunzipSync(readFileSync(new URL(`${name}.run.json.gz`, runsFolder))));
const all = readdirSync(runsFolder).filter((f) => f.endsWith(".run.json.gz")).map((f) => f.replace(".run.json.gz", ""));

test("of a chat the person's own last words are shown, of a plain prompt all", () => {
  assert.equal(askedOf("<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nWhy is\n it blue?<|im_end|>\n<|im_start|>assistant\n"), "Why is it blue?");
  assert.equal(askedOf("Once  upon\na time"), "Once upon a time");
});

test("events are cut out of a stream wherever it is torn", () => {
  const text = ": hello\n\nid: 1\nevent: header\ndata: {\"a\":\ndata: 1}\n\nid: 2\r\nevent: step\r\ndata: {}\r\n\r\nid: 3\nevent: half\ndata: {";
  for (let size = 1; size < text.length; size++) {
    const seen = [];
    const parser = new SseParser((e) => seen.push(e));
    for (let i = 0; i < text.length; i += size) parser.push(text.slice(i, i + size));
    assert.deepEqual(seen, [{ type: "header", id: "1", data: '{"a":\n1}' }, { type: "step", id: "2", data: "{}" }], `pieces of ${size}`);
  }
});

const frame = (id, type, data = {}) => `id: ${id}\nevent: ${type}\ndata: ${JSON.stringify(data)}\n\n`;
// A server that answers each connection with the next of the given bodies.
function server(...bodies) {
  const asked = [];
  const fetcher = async (url, { headers, signal }) => {
    asked.push(headers["Last-Event-ID"] ?? null);
    const body = bodies[Math.min(asked.length, bodies.length) - 1];
    if (typeof body === "number") return { ok: false, status: body, body: null };
    const stream = new ReadableStream({
      start(c) {
        if (body.text) c.enqueue(new TextEncoder().encode(body.text));
        if (!body.hangs) c.close();
        signal.addEventListener("abort", () => body.hangs && c.error(new Error("aborted")));
      },
    });
    return { ok: true, status: 200, body: stream };
  };
  return { asked, fetcher };
}
const listen = async (fetcher, more = {}) => {
  const seen = [];
  await follow("/x", { event: (e) => seen.push(e) }, { fetcher, waits: [1, 1], idleMs: 40, ...more });
  return seen.map((e) => (e.type === "end" ? `end ${e.data.reason}` : `${e.type} ${e.data.n}`));
};

test("a broken line is taken up again after the last event, and nothing is told twice", async () => {
  const { asked, fetcher } = server({ text: frame(1, "step", { n: 0 }) + frame(2, "step", { n: 1 }) }, { text: frame(2, "step", { n: 1 }) + frame(3, "step", { n: 2 }) + frame(4, "end", { reason: "finished" }) });
  assert.deepEqual(await listen(fetcher), ["step 0", "step 1", "step 2", "end finished"]);
  assert.deepEqual(asked, [null, "2"]);
});

test("a silent line is given up and tried again", async () => {
  const { asked, fetcher } = server({ text: frame(1, "step", { n: 0 }), hangs: true }, { text: frame(2, "end", { reason: "finished" }) });
  assert.deepEqual(await listen(fetcher), ["step 0", "end finished"]);
  assert.deepEqual(asked, [null, "1"]);
});

test("every stream ends with a reason, also where the server says none", async () => {
  for (const bodies of [[404], [500], [{ text: frame(1, "step", { n: 0 }) }, 404]]) {
    const seen = await listen(server(...bodies).fetcher);
    assert.equal(seen.at(-1), "end engine_lost");
    assert.equal(seen.filter((x) => x.startsWith("end")).length, 1);
  }
});

test("nothing comes after the end, and half an event is none", async () => {
  const { fetcher } = server({ text: `id: 1\nevent: step\ndata: {"n": \n\n${frame(2, "end", { reason: "finished" })}${frame(3, "step", { n: 9 })}` });
  assert.deepEqual(await listen(fetcher), ["end finished"]);
});

test("a stream that is left alone stops", async () => {
  const stop = new AbortController();
  const { fetcher } = server({ text: frame(1, "step", { n: 0 }), hangs: true });
  setTimeout(() => stop.abort(), 10);
  assert.deepEqual(await listen(fetcher, { signal: stop.signal, idleMs: 5000 }), ["step 0"]);
});

test("a run grown from its pieces is the run", () => {
  const whole = load("one_question");
  const growing = new Growing({ ...whole.header, token_text: {} });
  for (const step of whole.steps) growing.addStep({ ...step, token_text: whole.header.token_text });
  const run = growing.run();
  assert.deepEqual(run.steps, whole.steps);
  assert.deepEqual(run.header, whole.header);
  assert.equal(growing.steps[0].token_text, undefined);
});

test("every claim of every stage holds in every recorded run", () => {
  let checked = 0;
  for (const name of all) {
    const run = load(name);
    for (const request of requestsOf(run)) {
      const s = story(run, request);
      if (run.header.scenario.requests.find((r) => r.id === request).beam_width > 1) continue; // its first sequence changes hands
      if (run.steps.some((step) => step.events.some((e) => e.type === "preempted" && e.request === request))) continue; // it computes again
      stages(run, s, run.steps.length - 1).forEach((stage, i) => {
        assert.equal(stage.ok, stage.of, `${name} ${request} stage ${i + 1}`);
        checked += stage.of;
      });
    }
  }
  assert.ok(checked > 500, String(checked));
});

test("a log that was changed breaks the claim it touches", () => {
  const at = (run, i) => stages(run, story(run, "A"), run.steps.length - 1)[i];
  const change = (edit) => {
    const run = load("one_question");
    edit(run);
    return run;
  };
  const share = (run, k) => run.steps[k].scheduled.A;
  assert.equal(at(change((r) => (r.header.scenario.requests[0].prompt += "!")), 0).ok, 0);
  assert.equal(at(change((r) => (share(r, 0).num_scheduled_tokens += 1)), 1).ok, 0);
  assert.ok(at(change((r) => (r.steps[3].work.kv_write_bytes += 1)), 2).ok < at(load("one_question"), 2).ok);
  assert.ok(at(change((r) => (share(r, 5).num_computed_tokens -= 1)), 3).ok < at(load("one_question"), 3).ok);
  assert.equal(at(change((r) => (share(r, r.steps.length - 1).num_computed_tokens += 1)), 4).ok, 0);
});

test("steps are named by what is in them", () => {
  const names = (name) => {
    const run = load(name);
    const lengths = promptLengths(run);
    return run.steps.map((s) => kindOf(s, lengths, run.header.scenario.engine.kv_cache));
  };
  assert.deepEqual([...new Set(names("kv_cache_on"))], ["prefill", "decode"]);
  assert.deepEqual([...new Set(names("kv_cache_off"))], ["prefill", "again"]);
  assert.ok(names("long_prompt_in_chunks").includes("both"));
  assert.equal(kindOf({ scheduled: {} }, new Map()), "idle");
});

test("the stage follows the step", () => {
  const run = load("one_question");
  const s = story(run, "A");
  assert.deepEqual([0, 1, s.finished.k].map((k) => stageOf(s, k)), [1, 3, 4]);
});

test("other people's requests, of which only lengths are known, break nothing", () => {
  const run = load("one_question");
  run.header.prompts = { A: run.header.prompts.A };
  run.steps[2].scheduled["other-1"] = { num_scheduled_tokens: 7, num_computed_tokens: 0, num_cached_tokens: 0 };
  run.steps[2].events.push({ type: "request_arrived", request: "other-1", sequences: ["other-1"], num_prompt_tokens: 7, position: 0 }, { type: "token_sampled", request: "other-1", sequence: "other-1" });
  assert.deepEqual(requestsOf(run), ["A"]);
  assert.equal(kindOf(run.steps[2], promptLengths(run)), "both");
  assert.ok(rows(run, run.steps[2], null, [], "why").every((r) => !/undefined|NaN/.test(r.value + r.formula)));
});

test("the batch sizes of the batch experiment are found in its run", () => {
  const found = byBatch(load("batch_1_to_32"));
  assert.deepEqual(found.map((x) => x.batch), [1, 2, 4, 8, 16, 32]);
  for (const x of found) assert.equal(x.steps, 7); // of eight, one prefills
});

test("the scenarios of an experiment hold what their recorded twins hold", () => {
  const ids = load("kv_cache_on").header.prompts.A;
  for (const { id } of EXPERIMENTS) {
    const made = scenariosFor(id, { model: "m", ids });
    assert.equal(made.length, id === "cache" ? 2 : 1);
    for (const s of made) {
      const { engine, requests } = s;
      const need = requests.reduce((a, r) => a + Math.ceil((r.prompt_tokens.length + r.max_tokens) / engine.block_size), 0);
      assert.ok(engine.num_blocks >= (id === "double" ? Math.ceil((2 * ids.length + 24) / engine.block_size) : need), s.name);
      for (const r of requests) assert.ok(r.prompt_tokens.length + r.max_tokens <= engine.max_model_len && r.prompt_tokens.length <= engine.max_num_batched_tokens, s.name);
    }
  }
  const twin = load("prompt_doubled").header.prompts;
  const [{ requests }] = scenariosFor("double", { model: "m", ids: twin.A });
  assert.deepEqual(requests.map((r) => r.prompt_tokens), [twin.A, twin.B]);
});

test("what the experiments found is told without a hole", () => {
  const runs = { double: ["prompt_doubled"], batch: ["batch_1_to_32"], cache: ["kv_cache_on", "kv_cache_off"] };
  for (const [id, names] of Object.entries(runs)) {
    const loaded = names.map(load);
    const found = summarise(id, loaded);
    assert.ok(found.rows.length > 1);
    for (const r of found.rows) assert.equal(r.cells.length, found.head.length - 1);
    assert.doesNotMatch(JSON.stringify(found), /undefined|NaN|null/);
    assert.doesNotMatch(JSON.stringify(measured(id, loaded)), /null/);
  }
  assert.deepEqual(measured("double", [load("prompt_doubled")]).map((r) => r.tokens), [74, 148]);
});

test("a wait while the device was away is part of the gap it fell into", () => {
  const run = load("one_question");
  const before = gapsUs(run, story(run, "A"));
  run.steps[9].timing.away_us = 5e6;
  const after = gapsUs(run, story(run, "A"));
  assert.deepEqual(after.map((us, i) => Math.round(us - before[i])).filter((us) => us), [5e6]);
});

test("MFU and MBU are the work over the time over the ceiling", () => {
  const work = { flops: 4e9, bytes: 1e9 };
  const a = against(work, 500_000, { flops: 16e9, bytes: 8e9 });
  assert.deepEqual([a.mfu, a.mbu, a.floor, a.bound, a.intensity], [0.5, 0.25, 0.25, "compute", 4]);
  assert.equal(against(work, 500_000, null).mfu, undefined);
});

test("each number of a step opens to a formula that gives it", () => {
  const run = load("one_question");
  const machine = { flops: 4e11, bytes: 3e10 };
  for (const step of run.steps) {
    for (const { key, value, formula } of rows(run, step, machine, [{ id: "h", short: "H", title: "H", flops: 1e15, bytes: 3e12 }], "")) {
      assert.doesNotMatch(value + formula, /undefined|NaN|null/, key);
      if (key !== "flops" && key !== "bytes") continue;
      const [sum, total] = formula.replace(/,/g, "").split(" = ");
      const terms = sum.split(" + ").map((t) => t.match(/[\d]+/g).map(Number).reduce((a, b) => a * b, 1));
      assert.equal(terms.reduce((a, b) => a + b, 0), Number(total.match(/\d+/)[0]), formula);
      assert.equal(Number(total.match(/\d+/)[0]), step.work[key]);
    }
  }
});

test("numbers and axes are round", () => {
  assert.deepEqual(ticks(278), [0, 100, 200, 300]);
  assert.equal(median([3, 1, 2]), 2);
  assert.equal(median([]), null);
  assert.equal(short(273867264, "FLOP"), "0.27 GFLOP");
  assert.equal(short(26.6e9, "B/s"), "26.6 GB/s");
  assert.equal(powerOfTen(1e6), "10⁶");
  assert.equal(stepUs({}), 0);
});

test("no file turns strings into markup, and only two of them speak to the server", () => {
  const folder = new URL("../../ui/components/live_run/js/", import.meta.url);
  const forbidden = /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|createContextualFragment|DOMParser|srcdoc|XMLHttpRequest|WebSocket|https?:\/\//;
  for (const name of readdirSync(folder).filter((f) => f.endsWith(".js"))) {
    const text = readFileSync(new URL(name, folder), "utf8");
    assert.doesNotMatch(text, forbidden, name);
    if (!["engine.js", "sse.js"].includes(name)) assert.doesNotMatch(text, /\bfetch\(/, name);
  }
});

// The class without its document: only what a key makes it do.
function pressed(key, { present = true, on = "BODY", repeat = false } = {}) {
  const did = [];
  const bench = Object.assign(Object.create(Bench.prototype), { k: 3, present, run: { steps: Array(9) }, go: (k) => did.push(k), toggleRun: () => did.push("run") });
  bench.key({ key, repeat, composedPath: () => [{ tagName: on }], preventDefault: () => did.push("kept") });
  return did;
}

test("on a projector a clicker's keys step and Space replays; a button keeps its own Space", () => {
  assert.deepEqual(pressed("PageDown"), ["kept", 4]);
  assert.deepEqual(pressed("PageUp"), ["kept", 2]);
  assert.deepEqual(pressed("PageDown", { present: false }), []);
  assert.deepEqual(pressed(" "), ["kept", "run"]);
  assert.deepEqual(pressed(" ", { repeat: true }), ["kept"]);
  assert.deepEqual(pressed(" ", { on: "BUTTON" }), []);
  assert.deepEqual(pressed(" ", { present: false }), []);
  assert.deepEqual(pressed("PageDown", { on: "INPUT" }), []);
});

test("a number field is left with a number that the link can carry", () => {
  const left = (value) => {
    const input = { value, defaultValue: "48", min: "1", max: "256" };
    settle(input);
    assert.equal(input.value, input.defaultValue);
    return input.value;
  };
  assert.deepEqual(["9999", "0.4", "-5", "", "12.6", "words", "256"].map(left), ["256", "1", "1", "48", "13", "48", "256"]);
});

test("a lost run's last words outlast the engine's return, and a status older than the loss is no return", () => {
  const bench = { data: { experiments: {}, recorded: [] }, later() {}, say(text, more) { this.notice = text ? { text, ...more } : null; } };
  const session = new Session(bench);
  session.heard({ state: "busy", life: "a" });
  assert.ok(session.canLive);
  session.ended({ reason: "engine_lost" }, "live");
  const { text } = bench.notice;
  assert.match(text, /^The engine was lost/);
  session.heard({ state: "busy", life: "a" }); // asked before its end was known
  assert.equal(bench.notice.text, text);
  assert.equal(session.canLive, false);
  session.heard({ state: "restarting", life: "a" });
  session.heard({ state: "ready", life: "b" });
  assert.equal(bench.notice.text, `${text} The engine is back. Run goes live again.`);
  assert.ok(session.canLive);
  session.ended({ reason: "engine_lost" }, "live"); // the line was lost, and the engine lives on
  session.heard({ state: "ready", life: "b" }, Date.now() + 6000);
  assert.ok(session.canLive);
});

test("a presenter's key plays the recording while the engine stalls, and what comes back late changes nothing", async () => {
  const said = [];
  const shown = [];
  const bench = {
    data: { experiments: {}, recorded: [], first: "one_question" }, recordedName: null, base: null, story: {}, exp: null,
    ask: { prompt: { value: "Hello" }, tokens: { defaultValue: "8" }, chat: { checked: false } },
    link: { commit() {} }, later() {}, grown() {}, say: (text) => said.push(text), show: (run, how) => shown.push(how.name ?? "live"),
  };
  const session = new Session(bench);
  session.heard({ state: "ready", life: "a" });
  session.cache = new Map([["one_question", load("one_question")]]);
  let answer;
  const { fetch: before, window: hadWindow } = globalThis;
  const asked = [];
  globalThis.window = { location: { href: "http://here/page" }, matchMedia: () => ({ matches: false }) };
  globalThis.fetch = (url, how = {}) => {
    asked.push(`${how.method ?? "GET"} ${url}`);
    return how.method === "POST" ? new Promise((resolve) => (answer = resolve)) : Promise.resolve({ ok: true, json: async () => ({}) });
  };
  try {
    const stalled = session.run(); // the engine takes the request and never answers
    await Promise.resolve();
    assert.ok(session.busy);
    await session.recordedInstead("one_question");
    assert.ok(session.running);
    assert.deepEqual(shown, ["one_question"]);
    assert.match(said.at(-1), /^This is a replay of the recorded run/);
    answer({ ok: true, status: 202, json: async () => ({ id: "late" }), headers: { get: () => null } });
    await stalled;
    assert.ok(session.running, "the replay goes on");
    assert.deepEqual(shown, ["one_question"]);
    assert.match(said.at(-1), /^This is a replay/);
    assert.ok(asked.some((line) => line.startsWith("DELETE") || line.includes("late")), "the late run is given up");
  } finally {
    session.dispose();
    globalThis.fetch = before;
    globalThis.window = hadWindow;
  }
});

test("the page takes a presenter's wish once, for the run that it shows or its first", () => {
  const wishes = [];
  const bench = Object.assign(Object.create(Bench.prototype), { recordedName: null, data: { first: "one_question" }, session: { recordedInstead: (name) => wishes.push(name) } });
  const event = () => ({ defaultPrevented: false, preventDefault() { this.defaultPrevented = true; } });
  const wish = event();
  bench.playRecorded(wish);
  bench.playRecorded(wish);
  assert.deepEqual(wishes, ["one_question"]);
  bench.recordedName = "prompt_doubled";
  bench.playRecorded(event());
  assert.deepEqual(wishes, ["one_question", "prompt_doubled"]);
});
