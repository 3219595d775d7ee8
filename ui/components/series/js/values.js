// What a chart over steps shows: its heights, the values of a step in words, and the same as rows.
import { num } from "../../run_player/js/util.js";

export const has = (v) => v !== null && v !== undefined && Number.isFinite(v);
export const value = (v) => (!has(v) ? "–" : Number.isInteger(v) || Math.abs(v) >= 1000 ? num(Math.round(v)) : String(Number(v.toPrecision(3))));

// The upper edge of every band at every place, from the lowest band up: [[…], …]. A gap counts 0.
export function stacked(bands, last) {
  const sum = new Array(last + 1).fill(0);
  return bands.map((band) => {
    for (let i = 0; i <= last; i++) sum[i] += has(band.values[i]) ? band.values[i] : 0;
    return [...sum];
  });
}

export function highest(data) {
  let top = 0;
  for (const line of data.lines ?? []) for (const v of line.values) if (has(v) && v > top) top = v;
  const edges = stacked(data.bands ?? [], data.x.last);
  for (const v of edges.at(-1) ?? []) if (v > top) top = v;
  return top;
}

// The line as runs of neighbouring values: [[[x, v], …], …]; a gap ends a run.
export function runsOf(values) {
  const out = [];
  let open = null;
  values.forEach((v, x) => {
    if (!has(v)) open = null;
    else if (open) open.push([x, v]);
    else out.push((open = [[x, v]]));
  });
  return out;
}

export const columns = (data) => [...(data.lines ?? []), ...(data.bands ?? [])];
export const marksAt = (data, x) => (data.marks ?? []).filter((m) => m.x === x).map((m) => m.label);

// "Step 3: free 4 blocks, in use 2 blocks. B is preempted."
export function sentence(data, x) {
  const parts = columns(data).map((c) => `${c.name} ${value(c.values[x])}`);
  const marks = marksAt(data, x);
  const label = data.x.label.charAt(0).toUpperCase() + data.x.label.slice(1);
  return `${label} ${num(x)}: ${parts.join(", ")}${data.unit ? ` ${data.unit}` : ""}${marks.length ? `. ${marks.join(", ")}` : ""}`;
}

// Labels at the ends of lines, pushed apart so that none lies on another. wanted: [y]; least: the
// distance between two; returns places in the same order, inside lo … hi as far as they fit.
export function spread(wanted, least, lo, hi) {
  const order = wanted.map((y, i) => [y, i]).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  let before = -Infinity;
  for (const o of order) before = o[0] = Math.max(o[0], before + least, lo);
  let after = hi + least;
  for (const o of order.toReversed()) after = o[0] = Math.min(o[0], after - least);
  const out = [];
  for (const [y, i] of order) out[i] = y;
  return out;
}

const quoted = (s) => (/[",\n\r]/.test(s) ? `"${s.replaceAll('"', '""')}"` : s);
// A spreadsheet would run a cell that begins like a formula.
const cellText = (s) => quoted(/^[=+\-@\t\r]/.test(s) ? `'${s}` : s);

export function csv(data) {
  const cols = columns(data);
  const head = [data.x.label, ...cols.map((c) => (data.unit ? `${c.name} (${data.unit})` : c.name)), "marks"];
  const rows = [head.map(cellText).join(",")];
  for (let x = 0; x <= data.x.last; x++) {
    rows.push([x, ...cols.map((c) => (has(c.values[x]) ? c.values[x] : "")), cellText(marksAt(data, x).join("; "))].join(","));
  }
  return rows.join("\r\n") + "\r\n";
}
