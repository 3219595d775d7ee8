// Plays prepared frames: it holds no rule of the engine and reconstructs nothing.
//   data: {title, label: {kind, detail}, sequences: {id: index}, frames: [{step, head, text, copy,
//          blocks: [null | {owners: [id], slots: [text], written: [slot], idle: bool}]}]}
const FRAME_MS = 1600;
const ICONS = {
  play: "M7 4.5v15l12-7.5z",
  pause: "M8 5v14M16 5v14",
  RECORDED: "M12 3a9 9 0 100 18 9 9 0 000-18zM12 10a2 2 0 100 4 2 2 0 000-4z",
  SIMULATED: "M4 5h6v5H4zM14 14h6v5h-6zM7 10v6.5h7",
};

const kept = new WeakMap(); // state by mount, so that a theme change does not start it again

function el(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text; // prompts and model output: never as markup
  return node;
}

function icon(name) {
  const ns = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(ns, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(ns, "path");
  path.setAttribute("d", ICONS[name] || ICONS.RECORDED);
  svg.append(path);
  return svg;
}

function colour(node, index) {
  const i = index % 10;
  node.style.setProperty("--c", `var(--r${i})`);
  node.style.setProperty("--o", `var(--o${i})`);
  node.style.setProperty("--hatch", `var(--h${i})`);
}

function badge(data, id) {
  const node = el("span", "req", id);
  colour(node, data.sequences[id] ?? 0);
  return node;
}

function cell(data, frame, index) {
  const block = frame.blocks[index];
  const node = el("div", block ? (block.idle ? "cell idle" : "cell used") : "cell");
  if (frame.copy && frame.copy.includes(index)) node.classList.add("copy");
  const top = el("div", "top");
  top.append(el("span", "id", String(index)));
  if (block && block.owners.length) {
    colour(node, data.sequences[block.owners[0]] ?? 0);
    const owners = el("span", "owners");
    for (const id of block.owners.slice(0, 3)) owners.append(badge(data, id));
    if (block.owners.length > 3) owners.append(el("span", "more", `+${block.owners.length - 3}`));
    top.append(owners);
  }
  node.append(top);
  for (let slot = 0; slot < data.block_size; slot++) {
    const text = block ? block.slots[slot] : undefined;
    const filled = text !== undefined && text !== null;
    const written = block && block.written.includes(slot);
    node.append(el("div", `slot${filled ? " filled" : ""}${written ? " written" : ""}`, filled ? text : ""));
  }
  return node;
}

function build(root, data) {
  const head = el("div", "head");
  head.append(el("b", "title", data.title));
  const label = el("span", `prov ${data.label.kind.toLowerCase()}`);
  const word = el("b");
  word.append(icon(data.label.kind), document.createTextNode(data.label.kind));
  label.append(word, el("span", "", data.label.detail));
  const button = el("button", "toggle");
  button.type = "button";
  head.append(label, button);
  const pool = el("div", "pool");
  const n = data.frames[0].blocks.length;
  pool.style.setProperty("--across", String(n <= 8 ? n : Math.min(8, Math.ceil(n / 2)))); // full rows, no hole
  const say = el("div", "say");
  const ticks = el("div", "ticks");
  ticks.setAttribute("aria-hidden", "true");
  for (let i = 0; i < data.frames.length; i++) ticks.append(el("i"));
  root.replaceChildren(head, pool, say, ticks);
  return { button, pool, say, ticks };
}

export default function ({ parentElement, data }) {
  const root = parentElement.querySelector(".stage");
  const reduced = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const state = kept.get(root) ?? { at: Math.min(data.start ?? 0, data.frames.length - 1), on: !reduced };
  kept.set(root, state);
  if (state.at >= data.frames.length) state.at = 0;
  root.classList.toggle("present", Boolean(data.present));
  const parts = build(root, data);

  function draw() {
    const frame = data.frames[state.at];
    parts.pool.replaceChildren(...frame.blocks.map((_, i) => cell(data, frame, i)));
    parts.say.className = frame.copy ? "say copying" : "say";
    const text = el("span", "text");
    text.append(el("b", "", frame.head), document.createTextNode(` ${frame.text}`));
    parts.say.replaceChildren(el("span", "step", `step ${frame.step}`), text);
    [...parts.ticks.children].forEach((tick, i) => tick.classList.toggle("on", i <= state.at));
  }

  function drawButton() {
    parts.button.replaceChildren(icon(state.on ? "pause" : "play"));
    parts.button.setAttribute("aria-label", state.on ? "Pause" : "Play");
  }

  parts.button.onclick = () => {
    state.on = !state.on;
    drawButton();
  };
  draw();
  drawButton();
  const timer = setInterval(() => {
    if (!state.on || document.hidden) return;
    state.at = (state.at + 1) % data.frames.length;
    draw();
  }, FRAME_MS);
  return () => clearInterval(timer);
}
