// Elements from text only: questions and answers enter the page as text, never as markup.
const NS = "http://www.w3.org/2000/svg";
const PATHS = {
  check: "M5 12.5l4.5 4.5L19 7.5",
  cross: "M6 6l12 12M18 6L6 18",
  play: "M7 5l11 7-11 7z",
  out: "M14 4h6v6M20 4l-9 9M18 14v6H4V6h6",
  disc: "M12 4a8 8 0 100 16 8 8 0 000-16zM12 10.5a1.5 1.5 0 100 3 1.5 1.5 0 000-3z",
  branch: "M6 4v16M6 12h6a4 4 0 004-4V4",
  lock: "M6 11h12v9H6zM9 11V8a3 3 0 016 0v3",
  again: "M20 12a8 8 0 11-2.4-5.7M20 4v4h-4",
};

export function el(tag, cls, ...kids) {
  const node = document.createElement(tag);
  if (cls) node.className = cls;
  for (const kid of kids) if (kid !== null && kid !== undefined) node.append(kid);
  return node;
}

export function icon(name) {
  const svg = document.createElementNS(NS, "svg");
  svg.setAttribute("class", "i");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(NS, "path");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}

export function button(cls, onclick, ...kids) {
  const node = el("button", cls, ...kids);
  node.type = "button";
  node.onclick = onclick;
  return node;
}
