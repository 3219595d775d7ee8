// Cost against latency: a mark for each plan of the grid, those that another one beats drawn pale.
import { icon, svg } from "../../run_player/js/icons.js";
import { button, el, num } from "../../run_player/js/util.js";
import { fileName, savePng } from "../../series/js/save.js";
import { modelled } from "../../kv_sizing/js/said.js";
import { hasFocus, inMs, money } from "./answer.js";

// 1, 2, 5, 10 … from at most the lowest value to at least the highest.
export function decades(low, high) {
  const out = [];
  for (let p = Math.floor(Math.log10(low)); p <= Math.ceil(Math.log10(high)); p++) for (const m of [1, 2, 5]) out.push(m * 10 ** p);
  const first = out.findLastIndex((v) => v <= low);
  const last = out.findIndex((v) => v >= high);
  const cut = out.slice(Math.max(0, first), last + 1);
  return cut.length > 1 ? cut : [cut[0], cut[0] * 2];
}

// A value of the axis, which says its unit once.
const axisMs = (seconds) => Number((1000 * seconds).toPrecision(3)).toLocaleString("en-US");

const TITLE = "Cost against latency";

export class Frontier {
  constructor(choose) {
    this.choose = choose;
    this.at = null;
    this.prov = el("span", "provs");
    this.axis = el("div", "seg");
    this.axis.setAttribute("role", "group");
    this.axis.setAttribute("aria-label", "Latency on the chart");
    this.root2 = svg("svg", { role: "group" });
    this.plot = el("div", "plot", this.root2);
    this.said = el("p", "said");
    this.said.setAttribute("role", "status");
    this.table = el("details", "tbl", el("summary", "", "Table"), el("div", "tbox"));
    this.table.ontoggle = () => this.rows();
    this.png = button("btn quiet", "Save the chart as PNG", icon("save"));
    this.png.onclick = () => savePng(fileName(TITLE, "png"), [this.root2], { head: TITLE, foot: this.prov.textContent, host: this.root });
    this.root = el("section", "panel chart front", el("header", "head", el("h2", "", TITLE), this.prov, this.png), this.axis, this.plot, this.said, this.table);
    this.plot.onkeydown = (e) => this.key(e);
  }

  update(frontier, data, u) {
    Object.assign(this, { frontier, data, u });
    this.prov.replaceChildren(modelled([data.model.title, `${num(data.place.users)} users`]));
    const chose = hasFocus(this.axis);
    this.axis.replaceChildren(
      ...data.options.y.map(([value, title]) => {
        const b = button("", null, title);
        b.setAttribute("aria-pressed", String(value === frontier.y));
        b.onclick = () => this.choose({ y: value });
        return b;
      }),
    );
    if (chose) this.axis.querySelector("[aria-pressed=true]")?.focus();
    this.points = [...frontier.points].sort((a, b) => a.price - b.price || a.latency - b.latency);
    if (this.at !== null && this.at >= this.points.length) this.at = null; // there are fewer plans now
    const held = hasFocus(this.root2);
    this.draw();
    if (held) this.marks?.[this.at ?? this.first()]?.focus(); // what had the focus is gone
    this.rows();
    this.say(null);
  }

