// Which part to go to: pure, so that node can test it.
const STEPS = {
  ArrowRight: 1, ArrowDown: 1, PageDown: 1, " ": 1,
  ArrowLeft: -1, ArrowUp: -1, PageUp: -1,
};

// What a key asks of a projector's view: a part to go to by its place, a scroll, or null.
//   view: {part, parts, top, height, length}, the scrolled area in pixels
export function turned(event, view) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return null;
  if (event.key === "Home") return { part: 0 };
  if (event.key === "End") return { part: view.parts - 1 };
  const by = STEPS[event.key];
  if (!by) return null;
  const room = by > 0 ? view.length - view.height - view.top : view.top;
  // Across goes to the next part at once; down and up read what does not fit first.
  const across = event.key === "ArrowRight" || event.key === "ArrowLeft";
  if (!across && room > 4) return { scroll: by * Math.min(room, 0.85 * view.height) };
  const part = view.part + by;
  if (part < 0 || part >= view.parts) return { part: view.part };
  return { part, end: by < 0 && !across };
}

// The page of the course and its query that an address means, "name?query"; null for any other.
export function inside(href, origin, pages) {
  let url;
  try {
    url = new URL(href);
  } catch {
    return null;
  }
  const name = url.pathname.split("/").pop();
  return url.origin === origin && pages.includes(name) ? name + url.search : null;
}

// The part that is being read: the last one whose head is above the line.
export function current(tops, line) {
  let at = 0;
  tops.forEach((top, i) => {
    if (top <= line) at = i;
  });
  return at;
}
