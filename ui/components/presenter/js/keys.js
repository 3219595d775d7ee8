// What a key means to somebody who presents. Pure, so that node can test it.
//   event: a KeyboardEvent; at: what it was pressed on, {field, range, choice, nowhere}
// Returns {act: "black" | "recorded" | "reset" | "legend" | "leave"}, {turn: 1 | -1}, {again: true} (the
// same key, as if nothing had the focus) or null: somebody else's key.
export const LEGEND = [
  ["Page Down, →", "the next step, or further down"],
  ["Page Up, ←", "the step before, or further up"],
  ["Space", "plays or pauses the run on the page"],
  ["V", "plays the page's recorded run from its start, whatever the engine does"],
  ["0", "back to the exact start: the page as it was when presenting began"],
  [". or B", "a black screen; any key brings the picture back"],
  ["?", "this list"],
  ["Esc", "leaves the projector's view"],
];

const ACTS = { ".": "black", b: "black", v: "recorded", 0: "reset", "?": "legend" };
const PAGES = { PageDown: 1, PageUp: -1 };
const ARROWS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

export function meaning(event, at) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || at.field) return null;
  const act = ACTS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (act && !(at.choice && /[a-z]/i.test(event.key))) return { act }; // letters choose among options
  // A clicker has no pointer: what was last clicked must not swallow its keys. A slider moves by them.
  if (event.key in PAGES && !at.nowhere && !at.range) return { again: true };
  return null;
}

// What is left of a key that nobody has taken.
export function leftOver(event, at) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey || at.field) return null;
  if (event.key === "Escape") return { act: "leave" };
  if (event.key in PAGES && !at.range) return { turn: PAGES[event.key] };
  if (event.key in ARROWS && at.nowhere) return { turn: ARROWS[event.key] };
  return null;
}

const FIELD = /^(TEXTAREA|SELECT)$/;
const KEYLESS = /^(checkbox|radio|button|submit|reset|range|file|color)$/;

export function place(node, body) {
  const tag = node?.tagName ?? "";
  const input = tag === "INPUT";
  return {
    field: FIELD.test(tag) || (input && !KEYLESS.test(node.type)) || Boolean(node?.isContentEditable),
    range: (input && node.type === "range") || node?.getAttribute?.("role") === "slider",
    choice: (input && node.type === "radio") || /^(radio|option)$/.test(node?.getAttribute?.("role") ?? ""),
    nowhere: !tag || node === body || tag === "HTML" || Boolean(node.matches?.('[data-testid="stMain"]')),
  };
}
