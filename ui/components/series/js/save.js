// Files that the browser makes itself: text, and an SVG picture as PNG.
import { el } from "../../run_player/js/util.js";

const DRAWN = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "stroke-linecap", "opacity", "font", "text-anchor", "paint-order", "display"];

export const fileName = (title, ending) => `${title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "") || "kv-scope"}.${ending}`;

export function saveBlob(name, blob) {
  const href = URL.createObjectURL(blob);
  const a = el("a");
  a.href = href;
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(href), 1000);
}

export const saveText = (name, words, type) => saveBlob(name, new Blob([words], { type }));

// A copy of the picture with every style written into it: outside the page no stylesheet applies.
function standalone(picture, ground) {
  const copy = picture.cloneNode(true);
  const from = [picture, ...picture.querySelectorAll("*")];
  const to = [copy, ...copy.querySelectorAll("*")];
  from.forEach((node, i) => {
    const style = getComputedStyle(node);
    for (const name of DRAWN) to[i].style.setProperty(name, style.getPropertyValue(name));
  });
  copy.style.background = ground;
  return copy;
}

// parts: SVG elements, drawn under each other; head and foot: lines of text around them.
export async function savePng(name, parts, { head, foot, host }) {
  const style = getComputedStyle(host);
  const ground = style.backgroundColor;
  const pad = 16;
  const boxes = parts.map((p) => p.getBoundingClientRect());
  const width = Math.max(...boxes.map((b) => b.width)) + 2 * pad;
  const height = boxes.reduce((sum, b) => sum + b.height + 8, 0) + 2 * pad + 52;
  const canvas = el("canvas");
  const scale = 2;
  canvas.width = width * scale;
  canvas.height = height * scale;
  const ctx = canvas.getContext("2d");
  ctx.scale(scale, scale);
  ctx.fillStyle = ground;
  ctx.fillRect(0, 0, width, height);
  ctx.fillStyle = style.color;
  ctx.font = `650 16px ${style.fontFamily}`;
  ctx.fillText(head, pad, pad + 14, width - 2 * pad);
  let y = pad + 28;
  for (let i = 0; i < parts.length; i++) {
    const image = new Image(boxes[i].width, boxes[i].height);
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(standalone(parts[i], ground)))}`;
    await image.decode();
    ctx.drawImage(image, pad, y, boxes[i].width, boxes[i].height);
    y += boxes[i].height + 8;
  }
  ctx.font = `400 12px ${style.fontFamily}`;
  ctx.fillText(foot, pad, height - pad, width - 2 * pad);
  const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
  if (blob) saveBlob(name, blob);
}
