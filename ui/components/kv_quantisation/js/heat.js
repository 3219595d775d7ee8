// A grid of relative errors: layers along one side, KV heads of keys and of values along the other.
// Where a cell lies, what a key does, and how dark an error is: pure, but for drawing.
import { clamp } from "../../run_player/js/util.js";

const LOW = -3; // 0.1 % and less is the lightest, 100 % the darkest; between them by powers of ten

// 0 … 1, how dark; 0 for no error at all.
export const depth = (error) => (error > 0 ? clamp((Math.log10(error) - LOW) / -LOW, 0.05, 1) : 0);

// 0.0053 → "0.53", 0.126 → "13": percent in as few characters as say it.
export function percentOf(error) {
  const p = 100 * error;
  if (p === 0) return "0";
  if (p >= 99.5) return p.toFixed(0);
  return p >= 9.95 ? p.toFixed(0) : p >= 0.995 ? p.toFixed(1) : p.toFixed(2);
}

// The cells in reading order of the rows (keys' heads, then values'), each row with all layers.
export function cellsOf(errors) {
  const out = [];
  for (const kind of ["key", "value"]) {
    const table = errors[kind];
    const heads = table[0]?.length ?? 0;
    for (let head = 0; head < heads; head++) for (let layer = 0; layer < table.length; layer++) out.push({ kind, head, layer, error: table[layer][head] });
  }
  return out;
}

// Where an arrow leads. across: layers run from left to right, else from top to bottom.
export function step(key, at, layers, rows, across) {
  const [row, layer] = [Math.floor(at / layers), at % layers];
  const [dl, dr] = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[key] ?? [null, null];
  if (dl === null) return key === "Home" ? row * layers : key === "End" ? row * layers + layers - 1 : null;
  const [toLayer, toRow] = across ? [layer + dl, row + dr] : [layer + dr, row + dl];
  return clamp(toRow, 0, rows - 1) * layers + clamp(toLayer, 0, layers - 1);
}

// The worst cells, worst first.
export const worst = (cells, count) => [...cells].sort((a, b) => b.error - a.error).slice(0, count);

const lin = (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
const light = (rgb) => {
  const [r, g, b] = rgb.match(/[\d.]+/g).map((v) => lin(Number(v) / 255));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};

// Which of two inks is read better on a ground; all as "rgb(…)".
export function ink(ground, a, b) {
  const contrast = (one) => {
    const [x, y] = [light(ground), light(one)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05);
  };
  return contrast(a) >= contrast(b) ? a : b;
}
