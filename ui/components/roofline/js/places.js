// Where a name can stand beside its mark without lying on another name or mark, and off the lines
// if it can: a name that a line runs through reads as that line's.

const SHIFT = { start: 0, middle: 0.5, end: 1 };
const CROSSES = 45; // a name stands as many pixels further away rather than on a line
const FAR = 6; // steps of half a name's height
const over = (a, b) => a.x0 < b.x1 && b.x0 < a.x1 && a.y0 < b.y1 && b.y0 < a.y1;
const inside = (a, box) => a.x0 >= box.x0 && a.x1 <= box.x1 && a.y0 >= box.y0 && a.y1 <= box.y1;

// Whether a line from one point to another touches an area: cut to it, side by side.
export function touches([xa, ya, xb, yb], { x0, x1, y0, y1 }) {
  let [from, to] = [0, 1];
  for (const [start, step, low, high] of [
    [xa, xb - xa, x0, x1],
    [ya, yb - ya, y0, y1],
  ]) {
    if (step === 0) {
      if (start < low || start > high) return false;
      continue;
    }
    const [a, b] = [(low - start) / step, (high - start) / step];
    from = Math.max(from, Math.min(a, b));
    to = Math.min(to, Math.max(a, b));
  }
  return from <= to;
}

// Where a name could stand, the nearest first: beside its mark, above and below it, and further away
// where it may.
function* around({ x, y, height: h, r, far }) {
  const near = [
    { x: x - r * 0.6, y: y - r * 0.8, anchor: "end" }, // over a line that rises from the left
    { x: x + r * 0.6, y: y + r * 0.8 + h * 0.6, anchor: "start" },
    { x: x + r * 0.6, y: y - r * 0.8, anchor: "start" },
    { x: x - r, y: y + h * 0.35, anchor: "end" },
    { x: x + r, y: y + h * 0.35, anchor: "start" },
    { x: x - r * 0.6, y: y + r * 0.8 + h * 0.6, anchor: "end" },
  ];
  for (const [i, one] of near.entries()) yield { ...one, cost: i };
  if (!far) return;
  for (let k = 0; k <= FAR; k++)
    for (const [i, at] of [y - r - h * (0.25 + k / 2), y + r + h * (0.8 + k / 2)].entries())
      for (const [j, anchor] of ["end", "start", "middle"].entries()) {
        const aside = { end: r * 0.5, start: -r * 0.5, middle: 0 }[anchor];
        yield { x: x + aside, y: at, anchor, cost: near.length + (k * h) / 2 + i + j };
      }
}

// wanted: [{x, y, width, height, r, far}] in order of weight, far: it may stand further away; taken:
// [{x0, x1, y0, y1}] that stay free; lines: [[x, y, x, y]] that are better not crossed. Returns [{x,
// y, anchor, area}], the base line of each name and what it covers; null where there is no room.
export function places(wanted, taken, box, lines = []) {
  const used = [...taken];
  return wanted.map((name) => {
    const { width: w, height: h } = name;
    let best = null;
    for (const c of around(name)) {
      if (best && c.cost >= best.cost) continue; // no nearer, whatever it crosses
      const x0 = c.x - w * SHIFT[c.anchor];
      const area = { x0, x1: x0 + w, y0: c.y - h * 0.8, y1: c.y + h * 0.25 };
      if (!inside(area, box) || used.some((other) => over(area, other))) continue;
      const cost = c.cost + CROSSES * lines.filter((line) => touches(line, area)).length;
      if (!best || cost < best.cost) best = { x: c.x, y: c.y, anchor: c.anchor, area, cost };
    }
    if (best) used.push(best.area);
    return best;
  });
}
