// The five stages of an answer, told from the run's own log. Each states what holds in it, and in how
// many steps of this run that was checked.
import { num, plural } from "../../run_player/js/util.js";

export const STAGES = ["Tokenise", "Prefill", "Keys and values", "Decode", "Append and stop"];

const ENDED = {
  stop_token: "the model sampled its end token",
  stop_string: "a stop string was completed",
  max_tokens: "it has as many tokens as were asked for",
  max_model_len: "the context is full",
  script_end: "the script has no more tokens",
  cancelled: "it was cancelled",
  error: "of an error",
};
export const endOf = (reason) => ENDED[reason] ?? reason;

const tally = (list, holds) => ({ of: list.length, ok: list.filter(holds).length });

// The stage that a step belongs to, for the request that is followed.
export function stageOf(s, k) {
  if (!s.tokens.length || k < s.tokens[0].k) return 1;
  if (k === s.tokens[0].k) return 1;
  return s.finished && k >= s.finished.k ? 4 : 3;
}

// The step to look at for a stage.
export function stepOf(s, stage) {
  const first = s.prefill.at(-1)?.k ?? s.arrived ?? 0;
  if (stage <= 2) return stage === 0 ? s.arrived ?? 0 : first;
  if (stage === 3) return s.tokens[1]?.k ?? first;
  return s.finished?.k ?? s.tokens.at(-1)?.k ?? first;
}

// What of a sequence is stored after step k, in tokens.
export function storedAfter(s, k) {
  const part = s.shares.filter((x) => x.k <= k).at(-1);
  return part ? part.before + part.n : 0;
}

// [{title, line, holds, ok, of}] for the five stages; `of` is 0 where nothing could be checked yet.
export function stages(run, s, k) {
  const { header } = run;
  const perToken = header.kv_bytes_per_token ?? 0;
  const keeps = header.scenario?.engine?.kv_cache !== false;
  const P = s.promptTokens;
  const stored = keeps ? storedAfter(s, k) : 0;
  const now = s.tokens.filter((t) => t.k <= k).length;
  return [tokenise(header, s, P), prefill(s, P), written(run, stored, perToken, keeps), decode(s, P, keeps), stop(s, P, now, keeps)];
}

function tokenise(header, s, P) {
  const ids = header.prompts?.[s.request] ?? [];
  const text = header.scenario?.requests?.find((r) => r.id === s.request)?.prompt;
  const parts = ids.map((id) => header.token_text?.[id]);
  const whole = parts.every((p) => typeof p === "string" && !/^⟨[0-9a-f]{2}/.test(p));
  const check = typeof text === "string" && ids.length && whole ? { of: 1, ok: Number(parts.join("") === text) } : { of: 0, ok: 0 };
  return {
    line: plural(P, "prompt token"),
    holds: "The pieces joined give back the exact text: nothing is lost on the way to ids.",
    ...check,
    unit: "prompt",
  };
}

function prefill(s, P) {
  const steps = s.prefill;
  const computed = steps.reduce((a, x) => a + x.n, 0);
  const line = !steps.length ? "not yet" : steps.length === 1 ? `${plural(steps[0].n, "token")} in step ${num(steps[0].k)}` : `${plural(computed, "token")} in ${num(steps.length)} chunks`;
  const last = steps.at(-1);
  const done = last && last.before + last.n >= P;
  const firsts = s.tokens.filter((t) => t.k === last?.k).length;
  return {
    line: s.cached ? `${line}, ${num(s.cached)} found` : line,
    holds: `After it all ${plural(P, "prompt token")} are computed${s.cached ? ` (${num(s.cached)} were in the cache)` : ""}, and one token is sampled.`,
    of: done ? 1 : 0,
    ok: done && last.before + last.n === P && firsts === 1 ? 1 : 0,
    unit: "prefill",
  };
}

function written(run, stored, perToken, keeps) {
  if (!keeps) {
    return { line: "nothing is kept", holds: "Without a cache no block is in use after any step.", ...tally(run.steps, (step) => step.usage.in_use === 0), unit: "step" };
  }
  const counted = run.steps.filter((step) => step.work && perToken);
  const tokens = (step) => Object.values(step.scheduled).reduce((a, x) => a + x.num_scheduled_tokens, 0);
  return {
    line: perToken ? `${num(stored * perToken)} B kept` : `${plural(stored, "token")} kept`,
    holds: perToken ? `Bytes written = tokens in the step × ${num(perToken)} B. Nothing else is kept.` : "Each token computed is kept once.",
    ...tally(counted, (step) => step.work.kv_write_bytes === tokens(step) * perToken),
    unit: "step",
  };
}

function decode(s, P, keeps) {
  const parts = s.shares.filter((x) => s.tokens.length && x.k > s.tokens[0].k);
  if (!keeps) {
    return {
      line: parts.length ? `${num(parts.at(-1).n)} tokens for one` : "not yet",
      holds: "Each step computes the whole sequence again: prompt + answer so far.",
      ...tally(parts, (x) => x.before === 0 && x.n === P + s.tokens.filter((t) => t.k < x.k).length),
      unit: "step",
    };
  }
  return {
    line: parts.length ? "1 token a step" : "not yet",
    holds: "Each step computes the token sampled last: computed = tokens − 1.",
    ...tally(parts, (x) => x.n === 1 && x.before === P + s.tokens.filter((t) => t.k < x.k).length - 1),
    unit: "step",
  };
}

function stop(s, P, now, keeps) {
  const n = s.tokens.length;
  const last = s.shares.at(-1);
  const total = last ? last.before + last.n : 0;
  const ended = s.finished !== null;
  return {
    line: ended ? `${plural(n, "token")}: ${s.finished.reason.replaceAll("_", " ")}` : `${num(now)} so far`,
    holds: ended ? `${num(n)} sampled, ${num(total)} computed: ${num(P)} + ${num(n)} − 1. It stops because ${endOf(s.finished.reason)}.` : "The last token sampled is never computed: nothing comes after it.",
    of: ended && n ? 1 : 0,
    ok: ended && total === P + n - 1 ? 1 : 0,
    unit: keeps ? "answer" : "answer",
  };
}
