// Time and work of a run: plain arithmetic over its records. The twin of ui/prefill/metrics.py.
//
// Times are the engine's own, in microseconds: what a step took to decide, compute and sample. The
// way to the browser is not in them.
import { requestOf } from "../../run_player/js/runinfo.js";

export const stepUs = ({ timing: t = {} }) => (t.schedule_us ?? 0) + (t.forward_us ?? 0) + (t.sample_us ?? 0);
export const forwardUs = (step) => step.timing?.forward_us ?? 0;
export const isMeasured = (run) => run.steps.some((s) => forwardUs(s) > 0);
export const stepTokens = (step) => Object.values(step.scheduled).reduce((a, s) => a + s.num_scheduled_tokens, 0);
export const numSequences = (step) => Object.keys(step.scheduled).length;

export function median(values) {
  if (!values.length) return null;
  const v = [...values].sort((a, b) => a - b);
  const m = v.length >> 1;
  return v.length % 2 ? v[m] : (v[m - 1] + v[m]) / 2;
}

const between = (run, from, to) => {
  let us = 0;
  // away_us: a request waits just as long while the device is somebody else's
  for (let k = from; k <= to; k++) us += stepUs(run.steps[k]) + (run.steps[k].timing?.away_us ?? 0);
  return us;
};

// Time to the first token: all steps from the request's arrival to the one that sampled it.
export function ttftUs(run, s) {
  return s.tokens.length && s.arrived !== null ? between(run, s.arrived, s.tokens[0].k) : null;
}

// Gaps between its tokens: the steps after one, up to the next.
export function gapsUs(run, s) {
  return s.tokens.slice(1).map((t, i) => between(run, s.tokens[i].k + 1, t.k));
}

// sequence → tokens of its prompt, for all that a run names, other people's too.
export function promptLengths(run) {
  const out = new Map();
  for (const step of run.steps)
    for (const e of step.events)
      if (e.type === "request_arrived") for (const q of e.sequences ?? [e.request]) out.set(q, e.num_prompt_tokens);
  return out;
}

// "prefill", "decode", "both", "again" (no KV cache: everything is computed again) or "idle".
export function kindOf(step, lengths, keepsKV = true) {
  const kinds = new Set();
  for (const [id, s] of Object.entries(step.scheduled)) {
    const before = s.num_computed_tokens + s.num_cached_tokens;
    const prompt = lengths.get(id) ?? lengths.get(requestOf(id)) ?? 0;
    if (!keepsKV && before === 0 && s.num_scheduled_tokens > prompt) kinds.add("again");
    else kinds.add(before < prompt ? "prefill" : "decode");
  }
  if (!kinds.size) return "idle";
  return kinds.size === 1 ? [...kinds][0] : "both";
}

// A step's work against a machine's ceilings. machine: {flops, bytes} per second.
export function against(work, us, machine) {
  const seconds = us / 1e6;
  const out = { intensity: work.bytes ? work.flops / work.bytes : 0, rate: seconds > 0 ? work.flops / seconds : null };
  if (!machine) return out;
  const computing = work.flops / machine.flops;
  const moving = work.bytes / machine.bytes;
  return {
    ...out,
    computing,
    moving,
    floor: Math.max(computing, moving),
    bound: computing > moving ? "compute" : "memory",
    mfu: seconds > 0 ? computing / seconds : null,
    mbu: seconds > 0 ? moving / seconds : null,
  };
}

// Seconds that a modelled accelerator needs at least, as core.sizing.step_time counts: matrices and
// attention run one after the other, each for the longer of its computing and its reading.
export function modelledSeconds(work, { flops, bytes }) {
  const matrices = Math.max((work.linear_flops + work.logits_flops) / flops, (work.weight_bytes + work.logits_bytes) / bytes);
  const attention = Math.max(work.attention_flops / flops, (work.kv_read_bytes + work.kv_write_bytes) / bytes);
  return matrices + attention;
}

// Batch size → the median step that decodes so many sequences and nothing else.
export function byBatch(run) {
  const lengths = promptLengths(run);
  const groups = new Map();
  run.steps.forEach((step, k) => {
    if (kindOf(step, lengths) !== "decode") return;
    const n = numSequences(step);
    if (!groups.has(n)) groups.set(n, []);
    groups.get(n).push(k);
  });
  return [...groups].sort((a, b) => a[0] - b[0]).map(([batch, ks]) => {
    const us = median(ks.map((k) => stepUs(run.steps[k])));
    return { batch, steps: ks.length, us, tokensPerS: us ? (batch * 1e6) / us : null, k: ks[ks.length >> 1] };
  });
}
