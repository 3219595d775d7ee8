// Line icons, 24-unit box. Built as SVG nodes, never from markup.
const PATHS = {
  play: "M7 5l11 7-11 7z",
  pause: "M8 5v14M16 5v14",
  next: "M7 5l8 7-8 7M18 5v14",
  prev: "M17 5l-8 7 8 7M6 5v14",
  first: "M18 5l-7 7 7 7M11 5l-7 7 7 7",
  last: "M6 5l7 7-7 7M13 5l7 7-7 7",
  jump: "M4 12h9M9 7l5 5-5 5M18 4v16",
  back: "M20 12h-9M15 7l-5 5 5 5M6 4v16",
  link: "M9 15l6-6M10.5 6.5l1-1a4.2 4.2 0 016 6l-1 1M13.5 17.5l-1 1a4.2 4.2 0 01-6-6l1-1",
  present: "M3 5h18v11H3zM12 16v4M8 20h8",
  save: "M12 4v11M7 10.5l5 5 5-5M4 20h16",
  help: "M9 9a3 3 0 115 2c-1.5 1.2-2 1.7-2 3.2M12 18v.2",
  close: "M6 6l12 12M18 6L6 18",
  lock: "M6 11h12v9H6zM9 11V8a3 3 0 016 0v3",
  check: "M5 12.5l4.5 4.5L19 7.5",
  disc: "M12 4a8 8 0 100 16 8 8 0 000-16zM12 10.5a1.5 1.5 0 100 3 1.5 1.5 0 000-3z",
  live: "M12 9a3 3 0 100 6 3 3 0 000-6zM6.5 6.5a7.8 7.8 0 000 11M17.5 6.5a7.8 7.8 0 010 11",
  branch: "M6 4v16M6 12h6a4 4 0 004-4V4",
  fn: "M16 5c-4-1.5-5 1-5.5 4L9 18c-.5 2-1.5 3-4 2M7 11h8",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  warn: "M12 4l9 16H3zM12 10v5M12 17.6v.2",
  stop: "M8 3.5h8L20.5 8v8L16 20.5H8L3.5 16V8zM8 12h8",
  flag: "M6 21V4h11l-2 4 2 4H6",
  wait: "M12 4a8 8 0 100 16 8 8 0 000-16zM12 8v4.5l3 2",
  in: "M4 12h12M11 7l5 5-5 5M20 5v14",
  out: "M20 12H8M13 7l-5 5 5 5M4 5v14",
  look: "M10.5 4a6.5 6.5 0 100 13 6.5 6.5 0 000-13zM15.5 15.5L20.5 20.5",
  plus: "M12 5v14M5 12h14",
  minus: "M5 12h14",
  whole: "M4 9V4h5M15 4h5v5M20 15v5h-5M9 20H4v-5",
  fork: "M5 12h5l4-5h5M10 12l4 5h5",
  key: "M8 12a3.5 3.5 0 107 0 3.5 3.5 0 00-7 0zM15 12h6v3M2 12h6",
  evict: "M5 7h14M9 7V4h6v3M7 7l1 13h8l1-13",
  split: "M12 3v6M12 9l-6 6v6M12 9l6 6v6",
  pen: "M4 20l1-5L16 4l4 4L9 19z",
  token: "M5 8h14v8H5zM9 8v8",
  arrow: "M5 12h14M13 6l6 6-6 6",
  dot: "M12 8a4 4 0 100 8 4 4 0 000-8z",
};

const NS = "http://www.w3.org/2000/svg";

export function svg(tag, attrs = {}, parent = null) {
  const node = document.createElementNS(NS, tag);
  for (const k in attrs) node.setAttribute(k, attrs[k]);
  if (parent) parent.append(node);
  return node;
}

export function icon(name) {
  const s = svg("svg", { class: "i", viewBox: "0 0 24 24", "aria-hidden": "true" });
  svg("path", { d: PATHS[name] || PATHS.dot }, s);
  return s;
}
