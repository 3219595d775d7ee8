// The three experiments: the scenarios that the engine is given, and what their runs say.
import { num, plural } from "../../run_player/js/util.js";
import { byBatch, gapsUs, median, stepTokens, stepUs, ttftUs } from "./metrics.js";
import { requestsOf, story } from "./trace.js";

const BLOCK = 16;
const ANSWER = 24; // tokens of each answer in "double"
const LONG = 48; // and with the KV cache off
const PHASE = 8; // decode steps at each batch size
const SIZES = [1, 2, 4, 8, 16, 32];
const OWN_PROMPT = 16; // prompt tokens of each request in "batch": decoding is what it is about

export const EXPERIMENTS = [
  { id: "double", title: "Double the prompt", about: (n) => `${num(n)} → ${num(2 * n)} tokens, same output` },
  { id: "batch", title: "Batch 1 to 32", about: () => "watch where the gap begins to grow" },
  { id: "cache", title: "KV cache off", about: () => "every step computes everything again" },
];

const engine = (tokens, sequences, prompt, more = {}) => ({
  num_blocks: sequences * Math.ceil(tokens / BLOCK) + 4,
  block_size: BLOCK,
  max_num_seqs: sequences,
  max_num_batched_tokens: Math.max(512, prompt),
  max_model_len: Math.ceil((tokens + 1) / BLOCK) * BLOCK,
  prefix_cache: "off",
  ...more,
});

// base: {model, ids} token ids of the prompt; they are the ones of the run on the page.
export function scenariosFor(id, { model, ids }) {
  const n = ids.length;
  const make = (name, settings, requests) => ({ schema: "scenario/1", name, model, engine: settings, requests });
  const ask = (name, prompt_tokens, max_tokens, more = {}) => ({ id: name, prompt_tokens, max_tokens, ignore_eos: true, ...more });
  if (id === "double") {
    return [make("The prompt doubled", engine(2 * n + ANSWER, 1, 2 * n), [ask("A", ids, ANSWER), ask("B", [...ids, ...ids], ANSWER, { arrive_step: ANSWER })])];
  }
  if (id === "batch") {
    const some = ids.slice(0, OWN_PROMPT);
    const end = PHASE * SIZES.length;
    const requests = [];
    SIZES.forEach((size, phase) => {
      while (requests.length < size) requests.push(ask(`R${requests.length + 1}`, some, end - PHASE * phase, { arrive_step: PHASE * phase }));
    });
    return [make("Batch 1 to 32", engine(some.length + end, SIZES.at(-1), 512), requests)];
  }
  return [true, false].map((on) => make(`KV cache ${on ? "on" : "off"}`, engine(n + LONG, 1, n + LONG, { kv_cache: on }), [ask("A", ids, LONG)]));
}

// What the runs of an experiment say: {rows: [{label, cells: [{us | text, of}], k, run}], head, note}.
// `of` scales a cell's bar; run and k lead to the step that a row is about.
export function summarise(id, runs) {
  if (id === "double") return doubled(runs[0]);
  if (id === "batch") return batches(runs[0]);
  return uncached(runs[0], runs[1]);
}

export function measured(id, runs) {
  const one = (run, request) => {
    const s = story(run, request);
    return { tokens: s.promptTokens, ttft_us: ttftUs(run, s), gap_us: median(gapsUs(run, s)) };
  };
  if (id === "double") return requestsOf(runs[0]).slice(0, 2).map((r) => one(runs[0], r));
  if (id === "batch") return byBatch(runs[0]).map(({ batch, us }) => ({ batch, gap_us: us }));
  return runs.map((run) => ({ ...one(run, requestsOf(run)[0]), kept: run.header.scenario.engine.kv_cache }));
}

const ratio = (a, b) => (a && b ? `× ${(b / a).toFixed(b / a < 10 ? 2 : 0)}` : "–");

function doubled(run) {
  const both = requestsOf(run).slice(0, 2).map((r) => ({ s: story(run, r), r }));
  const rows = both.map(({ s }) => ({ s, ttft: ttftUs(run, s), gap: median(gapsUs(run, s)) }));
  const most = Math.max(...rows.map((x) => x.ttft ?? 0));
  const [a, b] = rows;
  return {
    head: ["Prompt", "Time to first token", "Gap, median"],
    rows: rows.map((x) => ({
      label: plural(x.s.promptTokens, "token"),
      cells: [{ us: x.ttft, of: most }, { us: x.gap, of: most }],
      run: 0,
      k: x.s.tokens[0]?.k ?? 0,
      request: x.s.request,
    })),
    note: a?.ttft && b?.ttft && a.gap && b.gap ? `First token ${ratio(a.ttft, b.ttft)}, gap ${ratio(a.gap, b.gap)}. The first token waits for the whole prompt. A later step computes one token however long the prompt was, and only reads more keys and values.` : "",
  };
}

function batches(run) {
  const found = byBatch(run).filter((x) => SIZES.includes(x.batch));
  const slowest = Math.max(...found.map((x) => x.us ?? 0));
  const most = Math.max(...found.map((x) => x.tokensPerS ?? 0));
  const [a, b] = [found[0], found.at(-1)];
  return {
    head: ["Batch", "Step, median", "Tokens per second"],
    rows: found.map((x) => ({
      label: plural(x.batch, "sequence"),
      cells: [{ us: x.us, of: slowest }, { text: x.tokensPerS ? num(Math.round(x.tokensPerS)) : "–", share: x.tokensPerS / most }],
      run: 0,
      k: x.k,
    })),
    note: found.length > 1 ? `From ${num(a.batch)} to ${num(b.batch)} sequences a step takes ${ratio(a.us, b.us)} as long and gives ${ratio(a.tokensPerS, b.tokensPerS)} the tokens: the weights are read once for all. The gap grows once arithmetic, or reading everyone's keys and values, takes longer than reading the weights.` : "",
  };
}

function uncached(on, off) {
  const of = (run) => {
    const s = story(run, requestsOf(run)[0]);
    const gaps = gapsUs(run, s);
    const total = run.steps.reduce((a, step) => a + stepUs(step), 0);
    return { s, total, early: median(gaps.slice(0, 6)), late: median(gaps.slice(-6)), tokens: run.steps.reduce((a, step) => a + stepTokens(step), 0) };
  };
  const both = [on, off].filter(Boolean).map(of);
  const most = Math.max(...both.map((x) => x.late ?? 0));
  const all = Math.max(...both.map((x) => x.total));
  return {
    head: ["KV cache", "First gaps", "Last gaps", "Whole answer"],
    rows: both.map((x, i) => ({
      label: `${i ? "off" : "on"}, ${num(x.tokens)} tokens computed`,
      cells: [{ us: x.early, of: most }, { us: x.late, of: most }, { us: x.total, of: all }],
      run: i,
      k: x.s.tokens.at(-1)?.k ?? 0,
    })),
    note: both.length > 1 ? `Without a cache every step computes the prompt and all of the answer again: ${num(both[1].tokens)} tokens instead of ${num(both[0].tokens)}, and each step more than the one before.` : "",
  };
}
