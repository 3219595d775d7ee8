// The identity of a request wherever it appears: colour, hatch and its id.
import { el } from "./util.js";

export function paint(node, info, seq) {
  const i = info.color(seq);
  node.style.setProperty("--c", `var(--r${i})`);
  node.style.setProperty("--o", `var(--o${i})`);
  node.style.setProperty("--hatch", `var(--h${i})`);
  return node;
}

export function badge(info, seq, label = info.short(seq)) {
  const b = paint(el("span", "req", label), info, seq);
  if (label !== seq) b.dataset.tip = seq;
  return b;
}
