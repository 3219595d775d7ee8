// Steps of a run as they come from Python, the ranges that name some of them, and sums over some.
import { num, plural } from "../../run_player/js/util.js";

export const PARTS = ["whole", "matrices", "attention"];

// Rows as objects, {step: its number, …, whole, matrices, attention}; a part that did nothing stays
// null. measured: {columns, rows}
export function stepsOf(measured) {
  const named = (values) => values && Object.fromEntries(measured.columns.map((name, i) => [name, values[i]]));
  return measured.rows.map(([step, kind, tokens, sequences, stepUs, ...parts]) => ({
    step,
    kind,
    tokens,
    sequences,
    stepUs,
    ...Object.fromEntries(PARTS.map((name, i) => [name, named(parts[i])])),
  }));
}

// "8-15,20" → Set {8 … 15, 20}, of steps that there are.
export function parseRanges(text, steps) {
  const wanted = text
    .split(",")
    .filter(Boolean)
    .map((part) => part.split("-").map(Number));
  return new Set(steps.map((s) => s.step).filter((k) => wanted.some(([a, b = a]) => a <= k && k <= b)));
}

// [[8, 15], [20, 20]] of a set of steps; those that stand next to each other in the run are a range.
export function rangesOf(chosen, steps) {
  const out = [];
  let open = null;
  for (const { step } of steps) {
    if (!chosen.has(step)) open = null;
    else if (open) open[1] = step;
    else out.push((open = [step, step]));
  }
  return out;
}

export const writeRanges = (ranges) => ranges.map(([a, b]) => (a === b ? String(a) : `${a}-${b}`)).join(",");

export function sayRanges(ranges) {
  const said = ranges.slice(0, 6).map(([a, b]) => (a === b ? num(a) : `${num(a)}–${num(b)}`));
  const more = ranges.length - said.length;
  const one = ranges.length === 1 && ranges[0][0] === ranges[0][1];
  return `${one ? "Step" : "Steps"} ${said.join(", ")}${more > 0 ? ` and ${plural(more, "range")} more` : ""}`;
}

// Several steps as one: FLOPs, bytes and time of a part added up, and what they come to together.
export function total(steps, part, ceilings) {
  const used = steps.map((s) => s[part]).filter(Boolean);
  if (!used.length) return null;
  const sum = (name) => used.reduce((a, p) => a + p[name], 0);
  const [flops, bytes, us] = ["flops", "bytes", "us"].map(sum);
  const rate = (flops * 1e6) / us;
  return {
    flops,
    bytes,
    us,
    intensity: flops / bytes,
    rate,
    mfu: ceilings ? rate / ceilings.flops_per_s : null,
    mbu: ceilings ? (bytes * 1e6) / us / ceilings.read_bytes_per_s : null,
  };
}

export const KINDS = { prefill: "prefill", decode: "decode", both: "mixed" };

// "7 decode, 1 mixed"
export function kindsOf(steps) {
  const counted = Object.keys(KINDS).map((kind) => [steps.filter((s) => s.kind === kind).length, KINDS[kind]]);
  return counted.filter(([n]) => n).map(([n, name]) => `${num(n)} ${name}`).join(", ");
}
