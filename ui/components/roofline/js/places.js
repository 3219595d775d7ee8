// Where a name can stand beside its mark without lying on another name or mark.

const SHIFT = { start: 0, middle: 0.5, end: 1 };
const over = (a, b) => a.x0 < b.x1 && b.x0 < a.x1 && a.y0 < b.y1 && b.y0 < a.y1;
const inside = (a, box) => a.x0 >= box.x0 && a.x1 <= box.x1 && a.y0 >= box.y0 && a.y1 <= box.y1;

const aLineAway = (x, y, r, h) => [1, 2].flatMap((k) => [y - r * 0.8 - h * (k - 0.4), y + r * 0.8 + h * (0.2 + k)].flatMap((at) => ["middle", "end"].map((anchor) => ({ x: anchor === "end" ? x + r : x, y: at, anchor }))));

// wanted: [{x, y, width, height, r, far}] in order of weight, far: it may stand a line away; taken:
// [{x0, x1, y0, y1}] that stay free; returns [{x, y, anchor}], the base line of each name; null where
// there is no room.
export function places(wanted, taken, box) {
  const used = [...taken];
  return wanted.map(({ x, y, width: w, height: h, r, far }) => {
    const choices = [
      { x: x - r * 0.6, y: y - r * 0.8, anchor: "end" }, // over a line that rises from the left
      { x: x + r * 0.6, y: y + r * 0.8 + h * 0.6, anchor: "start" },
      { x: x + r * 0.6, y: y - r * 0.8, anchor: "start" },
      { x: x - r, y: y + h * 0.35, anchor: "end" },
      { x: x + r, y: y + h * 0.35, anchor: "start" },
      { x: x - r * 0.6, y: y + r * 0.8 + h * 0.6, anchor: "end" },
      ...(far ? aLineAway(x, y, r, h) : []),
    ];
    for (const c of choices) {
      const x0 = c.x - w * SHIFT[c.anchor];
      const area = { x0, x1: x0 + w, y0: c.y - h * 0.8, y1: c.y + h * 0.25 };
      if (!inside(area, box) || used.some((other) => over(area, other))) continue;
      used.push(area);
      return c;
    }
    return null;
  });
}
