// Where everything stands, in layout units (pixels at scale 1): pure functions of the reducer's state,
// so that they can be tested against the engine's own snapshot. Order among siblings is the order in
// which they were first cached, so a picture does not jump when something is added.

export const CARD = [
  { w: 112, h: 70, gx: 20, gy: 10 }, // words and key
  { w: 62, h: 36, gx: 14, gy: 8 }, // id and first word
  { w: 20, h: 16, gx: 6, gy: 5 }, // a mark
];

export const NODE = [
  { w: 218, head: 25, line: 21, lines: 4, gx: 30, gy: 14 },
  { w: 112, head: 22, line: 20, lines: 1, gx: 22, gy: 8 },
  { w: 40, head: 16, line: 0, lines: 0, gx: 12, gy: 5 },
];

// key → place among all keys of the run, by first caching.
export function keyOrder(run) {
  const order = new Map();
  for (const key of Object.values(run.header.initial_state?.cached ?? {}).map((e) => e.key)) if (!order.has(key)) order.set(key, order.size);
  for (const step of run.steps) for (const e of step.events) if (e.type === "block_cached") for (const key of e.keys) if (!order.has(key)) order.set(key, order.size);
  return order;
}

// Cached blocks as a forest: {b, key, parent (block or null), lost}. `lost`: its parent's key is not
// cached any more, so no lookup can come here. Blocks with one key stay side by side; what follows
// them hangs on the one with the lowest id.
export function chainForest(state) {
  const byKey = new Map();
  for (let b = 0; b < state.n; b++) {
    const key = state.entry[b]?.key;
    if (key && !byKey.has(key)) byKey.set(key, b);
  }
  const out = [];
  for (let b = 0; b < state.n; b++) {
    const e = state.entry[b];
    if (!e) continue;
    const parent = e.parent_key === null ? null : byKey.get(e.parent_key) ?? null;
    out.push({ b, key: e.key, parent, lost: e.parent_key !== null && parent === null });
  }
  return out;
}

function grouped(items, order, rank) {
  const kids = new Map();
  for (const item of items) {
    const p = item.parent ?? -1;
    if (!kids.has(p)) kids.set(p, []);
    kids.get(p).push(item);
  }
  for (const list of kids.values()) list.sort((x, y) => rank(x) - rank(y) || order(x) - order(y));
  return kids;
}

// Columns are depth in blocks; the first child goes on in its parent's row, each other one opens a
// row below. Lost blocks come last, one column in: something is missing before them.
export function chainLayout(state, order, level = 0) {
  const items = chainForest(state);
  const kids = grouped(items, (x) => x.b, (x) => (x.lost ? 1e9 : 0) + (order.get(x.key) ?? 0));
  const { w, h, gx, gy } = CARD[level];
  const cells = [];
  let rows = 0;
  let cols = 0;
  // A stack, not recursion: a chain may be thousands of blocks long.
  const stack = [...(kids.get(-1) ?? [])].reverse().map((item) => ({ item, col: item.lost ? 1 : 0, fresh: true }));
  while (stack.length) {
    const { item, col, fresh } = stack.pop();
    if (fresh) rows++;
    const row = rows - 1;
    cols = Math.max(cols, col + 1);
    cells.push({ ...item, col, row, x: col * (w + gx), y: row * (h + gy), w, h });
    const below = kids.get(item.b) ?? [];
    for (let i = below.length - 1; i >= 0; i--) stack.push({ item: below[i], col: col + 1, fresh: i > 0 });
  }
  return { cells, cols, rows, w: Math.max(0, cols * (w + gx) - gx), h: Math.max(0, rows * (h + gy) - gy) };
}

export function nodeHeight(node, level) {
  const { head, line, lines } = NODE[level];
  const all = node.blocks.length;
  return head + line * Math.min(all, lines) + (level === 0 && all > lines ? line : 0);
}

// Root on the left, a node's children to its right, the first at its own height. `folded`: ids of
// nodes whose children are not shown.
export function treeLayout(state, order, level = 0, folded = new Set()) {
  const items = [...state.nodes.values()];
  const kids = grouped(items, (n) => n.id, (n) => order.get(state.entry[n.blocks[0]]?.key) ?? 0);
  const { w, gx, gy } = NODE[level];
  const left = 34; // the root's mark
  const nodes = [];
  let y = 0;
  let depths = 0;
  const stack = [...(kids.get(-1) ?? [])].reverse().map((n) => ({ n, depth: 0 }));
  const floors = []; // by depth: where the next node of that column may begin at the earliest
  while (stack.length) {
    const { n, depth, first } = stack.pop();
    const h = nodeHeight(n, level);
    // A first child stands beside its parent; any other one below all that stands in its column or
    // further right.
    const floor = Math.max(0, ...floors.slice(depth));
    y = first === undefined ? floor : Math.max(first, floor);
    const hidden = folded.has(n.id) ? countBelow(n.id, kids) : 0;
    nodes.push({ id: n.id, parent: n.parent, depth, x: left + depth * (w + gx), y, w, h, kids: (kids.get(n.id) ?? []).length, hidden });
    for (let d = floors.length; d <= depth; d++) floors[d] = 0;
    floors[depth] = y + h + gy;
    for (let d = 0; d < depth; d++) floors[d] = Math.max(floors[d], 0);
    depths = Math.max(depths, depth + 1);
    if (folded.has(n.id)) continue;
    const below = kids.get(n.id) ?? [];
    for (let i = below.length - 1; i >= 0; i--) stack.push({ n: below[i], depth: depth + 1, first: i === 0 ? y : undefined });
  }
  const h = nodes.reduce((m, n) => Math.max(m, n.y + n.h), 0);
  return { nodes, depths, w: left + Math.max(0, depths * (w + gx) - gx), h };
}

function countBelow(id, kids) {
  let n = 0;
  const stack = [...(kids.get(id) ?? [])];
  while (stack.length) {
    n++;
    stack.push(...(kids.get(stack.pop().id) ?? []));
  }
  return n;
}

// The most detailed level at which a picture of this size can be looked at in a pane: `most` boxes,
// and no more than about this many screens to scroll sideways.
export function levelFor(cols, count, paneWidth, sizes, most, screens = 2.4) {
  for (let level = 0; level < sizes.length - 1; level++) {
    const wide = cols * (sizes[level].w + sizes[level].gx);
    if (count <= most[level] && wide <= paneWidth * (screens + level)) return level;
  }
  return sizes.length - 1;
}

// Idle cached blocks in the order in which they would go; `before`: free blocks that hold nothing.
export function evictionOrder(state) {
  const free = state.free.first();
  return { order: free.filter((b) => state.entry[b]), before: free.filter((b) => !state.entry[b]).length };
}
