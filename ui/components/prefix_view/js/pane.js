// What both panes share: heading and label, the level of detail, the scrolling picture with its
// lines, and who goes first if a block is needed.
import { badge, paint } from "../../run_player/js/badge.js";
import { icon, svg } from "../../run_player/js/icons.js";
import { rove } from "../../run_player/js/keyboard.js";
import { provenance } from "../../run_player/js/provenance.js";
import { button, clamp, el, num, plural } from "../../run_player/js/util.js";
import { evictionOrder } from "./layout.js";
import { policyWords } from "./looks.js";

const CHIPS = 7;

export const units = (v) => `calc(${v} * var(--u))`;

export function place(node, { x, y, w, h }) {
  const at = `${x} ${y} ${w} ${h}`;
  if (node.dataset.at === at) return; // most boxes stay where they are from step to step
  node.dataset.at = at;
  node.style.left = units(x);
  node.style.top = units(y);
  node.style.width = units(w);
  node.style.height = units(h);
}

// A wire from the right edge of one box to the left edge of the next.
export const wire = (x0, y0, x1, y1) => `M${x0} ${y0}C${(x0 + x1) / 2} ${y0},${(x0 + x1) / 2} ${y1},${x1} ${y1}`;

export class Pane {
  constructor(view, title, says) {
    this.view = view;
    this.prov = el("span", "prov");
    this.count = el("span", "say muted");
    this.minus = button("btn quiet icon", `${title}: less detail`, "−");
    this.plus = button("btn quiet icon", `${title}: more detail`, "+");
    this.minus.onclick = () => this.zoom(1);
    this.plus.onclick = () => this.zoom(-1);
    this.lines = svg("svg", { class: "wires", "aria-hidden": "true" });
    this.stage = el("div", "stage", this.lines);
    this.area = el("div", "area", this.stage);
    this.area.setAttribute("role", "group");
    this.area.setAttribute("aria-label", title);
    this.empty = el("p", "say muted none", "Nothing is cached yet: a block enters when its last slot is computed.");
    this.who = el("div", "evs");
    this.title = el("h3", "panetitle", title);
    this.root = el("section", "half", el("div", "halfhead", this.title, this.prov), el("p", "say muted panesays", says), el("div", "panebar", this.count, el("span", "zoom", this.minus, this.plus)), this.area, this.who);
    this.root.setAttribute("aria-label", title);
    this.boxes = new Map();
    rove(this.area, () => this.grid());
    rove(this.who, () => [...this.who.querySelectorAll(".evl")].map((l) => [...l.querySelectorAll("button")]).filter((r) => r.length));
  }

  load(side, level) {
    this.side = side;
    this.level = level;
    this.boxes.clear();
    this.drawn = null;
    this.end = null;
    this.stage.replaceChildren(this.lines);
    const p = provenance(side.info.header);
    this.prov.className = `prov ${p.cls}`;
    const about = p.about.filter(Boolean).join(", ");
    this.prov.replaceChildren(el("b", "", icon(p.icon), p.word), el("span", "", about));
    this.prov.dataset.tip = `${p.word}: ${about}`;
  }

  zoom(by) {
    this.level = clamp(this.level + by, 0, 2);
    this.boxes.clear();
    this.stage.replaceChildren(this.lines);
    this.view.draw();
  }

  // Boxes are kept by name, so that one that stays can move to its new place.
  settle(wanted, layout, paths) {
    for (const [name, box] of this.boxes) {
      if (wanted.has(name)) continue;
      box.remove();
      this.boxes.delete(name);
    }
    const drawn = `${layout.w} ${layout.h} ${paths.join(";")}`;
    if (this.drawn !== drawn) {
      this.drawn = drawn;
      this.stage.style.width = units(layout.w + 4);
      this.stage.style.height = units(layout.h + 4);
      this.lines.setAttribute("viewBox", `0 0 ${layout.w + 4} ${layout.h + 4}`);
      this.lines.style.width = units(layout.w + 4);
      this.lines.style.height = units(layout.h + 4);
      this.lines.replaceChildren();
      for (const [d, cls] of paths) svg("path", { d, class: cls }, this.lines);
    }
    this.minus.setAttribute("aria-disabled", String(this.level === 2));
    this.plus.setAttribute("aria-disabled", String(this.level === 0));
    this.stage.dataset.level = this.level;
    if (!wanted.size) this.stage.append(this.empty);
    else this.empty.remove();
    if (wanted.size && !this.stage.querySelector('[tabindex="0"]')) {
      const first = this.stage.querySelector("button");
      if (first) first.tabIndex = 0;
    }
  }

