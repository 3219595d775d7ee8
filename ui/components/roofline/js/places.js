// Where a name can stand beside its mark without lying on another name or mark.

const over = (a, b) => a.x0 < b.x1 && b.x0 < a.x1 && a.y0 < b.y1 && b.y0 < a.y1;
const inside = (a, box) => a.x0 >= box.x0 && a.x1 <= box.x1 && a.y0 >= box.y0 && a.y1 <= box.y1;

// wanted: [{x, y, width, height, r}] in order of weight; taken: [{x0, x1, y0, y1}] that stay free;
// returns [{x, y, anchor}], the base line of each name; null where there is no room.
export function places(wanted, taken, box) {
  const used = [...taken];
  return wanted.map(({ x, y, width: w, height: h, r }) => {
    const choices = [
      { x: x - r * 0.6, y: y - r * 0.8, anchor: "end" }, // over a line that rises from the left
      { x: x + r * 0.6, y: y + r * 0.8 + h * 0.6, anchor: "start" },
      { x: x + r * 0.6, y: y - r * 0.8, anchor: "start" },
      { x: x - r, y: y + h * 0.35, anchor: "end" },
      { x: x + r, y: y + h * 0.35, anchor: "start" },
      { x: x - r * 0.6, y: y + r * 0.8 + h * 0.6, anchor: "end" },
      ...[1, 2].flatMap((k) => [
        { x: x - r * 0.6, y: y + r * 0.8 + h * (0.6 + k), anchor: "end" },
        { x: x - r * 0.6, y: y - r * 0.8 - h * k, anchor: "end" },
      ]),
    ];
    for (const c of choices) {
      const x0 = c.anchor === "start" ? c.x : c.x - w;
      const area = { x0, x1: x0 + w, y0: c.y - h * 0.8, y1: c.y + h * 0.25 };
      if (!inside(area, box) || used.some((other) => over(area, other))) continue;
      used.push(area);
      return c;
    }
    return null;
  });
}
