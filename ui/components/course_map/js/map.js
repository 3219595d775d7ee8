// The places of the course in their order, with marks, times and what each builds on.
import { icon, svg } from "../../run_player/js/icons.js";
import { el, num } from "../../run_player/js/util.js";
import { before, drawArcs } from "./arcs.js";

const MARKS = {
  todo: ["", "Not begun"],
  begun: ["M12 4a8 8 0 0 1 0 16z", "Begun"],
  done: ["M7.5 12.5l3 3 6-7", "Mastered"],
};

function markOf(kind) {
  const [path, word] = MARKS[kind];
  const picture = svg("svg", { viewBox: "0 0 24 24", class: `mark ${kind}`, role: "img", "aria-label": word });
  svg("circle", { cx: 12, cy: 12, r: 8 }, picture);
  if (path) svg("path", { d: path }, picture);
  return picture;
}

const time = (minutes) => (minutes < 90 ? `${minutes} min` : `${num(Math.round(minutes / 30) / 2)} h`);

export class CourseMap {
  constructor() {
    this.lines = svg("svg", { class: "arcs", "aria-hidden": "true" });
    this.list = el("div", "list");
    this.side = el("aside", "side");
    this.root = el("div", "map", el("div", "body", this.lines, this.list), this.side);
    this.resize = new ResizeObserver(() => {
      cancelAnimationFrame(this.frame);
      this.frame = requestAnimationFrame(() => this.arcs());
    });
    this.resize.observe(this.list);
  }

  dispose() {
    cancelAnimationFrame(this.frame);
    this.resize.disconnect();
  }

  update(data) {
    this.data = data;
    const places = data.sections.flatMap((section) => section.places);
    this.titles = new Map(places.map((place) => [place.name, place.title]));
    this.edges = places.flatMap((place) => place.needs.filter((name) => this.titles.has(name)).map((name) => [name, place.name]));
    this.rows = new Map();
    this.list.replaceChildren(...data.sections.map((section) => this.section(section)));
    this.summary(places);
    this.arcs();
  }

  section(section) {
    const sum = section.places.reduce((all, place) => all + place.minutes, 0);
    const head = el("h2", "", section.title, ...(sum ? [el("small", "", time(sum))] : []));
    const list = el("ol", "", ...section.places.map((place) => this.row(place)));
    return el("section", "", head, list);
  }

  row(place) {
    const link = el("a", "ttl", place.title);
    link.href = place.name;
    const needs = place.needs.map((name) => this.titles.get(name)).filter(Boolean);
    const head = el("div", "line", link, ...(this.data.next === place.name ? [el("b", "next", "Next")] : []), el("span", "min", place.minutes ? time(place.minutes) : ""));
    const row = el("li", "row", markOf(place.mark), el("div", "words", head, el("p", "", place.objective), ...(needs.length ? [el("p", "needs", `Builds on ${needs.join(", ")}`)] : [])));
    row.dataset.name = place.name;
    row.onpointerenter = () => this.point(place.name);
    row.onpointerleave = () => this.point(null);
    link.onfocus = () => this.point(place.name);
    link.onblur = () => this.point(null);
    this.rows.set(place.name, row);
    return row;
  }

  summary(places) {
    const lessons = places.filter((place) => place.mark !== undefined);
    const count = (mark) => lessons.filter((place) => place.mark === mark).length;
    const all = places.reduce((sum, place) => sum + place.minutes, 0);
    const bar = el("div", "bar3", ...["done", "begun", "todo"].filter(count).map((mark) => {
      const part = el("i", mark);
      part.style.flexGrow = String(count(mark));
      return part;
    }));
    bar.setAttribute("aria-hidden", "true");
    const keys = el("ul", "keys", ...["todo", "begun", "done"].map((mark) => el("li", "", markOf(mark), `${MARKS[mark][1]}: ${count(mark)}`)));
    const ahead = this.data.next ? el("a", "go", icon("jump"), `${count("begun") + count("done") ? "Go on with" : "Start with"} ${this.titles.get(this.data.next)}`) : null;
    if (ahead) ahead.href = this.data.next;
    this.side.replaceChildren(
      el("p", "sum", `${places.length} pages, about ${time(all)}`), bar, keys,
      ...(ahead ? [ahead] : []),
      el("p", "muted", "Lines lead to a page from those that it builds on. Begin anywhere all the same. Times are estimates."),
    );
  }

  arcs() {
    if (!this.data || !this.list.clientWidth) return;
    const box = this.list.getBoundingClientRect();
    const middles = {};
    for (const [name, row] of this.rows) {
      const mark = row.firstElementChild.getBoundingClientRect();
      middles[name] = mark.top + mark.height / 2 - box.top;
    }
    const width = parseFloat(getComputedStyle(this.root).getPropertyValue("--gutter")) || 60;
    drawArcs(this.lines, middles, this.edges, width, box.height);
    this.point(null);
  }

  // Point at a place: its own lines, and all that lies before it.
  point(name) {
    const back = name ? before(this.edges, name) : new Set();
    this.root.classList.toggle("pointed", Boolean(name) && this.edges.some((edge) => edge.includes(name)));
    for (const path of this.lines.children) {
      const { from, to } = path.dataset;
      path.classList.toggle("on", to === name || (back.has(to) && back.has(from)));
      path.classList.toggle("ahead", from === name);
    }
    for (const [one, row] of this.rows) row.classList.toggle("near", one === name || back.has(one));
  }
}