  // The end of the path at hand comes into sight when it is a new one, unless the reader is at work
  // in the pane. The first picture of a run begins at the root.
  reveal(box) {
    cancelAnimationFrame(this.after);
    const end = box ? `${box.x} ${box.y}` : "";
    const first = this.end === null;
    if (first) this.area.scrollTo(0, 0);
    if (end === this.end) return;
    this.end = end;
    if (!first) this.after = requestAnimationFrame(() => this.scrollTo(box)); // when there is a layout to read
  }

  scrollTo(box) {
    if (!box || this.area.contains(this.area.getRootNode().activeElement)) return;
    const u = this.view.colors?.scale ?? 1;
    const { area } = this;
    if (box.x * u < area.scrollLeft || (box.x + box.w) * u > area.scrollLeft + area.clientWidth - 20) area.scrollLeft = Math.max(0, (box.x + box.w) * u - area.clientWidth + 40);
    const below = Math.min(box.h, area.clientHeight / u - 40); // of a box that is too high, the head
    if (box.y * u < area.scrollTop || (box.y + below) * u > area.scrollTop + area.clientHeight - 20) area.scrollTop = Math.max(0, (box.y + below) * u - area.clientHeight + 40);
  }

  // A box that is new here, named for good.
  box(name, cls) {
    let box = this.boxes.get(name);
    if (!box) {
      box = el("div", "");
      box.dataset.name = name;
      this.boxes.set(name, box);
      this.stage.append(box);
      cls += " fresh";
    }
    box.className = cls;
    return box;
  }

  drawEviction() {
    const { sv, info, read } = this.side;
    const { state } = sv;
    const { order, before } = evictionOrder(state);
    const locked = [];
    for (let b = 0; b < state.n && locked.length <= CHIPS; b++) if (state.entry[b] && state.ref[b]) locked.push(b);
    const { bs } = info;
    const inUse = state.numCached - state.idleCached;
    const chip = (b, i) => {
      const c = button(`ev${i === null ? " prot" : ""}`, null, ...(i === null ? [badge(info, sv.holder[b] ?? info.header.scenario.requests[0].id, info.letter(sv.holder[b] ?? ""))] : [el("b", "", num(i + 1))]), ` block ${num(b)} `, ...(i === null ? [] : [el("span", "muted", read(state.entry[b].tokens).slice(0, 14))]));
      c.dataset.k = state.entry[b].key;
      c.dataset.b = b;
      c.onclick = () => this.view.pickBlock(this.side, b, state.entry[b].key);
      if (i === null && sv.holder[b]) paint(c, info, sv.holder[b]);
      return c;
    };
    const rest = order.length - CHIPS;
    const sums = el("span", "say muted sums", `evictable `, el("b", "mono", num(state.idleCached * bs)), " + protected ", el("b", "mono", num(inUse * bs)), " = cached ", el("b", "mono", num(state.numCached * bs)), " tokens");
    const free = before ? `${plural(before, "free block goes", "free blocks go")} before any of these. ` : "";
    const at = this.area.getRootNode().activeElement;
    const focused = at && this.who.contains(at) ? at.dataset.b : null;
    const list = el("div", "evl", ...order.slice(0, CHIPS).map(chip), ...(rest > 0 ? [el("span", "say muted", `and ${num(rest)} more`)] : []));
    const held = inUse ? el("div", "evl", el("span", "say muted", "locked:"), ...locked.slice(0, CHIPS).map((b) => chip(b, null)), ...(inUse > CHIPS ? [el("span", "say muted", `and ${num(inUse - CHIPS)} more`)] : [])) : "";
    this.who.replaceChildren(el("div", "evh", el("b", "", "Who goes first if a block is needed"), sums), el("p", "say muted", `${free}${order.length ? `By ${policyWords(info.engine)}:` : state.numCached ? "No cached block can go: all are in use." : ""}`), list, held);
    const chips = [...this.who.querySelectorAll("button")];
    const stop = chips.find((c) => c.dataset.b === focused) ?? chips[0];
    for (const c of chips) c.tabIndex = c === stop ? 0 : -1;
    if (focused !== null) stop?.focus({ preventScroll: true });
  }
}
