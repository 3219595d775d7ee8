// A chart with all that belongs to it: title, label, picture, values of a place, table, files.
import { icon, svg } from "../../run_player/js/icons.js";
import { button, el } from "../../run_player/js/util.js";
import { fileName, savePng, saveText } from "../../series/js/save.js";
import { Curves } from "./curves.js";

export class ChartPanel {
  // options: {title, slots: nodes under the head}
  constructor(title) {
    this.i = null;
    this.curves = new Curves();
    this.title = el("h2", "", title);
    this.prov = el("span", "provs");
    const summary = el("summary", "", icon("save"), el("span", "w", "Save"));
    summary.setAttribute("aria-label", `Save: ${title}`);
    const asCsv = button("item", null, "Values, as CSV");
    const asPng = button("item", null, "Picture, as PNG");
    this.files = el("details", "files", summary, el("div", "menu", asCsv, asPng));
    asCsv.onclick = () => this.away(() => saveText(fileName(title, "csv"), this.csv(), "text/csv"));
    asPng.onclick = () => this.away(() => savePng(fileName(title, "png"), [this.curves.root], { head: title, foot: this.prov.textContent, host: this.root }));
    this.range = Object.assign(el("input", "over"), { type: "range", min: "0" });
    this.range.setAttribute("aria-label", `${title}: read the values of a place`);
    this.range.oninput = this.range.onfocus = () => this.read(Number(this.range.value));
    this.range.onblur = () => this.read(null);
    this.range.onpointermove = (e) => this.read(this.curves.at(e.clientX - this.box.getBoundingClientRect().left));
    this.range.onpointerleave = () => this.range.getRootNode().activeElement !== this.range && this.read(null);
    this.box = el("div", "plot", this.curves.root, this.range);
    this.keys = el("div", "keys");
    this.said = el("p", "said");
    this.table = el("details", "tbl", el("summary", "", "Table"), el("div", "tbox"));
    this.table.ontoggle = () => this.rows();
    this.root = el("section", "panel chart", el("header", "head", this.title, this.prov, this.files), this.keys, this.box, this.said, this.table);
  }

  away(act) {
    this.files.open = false;
    act();
  }

  // spec: as `Curves.draw`; sentence: index → words; hint; columns: [[head, unit-free value of a row]].
  show(spec, { sentence, hint, columns, about, u, height = 250 }) {
    Object.assign(this, { spec, sentence, hint, columns });
    const width = Math.floor(this.box.clientWidth);
    if (width < 60) return;
    this.curves.draw(spec, width, Math.round(height * u), u);
    this.curves.root.setAttribute("aria-label", about);
    this.keys.replaceChildren(
      ...spec.lines.map((l) => {
        const sample = svg("svg", { width: 26, height: 12, viewBox: "0 0 26 12", "aria-hidden": "true" });
        svg("path", { d: "M0 6H26", class: `line ${l.cls}` }, sample);
        return el("span", "", sample, l.name);
      }),
    );
    this.keys.hidden = width >= 460 * u;
    this.range.max = String(spec.xs.length - 1);
    if (this.i !== null && this.i >= spec.xs.length) this.i = null;
    this.rows();
    this.read(this.i);
  }

  read(i) {
    this.i = i;
    this.curves.read(i);
    if (i !== null && this.range.value !== String(i)) this.range.value = String(i);
    this.said.textContent = i === null ? this.hint : this.sentence(i);
    this.said.classList.toggle("hint", i === null);
    this.range.setAttribute("aria-valuetext", this.sentence(i ?? Number(this.range.value)));
  }

  rows() {
    const box = this.table.lastElementChild;
    if (!this.table.open || !this.spec) {
      box.replaceChildren();
      return;
    }
    const head = el("tr", "", ...this.columns.map(([name]) => Object.assign(el("th", "", name), { scope: "col" })));
    const body = this.spec.xs.map((_, i) => el("tr", "", ...this.columns.map(([, value]) => el("td", "n", String(value(i) ?? "–")))));
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", `Table: ${this.title.textContent}`);
    box.replaceChildren(el("table", "t", el("caption", "sr", this.title.textContent), el("thead", "", head), el("tbody", "", ...body)));
  }

  csv() {
    const quoted = (s) => {
      const safe = /^[=+\-@\t\r]/.test(s) && Number.isNaN(Number(s)) ? `'${s}` : s; // a spreadsheet would run it
      return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
    };
    const rows = [this.columns.map(([name]) => name), ...this.spec.xs.map((_, i) => this.columns.map(([, , raw]) => String(raw(i) ?? "")))];
    return rows.map((row) => row.map(quoted).join(",")).join("\r\n") + "\r\n";
  }
}
