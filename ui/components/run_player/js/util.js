// Small helpers: elements from text only, and how numbers and lists are written.
const NF = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export const num = (n) => (n < 0 ? "−" + NF.format(-n) : NF.format(n));
export const plural = (n, one, many = one + "s") => `${num(n)} ${n === 1 ? one : many}`;
export const times = (n) => "×" + num(n);
export const percent = (a, b) => (b ? `${num(Math.round((100 * a) / b))} %` : "0 %");
export const range = (a, b) => (a === b ? num(a) : `${num(a)}–${num(b)}`);
export const clamp = (x, lo, hi) => Math.max(lo, Math.min(hi, x));

export function ms(us) {
  const v = us / 1000;
  return v < 100 ? v.toFixed(1) : num(Math.round(v));
}

export function ordinal(n) {
  const two = n % 100;
  const end = two > 10 && two < 14 ? "th" : ["th", "st", "nd", "rd"][n % 10] || "th";
  return num(n) + end;
}

// "a, b and c"; a long list is cut and says how much is left.
export function list(items, limit = 8) {
  const all = items.map((x) => (typeof x === "number" ? num(x) : String(x)));
  if (all.length > limit) return `${all.slice(0, limit - 1).join(", ")} and ${num(all.length - limit + 1)} more`;
  return all.length < 2 ? all.join("") : `${all.slice(0, -1).join(", ")} and ${all[all.length - 1]}`;
}

// "block 4", "blocks 4 and 7"; ids next to each other are drawn together: "blocks 4–9 and 12".
export function blocks(ids) {
  const parts = [];
  for (let i = 0; i < ids.length; ) {
    let j = i;
    const dir = ids[i + 1] === ids[i] - 1 ? -1 : 1;
    while (j + 1 < ids.length && ids[j + 1] === ids[j] + dir) j++;
    if (j - i < 2) {
      parts.push(num(ids[i]));
      i++;
    } else {
      parts.push(`${num(ids[i])}–${num(ids[j])}`);
      i = j + 1;
    }
  }
  return `${ids.length === 1 ? "block" : "blocks"} ${list(parts)}`;
}

export const cap = (s) => s.charAt(0).toUpperCase() + s.slice(1);

export function bytes(n) {
  if (n < 1024) return `${num(n)} B`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let v = n;
  let i = -1;
  while (v >= 1024 && i < units.length - 1) {
    v /= 1024;
    i++;
  }
  return `${num(n)} B (${v >= 100 || Number.isInteger(v) ? num(Math.round(v)) : v.toFixed(1)} ${units[i]})`;
}

export function el(tag, cls, ...kids) {
  const e = document.createElement(tag);
  if (cls) e.className = cls;
  for (const k of kids) if (k !== null && k !== undefined) e.append(k); // strings become text nodes
  return e;
}

export function button(cls, label, ...kids) {
  const b = el("button", cls, ...kids);
  b.type = "button";
  if (label) b.setAttribute("aria-label", label);
  return b;
}

// A browser gives no click where the pressed node is redrawn before it is let go: while a run streams
// or plays, most presses. The button around it, if it is still the same one, gets its click here.
export function keepClicks(root) {
  let node = null;
  let pressed = null;
  root.addEventListener("pointerdown", (e) => {
    node = e.target;
    pressed = e.button === 0 ? node.closest("button") : null;
  });
  root.addEventListener("pointerup", (e) => {
    if (pressed && !node.isConnected && e.target.closest("button") === pressed) pressed.click();
    pressed = null;
  });
}

// Sets text only where it changes: most of a page is the same from step to step.
export function text(node, value) {
  if (node.textContent !== value) node.textContent = value;
}
