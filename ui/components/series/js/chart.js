// A chart over steps with all that belongs to it: head, picture, the values of a step, table, files.
import { icon, svg } from "../../run_player/js/icons.js";
import { provenance } from "../../run_player/js/provenance.js";
import { button, el, num } from "../../run_player/js/util.js";
import { Plot, styleOf } from "./plot.js";
import { fileName, savePng, saveText } from "./save.js";
import { columns, csv, marksAt, sentence, value } from "./values.js";

export class SeriesChart {
  constructor() {
    this.x = null; // the step that is read, null: none
    this.plot = new Plot();
    this.title = el("h3", "ttl");
    this.prov = el("span", "prov");
    this.files = el("details", "files", this.saves(), this.menu());
    this.keys = el("div", "keys");
    this.range = el("input", "rng");
    this.range.type = "range";
    this.range.min = "0";
    this.range.oninput = () => this.read(Number(this.range.value));
    this.range.onfocus = () => this.read(Number(this.range.value));
    this.range.onblur = () => this.read(null);
    this.range.onpointermove = (e) => this.read(this.plot.at(e.clientX - this.box.getBoundingClientRect().left), false);
    this.range.onpointerleave = () => this.range.getRootNode().activeElement !== this.range && this.read(null);
    this.box = el("div", "plot", this.plot.root, this.range);
    this.said = el("p", "said");
    this.table = el("details", "tbl", el("summary", "", "Table"), el("div", "tbox"));
    this.table.ontoggle = () => this.rows();
    this.root = el("section", "kv series", el("header", "head", this.title, this.prov, this.files), this.keys, this.box, this.said, this.table);
    this.resize = new ResizeObserver(() => {
      cancelAnimationFrame(this.raf);
      this.raf = requestAnimationFrame(() => this.draw());
    });
    this.resize.observe(this.box);
  }

  dispose() {
    cancelAnimationFrame(this.raf);
    this.resize.disconnect();
  }

  saves() {
    const summary = el("summary", "", icon("save"), el("span", "w", "Save"));
    summary.setAttribute("aria-label", "Save the chart");
    return summary;
  }

  menu() {
    const asCsv = button("item", null, "Values, as CSV");
    const asPng = button("item", null, "Picture, as PNG");
    asCsv.onclick = () => this.away(() => saveText(fileName(this.data.title, "csv"), csv(this.data), "text/csv"));
    asPng.onclick = () => this.away(() => savePng(fileName(this.data.title, "png"), [this.plot.root], { head: this.data.title, foot: [...this.prov.children].map((part) => part.textContent).join(" · "), host: this.root }));
    return el("div", "menu", asCsv, asPng);
  }

  away(act) {
    this.files.open = false;
    act();
  }

  update(data) {
    this.data = data;
    this.root.dataset.scale = data.present ? "present" : "";
    this.root.classList.toggle("small", Boolean(data.small));
    this.root.setAttribute("aria-label", data.title);
    this.title.replaceChildren(data.title, ...(data.unit ? [el("small", "", data.unit)] : []));
    const p = provenance(data.label);
    this.prov.className = `prov ${p.cls}`;
    this.prov.replaceChildren(el("b", "", icon(p.icon), p.word), el("span", "", p.about.filter(Boolean).join(", ")));
    this.prov.title = this.prov.textContent;
    this.range.max = String(Math.max(0, data.x.last));
    this.range.setAttribute("aria-label", `${data.title}: ${data.x.label}`);
    this.legend();
    if (this.x !== null && this.x > data.x.last) this.x = null;
    this.rows();
    this.draw();
  }

  // Names with a sample of each line: in the picture they stand where the line ends, if it is wide.
  legend() {
    const named = (list, kind) =>
      list.map((c, i) => {
        const sample = svg("svg", { width: 26, height: 12, viewBox: "0 0 26 12", "aria-hidden": "true" });
        if (kind === "line") svg("path", { d: "M0 6H26", class: `line ${styleOf(c, i)}` }, sample);
        else svg("rect", { width: 26, height: 12, class: `swatch ${styleOf({}, i)}` }, sample);
        return el("span", kind, sample, c.name);
      });
    this.keys.replaceChildren(...named(this.data.lines ?? [], "line"), ...named(this.data.bands ?? [], "band"));
  }

  draw() {
    const width = Math.floor(this.box.clientWidth);
    if (!this.data || width < 40) return;
    const u = Number(getComputedStyle(this.root).getPropertyValue("--scale")) || 1;
    const height = Math.round((this.data.small ? 150 : 230) * u);
    this.root.classList.toggle("narrow", width < 520 * u);
    this.plot.draw(this.data, width, height, u);
    this.plot.root.setAttribute("aria-label", this.describe());
    this.read(this.x);
  }

  describe() {
    const { data } = this;
    const peaks = columns(data).map((c) => `${c.name} at most ${value(c.values.reduce((a, v) => (v !== null && v > a ? v : a), 0))}`);
    return `${data.title}. Chart over ${num(data.x.last + 1)} places (${data.x.label}): ${peaks.join(", ")}${data.unit ? ` ${data.unit}` : ""}.`;
  }

  read(x, follow = true) {
    this.x = x;
    this.plot.point(x);
    if (x !== null && follow && this.range.value !== String(x)) this.range.value = String(x);
    const hint = "Hover, or use the arrow keys, to read the values of a place.";
    this.said.textContent = x === null ? (this.data.small ? "\u00a0" : hint) : sentence(this.data, x);
    this.said.classList.toggle("hint", x === null);
    this.range.setAttribute("aria-valuetext", sentence(this.data, x ?? Number(this.range.value)));
  }

  // Built when it is opened: a long run has thousands of rows.
  rows() {
    const box = this.table.lastElementChild;
    if (!this.table.open || !this.data) {
      box.replaceChildren();
      return;
    }
    const { data } = this;
    const cols = columns(data);
    const marks = (data.marks ?? []).length > 0;
    const head = el("tr", "", ...[data.x.label, ...cols.map((c) => c.name), ...(marks ? ["what happened"] : [])].map((w) => el("th", "", w)));
    for (const th of head.children) th.scope = "col";
    const body = el("tbody");
    for (let x = 0; x <= data.x.last; x++) {
      body.append(el("tr", "", el("td", "n", num(x)), ...cols.map((c) => el("td", "n", value(c.values[x]))), ...(marks ? [el("td", "", marksAt(data, x).join(", "))] : [])));
    }
    const table = el("table", "t", el("caption", "", `${data.title}${data.unit ? `, ${data.unit}` : ""}`), el("thead", "", head), body);
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", `Table: ${data.title}`);
    box.replaceChildren(table);
  }
}
