// What the canvases share: colours read from the theme, sharp pixels, hatches as patterns.
const NAMES = ["surface", "sunken", "border", "line", "text", "muted", "accent", "on-accent"];
export const HATCH = [0, 1, 2, 2, 3, 3, 4, 1, 4, 0];

const probe = (node, value) => {
  node.style.color = value;
  return getComputedStyle(node).color;
};

// Every token as a plain rgb() string, read from the stylesheet as the theme resolves it now.
export function readColors(host) {
  const node = document.createElement("span");
  host.append(node);
  const c = { r: [], o: [] };
  for (const name of NAMES) c[name.replace("-", "_")] = probe(node, `var(--${name})`);
  for (let i = 0; i < 10; i++) {
    c.r.push(probe(node, `var(--r${i})`));
    c.o.push(probe(node, `var(--o${i})`));
  }
  const style = getComputedStyle(host);
  c.font = style.fontFamily;
  c.mono = getComputedStyle(host).getPropertyValue("--mono") || "monospace";
  c.scale = Number(style.getPropertyValue("--scale")) || 1;
  node.remove();
  return c;
}

// "rgb(1, 2, 3)" → the 32-bit pixel of ImageData (little endian)
export function pixel(rgb) {
  const [r, g, b] = rgb.match(/[\d.]+/g).map(Number);
  return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
}

export function mix(a, b, share) {
  const x = a.match(/[\d.]+/g).map(Number);
  const y = b.match(/[\d.]+/g).map(Number);
  return `rgb(${[0, 1, 2].map((i) => Math.round(x[i] * share + y[i] * (1 - share))).join(", ")})`;
}

// Gives the canvas as many pixels as the screen has for it; the context then draws in CSS pixels.
export function fit(canvas, width, height) {
  const dpr = window.devicePixelRatio || 1;
  const w = Math.max(1, Math.round(width * dpr));
  const h = Math.max(1, Math.round(height * dpr));
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const ctx = canvas.getContext("2d");
  ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
  return ctx;
}

// The same hatches pixel by pixel, for pictures that are written straight into an image.
export function inked(kind, x, y) {
  if (kind === 1) return (x + y) % 4 === 0;
  if (kind === 2) return x % 3 === 1;
  if (kind === 3) return x % 3 === 1 && y === 1;
  return kind === 4 && y === 1;
}

// The hatch of a request along the foot of a rectangle, the same five as in the stylesheet.
export function hatch(ctx, i, x, y, w, h, ink) {
  const kind = HATCH[i];
  if (!kind || w < 3 || h < 2) return;
  ctx.fillStyle = ink;
  if (kind === 4) {
    ctx.fillRect(x, y + h / 2 - 0.75, w, 1.5);
    return;
  }
  if (kind === 2) {
    for (let a = x + 1; a < x + w - 1; a += 4) ctx.fillRect(a, y, 1.5, h);
    return;
  }
  if (kind === 3) {
    for (let a = x + 1; a < x + w - 1; a += 4) ctx.fillRect(a, y + h / 2 - 1, 2, 2);
    return;
  }
  ctx.beginPath();
  for (let a = x; a < x + w - 1; a += 4) {
    ctx.moveTo(a, y + h);
    ctx.lineTo(Math.min(a + h, x + w), y);
    ctx.lineTo(Math.min(a + h + 1.5, x + w), y);
    ctx.lineTo(a + 1.5, y + h);
  }
  ctx.fill();
}
