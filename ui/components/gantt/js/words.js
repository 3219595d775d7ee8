// Numbers with their units, and what is said of one sequence.
import { WAITING } from "../../run_player/js/sentences.js";
import { ms, num, plural } from "../../run_player/js/util.js";

export const time = (v, unit) => (v === null || v === undefined ? "–" : unit === "ms" ? `${ms(v)} ms` : plural(v, "step"));
export const bare = (v, unit) => (v === null || v === undefined ? "–" : unit === "ms" ? ms(v) : num(v));
export const shareOf = (x) => (x === null ? "–" : `${x > 0 && x < 0.0995 ? (100 * x).toFixed(1) : Math.round(100 * x)}\u00a0%`);

const steps = (a, b) => (b - a === 1 ? `in step ${num(a)}` : `in steps ${num(a)}–${num(b - 1)}`);

// Every wait with its reason: [{when, reason, why}].
export function waitsOf(row, engine) {
  return row.waits.map(([from, to, reason, needed, available]) => ({
    when: steps(from, to),
    reason,
    why: WAITING[reason]?.({ sequence: row.sequence, needed: needed ?? undefined, available: available ?? undefined }, { engine }) ?? "",
  }));
}

export function lifeOf(row, unit) {
  if (row.rejected !== null) return [`arrives in step ${num(row.arrived)} and is refused (${row.rejected})`];
  const out = [`arrives in step ${num(row.arrived)}`];
  out.push(row.admitted === null ? "is never let in" : `let in in step ${num(row.admitted)}`);
  if (row.first_token !== null) out.push(`first token in step ${num(row.first_token)}`);
  if (row.preempted.length) out.push(`sent away in ${plural(row.preempted.length, "step")}: ${row.preempted.map(num).join(", ")}`);
  if (row.recomputed) out.push(`${plural(row.recomputed, "token")} computed again`);
  if (row.ended !== null) out.push(`ends in step ${num(row.ended)}`);
  return out;
}

// One sentence for a tooltip.
export function tipOf(row, unit, engine) {
  const waits = waitsOf(row, engine);
  const why = waits.length ? ` Waits ${waits[0].when}: ${waits[0].why}${waits.length > 1 ? ` And ${plural(waits.length - 1, "more wait")}.` : ""}` : "";
  const times = row.first_token === null ? "" : ` First token after ${time(unit === "ms" ? row.ttft_us : row.ttft_steps, unit)}, longest gap ${time(unit === "ms" ? row.worst_gap_us : row.worst_gap_steps, unit)}.`;
  return `${row.sequence}: ${num(row.prompt_tokens)} tokens in, ${num(row.output_tokens)} out; ${lifeOf(row, unit).join(", ")}.${why}${times}`;
}

const COLUMNS = ["sequence", "request", "prompt_tokens", "output_tokens", "arrived", "admitted", "first_token", "ended", "finish_reason", "rejected", "ttft_steps", "worst_gap_steps", "whole_steps", "ttft_us", "worst_gap_us", "whole_us", "computed", "recomputed", "cached"];
const cellOf = (v) => {
  const s = v === null || v === undefined ? "" : String(v);
  const safe = typeof v === "string" && /^[=+\-@\t\r]/.test(s) ? `'${s}` : s; // no cell may begin like a formula
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};

// One line a sequence and run; steps count from 0, times are microseconds.
export function metricsCsv(lanes) {
  const head = ["run", ...COLUMNS, "waited_steps", "wait_reasons", "preemptions"];
  const lines = [head.join(",")];
  for (const { name, serving } of lanes) {
    for (const row of serving.rows) {
      const waited = row.waits.reduce((sum, [a, b]) => sum + b - a, 0);
      const reasons = [...new Set(row.waits.map((w) => w[2]))].join(" ");
      lines.push([name, ...COLUMNS.map((c) => row[c]), waited, reasons, row.preempted.length].map(cellOf).join(","));
    }
  }
  return lines.join("\r\n") + "\r\n";
}