  draw() {
    const { u, points, root2 } = this;
    const width = Math.floor(this.plot.clientWidth);
    root2.replaceChildren();
    if (width < 60) return;
    const height = Math.round(300 * u);
    Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` }).forEach(([k, v]) => root2.setAttribute(k, v));
    root2.setAttribute("aria-label", points.length ? `${num(points.length)} plans, cost an hour against time ${this.frontier.axis}. Arrow keys walk them, Enter takes one over.` : "No plan of the grid holds all users");
    if (!points.length) {
      svg("text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, root2).textContent = "No plan of the grid holds all users.";
      return;
    }
    const limit = this.data.place[this.frontier.y] / 1000;
    const xs = decades(Math.min(...points.map((p) => p.price)), Math.max(...points.map((p) => p.price)));
    const lows = points.map((p) => p.latency).concat(limit ? [limit] : []);
    const ys = decades(Math.min(...lows), Math.max(...lows));
    const [x0, x1, y0, y1] = [58 * u, width - 16 * u, height - 40 * u, 26 * u];
    const log = (v, a, b) => Math.log(v / a) / Math.log(b / a);
    const X = (v) => x0 + 10 * u + log(v, xs[0], xs.at(-1)) * (x1 - x0 - 20 * u);
    const Y = (v) => y0 - log(v, ys[0], ys.at(-1)) * (y0 - y1);
    this.grid({ xs, ys, X, Y, x0, x1, y0, y1 });
    if (limit) {
      svg("line", { x1: x0, x2: x1, y1: Y(limit), y2: Y(limit), class: "level" }, root2);
      svg("text", { x: x1, y: Y(limit) - 5 * u, "text-anchor": "end", class: "level" }, root2).textContent = `limit ${num(limit * 1000)} ms`;
    }
    const best = points.filter((p) => !p.dominated);
    svg("path", { d: best.map((p, i) => (i ? `H${X(p.price)}V${Y(p.latency)}` : `M${X(p.price)} ${Y(p.latency)}`)).join(""), class: "line c" }, root2);
    this.marks = [];
    [...points.keys()].sort((a, b) => Number(points[b].dominated) - Number(points[a].dominated)).forEach((i) => this.mark(i, X, Y));
  }

  grid({ xs, ys, X, Y, x0, x1, y0, y1 }) {
    const { u, root2 } = this;
    const text = (x, y, words, more) => (svg("text", { x, y, ...more }, root2).textContent = words);
    ys.forEach((v, i) => {
      svg("line", { x1: x0, x2: x1, y1: Y(v), y2: Y(v), class: i ? "grid" : "axis" }, root2);
      text(x0 - 6 * u, Y(v) + 4 * u, axisMs(v), { "text-anchor": "end", class: "v" });
    });
    const every = Math.ceil(xs.length / Math.max(2, Math.floor((x1 - x0) / (56 * u))));
    xs.forEach((v, i) => {
      if (i % every === 0) text(X(v), y0 + 15 * u, money(v), { "text-anchor": "middle", class: "v" });
    });
    text(4, 12 * u, `${this.frontier.axis}, ms`, { class: "n" });
    text(x1, y0 + 31 * u, "price of an hour, all GPUs", { "text-anchor": "end", class: "n" });
  }

  // A circle for the GPU that is planned, a square for the second; empty where a limit is missed.
  mark(i, X, Y) {
    const { u, points } = this;
    const p = points[i];
    const [x, y, r] = [X(p.price), Y(p.latency), 6 * u];
    const g = svg("g", { class: `pt ${p.dominated ? "pale" : "best"} ${p.meets ? "" : "miss"} ${p.now ? "now1" : ""}`, tabindex: i === (this.at ?? this.first()) ? "0" : "-1", role: "button", "aria-label": this.sentence(p) }, this.root2);
    if (p.now) svg("circle", { cx: x, cy: y, r: r + 4 * u, class: "ring" }, g);
    if (p.kind) svg("rect", { x: x - r * 0.9, y: y - r * 0.9, width: 1.8 * r, height: 1.8 * r, class: "sh" }, g);
    else svg("circle", { cx: x, cy: y, r, class: "sh" }, g);
    g.onpointerenter = g.onfocus = () => this.say(i);
    g.onpointerleave = g.onblur = () => this.say(null);
    g.onclick = () => this.take(i);
    this.marks[i] = g;
  }

  first() {
    const now = this.points.findIndex((p) => p.now);
    return now >= 0 ? now : 0;
  }

  sentence(p) {
    const state = p.meets ? "keeps the limits" : "over a limit";
    return `${p.label}: ${money(p.price)} an hour, first token ${inMs(p.ttft)}, between tokens ${inMs(p.itl)}; ${state}${p.dominated ? "; another plan is no dearer and no slower" : ""}.${p.now ? " The present plan." : ""}`;
  }

  say(i) {
    const hint = this.data.words.frontier;
    this.said.textContent = i === null ? hint : this.sentence(this.points[i]);
    this.said.classList.toggle("hint", i === null);
  }

  take(i) {
    this.at = null; // the plan that is taken will be the present one
    this.choose(this.points[i].set);
  }

  key(e) {
    const at = this.marks?.indexOf(e.target.closest(".pt")) ?? -1;
    if (at < 0) return;
    const to = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: this.points.length - 1 }[e.key];
    if (e.key === "Enter" || e.key === " ") this.take(at);
    else if (to === undefined || !this.marks[to]) return;
    else {
      this.marks[at].setAttribute("tabindex", "-1");
      this.marks[to].setAttribute("tabindex", "0");
      this.marks[to].focus();
      this.at = to;
    }
    e.preventDefault();
  }

  rows() {
    const box = this.table.lastElementChild;
    if (!this.table.open || !this.points) {
      box.replaceChildren();
      return;
    }
    const head = el("tr", "", ...["plan", "an hour", "first token", "between", "state"].map((n) => Object.assign(el("th", "", n), { scope: "col" })));
    const body = this.points.map((p) => el("tr", "", Object.assign(el("th", "", p.label), { scope: "row" }), el("td", "n", money(p.price)), el("td", "n", inMs(p.ttft)), el("td", "n", inMs(p.itl)), el("td", "", [p.now ? "present" : "", p.dominated ? "beaten" : "on the frontier", p.meets ? "" : "over a limit"].filter(Boolean).join(", "))));
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", `Table: ${TITLE}`);
    box.replaceChildren(el("table", "t", el("caption", "sr", TITLE), el("thead", "", head), el("tbody", "", ...body)));
  }
}
