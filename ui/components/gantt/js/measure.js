// What the picture computes itself: which targets are met, where a step lies, how waits are stacked.
// Everything else comes from core/trace/serving_metrics.py.

// Whether a sequence was answered to its end, got its first token within `ttft` and every later one
// within `gap`; in steps, or in microseconds. The twin of serving_metrics.meets.
export function meets(row, targets, unit) {
  if (row.finish_reason === null || row.finish_reason === "cancelled") return false;
  const ttft = unit === "ms" ? row.ttft_us : row.ttft_steps;
  const worst = unit === "ms" ? row.worst_gap_us : row.worst_gap_steps;
  return ttft !== null && ttft <= targets.ttft && (worst ?? 0) <= targets.gap;
}

// {met, of, share, rate}: requests that meet both targets with every answer, of all that came; rate is
// those that meet them, a second or in 100 steps. The twin of serving_metrics.goodput.
export function goodput(serving, targets, unit) {
  const answers = new Map(serving.rows.map((r) => [r.request, []])); // a pruned beam is no answer
  for (const r of serving.rows) if (r.finish_reason !== "pruned") answers.get(r.request).push(meets(r, targets, unit));
  const met = [...answers.values()].filter((each) => each.length > 0 && each.every(Boolean)).length;
  const of = answers.size;
  const { steps, duration_us: us } = serving.summary;
  const time = unit === "ms" ? us / 1e6 : steps / 100;
  return { met, of, share: of ? met / of : null, rate: time ? met / time : 0 };
}

const ROUND = [1, 1.5, 2, 3, 4, 5, 6, 8];

// Values for a slider of targets: round ones, from below the smallest to the largest that matters.
export function stops(values, whole) {
  const known = values.filter((v) => v > 0);
  if (!known.length) return [1];
  const lo = Math.min(...known);
  const hi = Math.max(...known);
  const out = [];
  for (let p = Math.floor(Math.log10(lo)) - 1; p <= Math.ceil(Math.log10(hi)); p++) {
    for (const m of ROUND) {
      const v = Number((m * 10 ** p).toPrecision(2));
      if (whole && !Number.isInteger(v)) continue;
      out.push(v);
    }
  }
  const from = Math.max(0, out.findLastIndex((v) => v <= lo) - 1);
  const to = out.findIndex((v) => v >= hi);
  return out.slice(from, (to < 0 ? out.length : to) + 1);
}

// The stop that a target stands on: the largest that is not above it.
export const nearestStop = (list, value) => Math.max(0, list.findLastIndex((v) => v <= value * (1 + 1e-9)));

// Where steps lie: in steps all are equally wide, in milliseconds as wide as they took. Places are
// pixels from the left edge of the axis; `span` is what its whole width stands for.
export class Axis {
  constructor(kind, ends, span, width) {
    Object.assign(this, { kind, ends, span, width });
  }

  start(k) {
    if (this.kind === "steps") return (k / this.span) * this.width;
    return ((k ? this.ends[k - 1] : 0) / this.span) * this.width;
  }

  column(k) {
    const x = this.start(k);
    return [x, Math.max(0.5, this.start(k + 1) - x)];
  }

  // The step under a place; n: how many the run has.
  at(px, n) {
    if (this.kind === "steps") return Math.max(0, Math.min(n - 1, Math.floor((px / this.width) * this.span)));
    const t = (px / this.width) * this.span;
    let lo = 0;
    let hi = n - 1;
    while (lo < hi) {
      const mid = (lo + hi) >> 1;
      if (this.ends[mid] > t) hi = mid;
      else lo = mid + 1;
    }
    return Math.max(0, lo);
  }
}

// The waits of all sequences as spans [sequence, from, to, reasons], stacked so that none overlaps
// another: [{lane, sequence, from, to}], in order of their beginning.
export function queueOf(rows) {
  const spans = [];
  for (const row of rows) {
    for (const [from, to] of row.waits) {
      const last = spans.at(-1);
      if (last && last.sequence === row.sequence && last.to === from) last.to = to;
      else spans.push({ sequence: row.sequence, from, to });
    }
  }
  spans.sort((a, b) => a.from - b.from);
  const ends = [];
  for (const span of spans) {
    let lane = ends.findIndex((end) => end <= span.from);
    if (lane < 0) lane = ends.length;
    ends[lane] = span.to;
    span.lane = lane;
  }
  return { spans, lanes: ends.length };
}

// For every step the gaps of the tokens sampled in it: [[{sequence, gap}, …], …].
export function gapsByStep(serving, unit) {
  const out = Array.from({ length: serving.summary.steps }, () => []);
  for (const row of serving.rows) {
    for (let i = 1; i < row.sampled.length; i++) {
      const gap = unit === "ms" ? row.gaps_us[i - 1] : row.sampled[i] - row.sampled[i - 1];
      out[row.sampled[i]].push({ sequence: row.sequence, gap });
    }
  }
  return out;
}
