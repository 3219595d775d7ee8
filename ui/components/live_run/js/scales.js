// Axes: round ticks, powers of ten, and how quantities are written beside them.
import { num } from "../../run_player/js/util.js";

export function ticks(max, count = 4) {
  if (!(max > 0)) return [0, 1];
  const raw = max / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= raw);
  const out = [];
  for (let i = 0; i * step < max + step * 0.999; i++) out.push(Number((i * step).toPrecision(6)));
  return out;
}

export function decades(lo, hi) {
  const out = [];
  for (let p = Math.floor(Math.log10(lo)); p <= Math.ceil(Math.log10(hi)); p++) out.push(10 ** p);
  return out;
}

const SUP = "⁰¹²³⁴⁵⁶⁷⁸⁹";
export function powerOfTen(v) {
  const p = Math.round(Math.log10(v));
  if (p >= -2 && p <= 3) return String(Number((10 ** p).toPrecision(3)));
  return `10${p < 0 ? "⁻" : ""}${[...String(Math.abs(p))].map((c) => SUP[c]).join("")}`;
}

// 2.7e8 → "0.27 G": three figures, in the unit that keeps them readable.
export function short(v, unit) {
  if (v === 0) return `0 ${unit}`;
  for (const [size, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (v >= size * 0.0999999 * (letter === "G" || letter === "T" ? 1 : 10)) return `${figures(v / size)} ${letter}${unit}`;
  }
  return `${figures(v)} ${unit}`;
}

export const figures = (v) => (v >= 100 ? num(Math.round(v)) : v >= 10 ? v.toFixed(1) : v >= 0.1 ? v.toFixed(2) : v >= 0.001 ? v.toFixed(3) : v.toExponential(1));

export function millis(seconds) {
  const v = seconds * 1000;
  return `${v >= 100 ? num(Math.round(v)) : v >= 1 ? v.toFixed(1) : v >= 0.01 ? v.toFixed(3) : v.toExponential(1)} ms`;
}
export const share = (x) => (x === null || x === undefined ? "–" : `${x >= 0.0995 ? Math.round(100 * x) : (100 * x).toFixed(1)} %`);
