// A run as it grows: the events of a stream put together into run/1, and what becomes of one request.

export class Growing {
  constructor(header) {
    this.header = { ...header, prompts: { ...header.prompts }, token_text: { ...header.token_text } };
    this.steps = [];
    this.texts = {};
  }

  addStep({ token_text, ...step }) {
    Object.assign(this.header.token_text, token_text);
    this.steps.push(step);
  }

  addText({ request, sequence, text }) {
    const id = sequence ?? request;
    this.texts[id] = (this.texts[id] ?? "") + text;
  }

  run() {
    return { schema: "run/1", header: this.header, steps: this.steps };
  }
}

// The requests that can be followed: those whose prompt is known here.
export function requestsOf(run) {
  return (run.header.scenario?.requests ?? []).map((r) => r.id).filter((id) => run.header.prompts?.[id]);
}

// What happened to the first sequence of a request, from the log alone. Indices are places in
// run.steps.
//
// prefill: [{k, n, before}] the steps that computed its prompt; tokens: [{k, token}] what it sampled;
// shares: [{k, n, before}] every step it took part in, `before` counting tokens computed or cached.
export function story(run, request) {
  const prompt = run.header.prompts?.[request] ?? [];
  const out = { request, sequence: null, promptTokens: prompt.length, cached: 0, arrived: null, prefill: [], shares: [], tokens: [], finished: null };
  run.steps.forEach((step, k) => {
    for (const e of step.events) {
      if (e.type === "request_arrived" && e.request === request) {
        out.sequence = e.sequences?.[0] ?? request;
        out.arrived = k;
        out.promptTokens = e.num_prompt_tokens ?? prompt.length;
      } else if (e.sequence === undefined || e.sequence !== out.sequence) continue;
      else if (e.type === "admitted") out.cached = e.num_cached_tokens ?? 0;
      else if (e.type === "token_sampled") out.tokens.push({ k, token: e.token ?? null });
      else if (e.type === "finished") out.finished = { k, reason: e.reason };
    }
    const share = out.sequence === null ? undefined : step.scheduled[out.sequence];
    if (!share) return;
    const part = { k, n: share.num_scheduled_tokens, before: share.num_computed_tokens + share.num_cached_tokens };
    out.shares.push(part);
    if (part.before < out.promptTokens && (out.tokens.length === 0 || out.tokens[0].k === k)) out.prefill.push(part);
  });
  return out;
}
