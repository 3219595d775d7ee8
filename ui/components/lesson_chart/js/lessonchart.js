// A chart of a lesson with all that belongs to it: head, label, picture, reading, table, files.
import { button, el } from "../../run_player/js/util.js";
import { SeriesChart } from "../../series/js/chart.js";
import { fileName, savePng, saveText } from "../../series/js/save.js";
import { between, linearTicks, logTicks, reading, three } from "./axes.js";
import { asCsv } from "./table.js";
import { LessonPlot } from "./lessonplot.js";

const NARROW = 520;

export class LessonChart extends SeriesChart {
  constructor() {
    super();
    this.plot = new LessonPlot();
    this.box.replaceChildren(this.plot.root, this.range);
    this.about = el("p", "about");
    this.root.insertBefore(this.about, this.keys);
    this.root.insertBefore(el("footer", "foot", this.prov, this.files), this.table);
  }

  menu() {
    const values = button("item", null, "Values, as CSV");
    const picture = button("item", null, "Picture, as PNG");
    const foot = () => [...this.prov.children].map((part) => part.textContent).join(" · ");
    values.onclick = () => this.away(() => saveText(fileName(this.data.title, "csv"), asCsv(this.data), "text/csv"));
    picture.onclick = () => this.away(() => savePng(fileName(this.data.title, "png"), [this.plot.root], { head: this.data.title, foot: foot(), host: this.root }));
    return el("div", "menu", values, picture);
  }

  update(data) {
    this.about.textContent = data.about;
    super.update({ ...data, x: { ...data.x, last: data.x.values.length - 1 } });
    this.root.classList.add("lesson");
    this.title.replaceChildren(data.title); // the unit stands at its axis
  }

  spec() {
    const { x, y, lines, rules } = this.data;
    const heights = lines.flatMap((line) => line.values).concat(rules.filter((r) => r.axis === "y").map((r) => r.at)).filter((v) => v !== null && (!y.log || v > 0));
    const places = [...x.values, ...rules.filter((r) => r.axis === "x").map((r) => r.at)];
    const [lo, hi] = [Math.min(...places), Math.max(...places)];
    const xTicks = between(lo, hi, x.log ? logTicks(lo, hi, x.values) : linearTicks(hi));
    const yTicks = y.log ? logTicks(Math.min(...heights), Math.max(...heights), [], 6) : linearTicks(Math.max(...heights));
    const named = ({ label, unit }) => (unit && !label.toLowerCase().endsWith(unit.toLowerCase()) ? `${label}, ${unit}` : label);
    return {
      xs: x.values,
      lines,
      rules,
      x: { ticks: xTicks, log: x.log, text: three, label: named(x) },
      y: { ticks: yTicks, log: y.log, text: three, label: named({ ...y, unit: this.data.unit }) },
    };
  }

  draw() {
    const width = Math.floor(this.box.clientWidth);
    if (!this.data || width < 40) return;
    const u = Number(getComputedStyle(this.root).getPropertyValue("--scale")) || 1;
    this.root.classList.toggle("narrow", width < NARROW * u);
    this.plot.draw(this.spec(), width, Math.round(290 * u), u);
    this.plot.root.setAttribute("aria-label", this.describe());
    this.read(this.x);
  }

  describe() {
    const { title, about, lines, x } = this.data;
    return `${title}. ${about} Lines over ${x.label}: ${lines.map((line) => line.name).join(", ")}.`;
  }

  read(i, follow = true) {
    this.x = i;
    this.plot.point(i);
    if (i !== null && follow && this.range.value !== String(i)) this.range.value = String(i);
    this.said.textContent = i === null ? "Hover, or use the arrow keys, to read the values of a place." : reading(this.data, i);
    this.said.classList.toggle("hint", i === null);
    this.range.setAttribute("aria-valuetext", reading(this.data, i ?? Number(this.range.value)));
  }

  rows() {
    const box = this.table.lastElementChild;
    if (!this.table.open || !this.data) {
      box.replaceChildren();
      return;
    }
    const { data } = this;
    const head = el("tr", "", el("th", "", data.x.unit || data.x.label), ...data.lines.map((line) => el("th", "", line.name)));
    for (const cell of head.children) cell.scope = "col";
    const body = el("tbody", "", ...data.x.values.map((x, i) => el("tr", "", el("td", "n", three(x)), ...data.lines.map((line) => el("td", "n", three(line.values[i]))))));
    const made = el("tbody", "", el("tr", "", el("td", "", "computed by"), ...data.lines.map((line) => el("td", "c", line.call))));
    const table = el("table", "t", el("caption", "", `${data.title}${data.unit ? `, ${data.unit}` : ""}`), el("thead", "", head), body, made);
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", `Table: ${data.title}`);
    box.replaceChildren(table);
  }
}
