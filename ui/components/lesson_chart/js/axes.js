// Where an axis has its ticks, how a value is written beside it, and how a name is broken: pure.
import { num } from "../../run_player/js/util.js";
import { ticks } from "../../live_run/js/scales.js";

// Three figures: 0.0366, 41.2, 1,234.
export function three(v) {
  if (v === null || v === undefined || !Number.isFinite(v)) return "–";
  if (Math.abs(v) >= 100) return num(Math.round(v));
  return String(Number(v.toPrecision(3)));
}

const isPower = (v) => v > 0 && Number.isInteger(Math.log2(v));

// Ticks from at most `lo` to at least `hi`, on a logarithmic axis; of two where all `values` are
// powers of two, else 1, 2, 5 or powers of ten, whichever are few enough.
export function logTicks(lo, hi, values = [], most = 8) {
  if (values.length > 1 && values.every(isPower)) {
    const all = [];
    for (let p = Math.log2(lo); p <= Math.log2(hi) + 1e-9; p++) all.push(2 ** p);
    const every = Math.ceil(all.length / most);
    return all.filter((_, i) => (all.length - 1 - i) % every === 0);
  }
  for (const steps of [[1, 2, 5], [1, 3], [1]]) {
    const out = [];
    for (let p = Math.floor(Math.log10(lo)); p <= Math.ceil(Math.log10(hi)); p++) for (const s of steps) out.push(Number((s * 10 ** p).toPrecision(3)));
    const first = out.findLastIndex((v) => v <= lo * 1.0001);
    const last = out.findIndex((v) => v >= hi * 0.9999);
    const cut = out.slice(Math.max(0, first), last < 0 ? undefined : last + 1);
    if (cut.length <= most || steps.length === 1) return cut.length > most ? cut.filter((_, i) => i % Math.ceil(cut.length / most) === 0) : cut;
  }
  return [lo, hi];
}

// The same where the axis is linear.
export const linearTicks = (hi) => ticks(hi, 5);

// The ticks of an axis that begins and ends where the values do, and not at the ticks around them.
export function between(lo, hi, marks) {
  return [lo, ...marks.filter((v) => v > lo && v < hi), hi];
}

function filled(words, most) {
  const out = [""];
  for (const word of words) {
    const line = out.at(-1);
    if (line && line.length + 1 + word.length > most) out.push(word);
    else out[out.length - 1] = line ? `${line} ${word}` : word;
  }
  return out;
}

// A name in as few lines of at most so many letters as it takes, all about as long; where two do,
// rather behind a comma.
export function broken(name, most = 22) {
  const words = name.split(" ");
  const lines = filled(words, most);
  if (lines.length < 2) return lines;
  if (lines.length > 2) {
    for (let width = Math.ceil(name.length / lines.length); width < most; width++) {
      const made = filled(words, width);
      if (made.length <= lines.length) return made;
    }
    return lines;
  }
  let best = lines;
  let least = Infinity;
  for (let i = 1; i < words.length; i++) {
    const pair = [words.slice(0, i).join(" "), words.slice(i).join(" ")];
    const longest = Math.max(...pair.map((part) => part.length));
    const cost = longest + (pair[0].endsWith(",") ? 0 : 6);
    if (longest <= most && cost < least) [best, least] = [pair, cost];
  }
  return best;
}

// Where along a rule its name is farthest from every line: {x, y, anchor} of a text of that width.
//   heights: pixel heights of all lines at a pixel x
export function freePlace(rule, width, box, heights, u) {
  let best = null;
  for (let k = 0; k <= 8; k++) {
    const x = box.x0 + 6 * u + (k / 8) * Math.max(0, box.x1 - box.x0 - width - 12 * u);
    for (const y of [rule - 5 * u, rule + 13 * u]) {
      const at = [0, 0.25, 0.5, 0.75, 1].flatMap((f) => heights(x + f * width));
      const gap = Math.min(40 * u, ...at.map((h) => Math.abs(h - (y - 4 * u))));
      // As far as need be, and then rather above the rule and near its beginning.
      const score = gap - (y > rule ? 3 * u : 0) - k * 0.5 * u;
      if (!best || score > best.score) best = { x, y, score };
    }
  }
  return best;
}

// Middles of labels of different heights, pushed apart so that none lies on another.
export function apart(wanted, heights, lo, hi) {
  const order = wanted.map((y, i) => ({ y, i, h: heights[i] })).sort((a, b) => a.y - b.y || a.i - b.i);
  let edge = lo;
  for (const o of order) {
    o.y = Math.max(o.y, edge + o.h / 2);
    edge = o.y + o.h / 2;
  }
  edge = hi;
  for (const o of order.toReversed()) {
    o.y = Math.min(o.y, edge - o.h / 2);
    edge = o.y - o.h / 2;
  }
  const out = [];
  for (const o of order) out[o.i] = o.y;
  return out;
}

const written = (data, i) => `${three(data.x.values[i])}${data.x.unit ? ` ${data.x.unit}` : ""}`;

// "Context 4,096 tokens: one NVMe drive 0.048 s, …"
export function reading(data, i) {
  const parts = data.lines.map((line) => `${line.name} ${three(line.values[i])}`);
  return `${data.x.label} ${written(data, i)}: ${parts.join(", ")}${data.unit ? ` ${data.unit}` : ""}`;
}
