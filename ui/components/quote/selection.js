// What is selected, in the page or inside a component, and under which heading it stands.
const HEADINGS = "h1, h2, h3, h4";

// Shadow roots from the outermost to the one that an event came from.
export function rootsOf(event) {
  const isRoot = (node) => node?.nodeType === 11 && Boolean(node.host);
  return event.composedPath().filter(isRoot).reverse();
}

// The selection as a range of real nodes. A browser shows a selection inside a component as one at
// its host, unless it is asked for by the component's root.
export function rangeIn(roots) {
  const selection = document.getSelection();
  if (!selection) return null;
  let found = null;
  if (selection.getComposedRanges && roots.length) {
    try {
      [found] = selection.getComposedRanges({ shadowRoots: roots });
    } catch {
      [found] = selection.getComposedRanges(...roots);
    }
  }
  if (!found && roots.length) {
    const inner = roots[roots.length - 1].getSelection?.();
    if (inner?.rangeCount) found = inner.getRangeAt(0);
  }
  if (!found && selection.rangeCount) found = selection.getRangeAt(0);
  if (!found || (found.startContainer === found.endContainer && found.startOffset === found.endOffset)) return null;
  if (found.startContainer.getRootNode() !== found.endContainer.getRootNode()) return null;
  const range = document.createRange();
  range.setStart(found.startContainer, found.startOffset);
  range.setEnd(found.endContainer, found.endOffset);
  // Tab selects all that a field holds; to the page that is a range around the field, without text.
  return range.toString().trim() ? range : null;
}

const UNSEEN = ".kv-def, [role=tooltip], [hidden], style, script";
const BLOCKS = /^(P|LI|UL|OL|DIV|H[1-6]|TR|TABLE|BLOCKQUOTE|SECTION|HEADER|PRE|DT|DD)$/;

// The text of a range as it is seen. The browser's own is right but for definitions that wait to be
// hovered, and formulas, which stand in the page twice: those are given as they are written.
export function textOf(range, shown) {
  const piece = range.cloneContents();
  const unlike = piece.querySelector(`${UNSEEN}, .katex`);
  if (!unlike && shown.trim()) return shown;
  for (const node of piece.querySelectorAll(UNSEEN)) node.remove();
  for (const node of piece.querySelectorAll(".katex")) {
    const source = node.querySelector("annotation");
    if (source) node.replaceChildren(`$${source.textContent}$`);
  }
  return joined(piece);
}

export function joined(node) {
  if (node.nodeType === 3) return node.data;
  const inner = [...node.childNodes].map(joined).join("");
  if (node.nodeName === "BR") return "\n";
  return BLOCKS.test(node.nodeName) ? `\n${inner}\n` : inner;
}

// One line a paragraph, without the spaces that markup leaves; cut where it is too long.
export function clean(text, most) {
  const lines = text.split("\n").map((line) => line.replace(/\s+/g, " ").trim());
  const whole = lines.filter(Boolean).join("\n");
  return whole.length > most ? `${whole.slice(0, most - 1).trimEnd()}…` : whole;
}

export function isField(node) {
  const element = node?.nodeType === 1 ? node : node?.parentElement;
  return Boolean(element?.closest("input, textarea, select, [contenteditable=true], [role=textbox]"));
}

// The last of them before a node; they are in the order of the page.
export function lastBefore(headings, node) {
  const FOLLOWING = 4;
  const CONTAINS = 8;
  let last = null;
  for (const heading of headings) {
    const where = heading.compareDocumentPosition(node);
    if (heading !== node && !(where & (FOLLOWING | CONTAINS)) && !heading.contains?.(node)) break;
    last = heading;
  }
  return last;
}

// The heading above a node: in its own component if there is one, else in the page around it.
// The address's query, with the part of a lesson that a node stands in, if it stands in one.
export function queryAt(node, search) {
  let at = node?.nodeType === 1 ? node : node?.parentElement;
  let part = null;
  while (at && !part) {
    part = at.closest?.('[class*="st-key-kv-sec-"]') ?? null;
    at = at.getRootNode?.()?.host; // out of a component, and on
  }
  const name = /st-key-kv-sec-([\w-]+)/.exec(part?.className ?? "")?.[1];
  const query = new URLSearchParams(search);
  if (name) query.set("at", name);
  return query.toString();
}

export function headingOf(node) {
  for (let at = node; at; at = at.host) {
    const root = at.getRootNode();
    const heading = lastBefore(root.querySelectorAll(HEADINGS), at);
    if (heading && heading.textContent.trim()) return heading;
    if (!root.host) return null;
    at = root;
  }
  return null;
}
