// What can be done to whom after a step. Plain functions of the spans that Python gives:
//   {seq, request, first, last: steps after which it waits or runs, forks: [[first, last], …],
//    full: the same, where only a place for the copy is missing}
export const aliveAt = (spans, k) => spans.filter((s) => s.first <= k && k <= s.last);

const within = (stretches, k) => stretches.some(([a, b]) => a <= k && k <= b);

export const canFork = (span, k) => within(span.forks, k);

// Why an action cannot be done now, or null. `span`: of the chosen sequence; `data.refused`: why
// this run allows none at all; `data.forks`: whether its engine can fork.
export function whyNot(kind, span, k, data) {
  if (data.refused) return data.refused;
  if (kind === "add") return null;
  if (!span) return `No sequence waits or runs after step ${k}.`;
  if (kind !== "fork") return null;
  if (!data.forks) return "This engine cannot fork: its memory is reserved, or its batch is closed.";
  if (canFork(span, k)) return null;
  if (within(span.full, k)) return `No place is left for a copy of ${span.seq}: see max_num_seqs.`;
  return `${span.seq} has no token of its own yet, or does not run on.`;
}

// The request that "Add" asks for, from the fields of its form; or the sentence that says what is
// missing.
export function asked(form) {
  const out = { max_tokens: whole(form.max, 1, 512), n: whole(form.n, 1, 8) };
  if (out.max_tokens === null) return { why: "An answer has 1 to 512 tokens." };
  if (out.n === null) return { why: "A request has 1 to 8 answers." };
  if (form.kind === "text") {
    if (form.text === "") return { why: "Type a prompt: each byte of it is a token." };
    return { ...out, text: form.text };
  }
  out.own = whole(form.own, form.kind === "prefix" ? 0 : 1, 4000);
  if (out.own === null) return { why: "A prompt has 1 to 4,000 tokens." };
  if (form.kind === "tokens") return out;
  out.shared = whole(form.shared, 1, 4000);
  if (out.shared === null) return { why: "Share at least 1 token." };
  if (!form.seq) return { why: "There is no sequence to share with." };
  return { ...out, seq: form.seq };
}

function whole(text, least, most) {
  const n = Number(text);
  return /^\d+$/.test(String(text).trim()) && n >= least && n <= most ? n : null;
}
