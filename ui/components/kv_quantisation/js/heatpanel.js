// The heat map with what belongs to it: label, key, the sentence of a cell, table and files.
import { icon, svg } from "../../run_player/js/icons.js";
import { mix, readColors } from "../../run_player/js/canvas.js";
import { button, el, num } from "../../run_player/js/util.js";
import { savePng, saveText } from "../../series/js/save.js";
import { cellsOf, depth, ink, percentOf, step, worst } from "./heat.js";
import { measuredLabel } from "./labels.js";

const OF_KIND = { key: "keys", value: "values" };
const says = (error) => (error === 0 ? "no error: kept as it was" : `wrong by ${percentOf(error)} % of their size`);

export class HeatPanel {
  constructor() {
    this.at = null;
    this.prov = el("span", "provs");
    this.root0 = svg("svg", { role: "img" });
    this.range = Object.assign(el("input", "over"), { type: "range", min: "0", value: "0", step: "1" });
    this.range.onkeydown = (e) => this.key(e);
    this.range.oninput = () => this.point(Number(this.range.value));
    this.range.onfocus = () => this.point(Number(this.range.value));
    this.range.onblur = () => this.point(null);
    this.range.onpointermove = (e) => this.point(this.under(e));
    this.range.onpointerleave = () => this.range.getRootNode().activeElement !== this.range && this.point(null);
    this.range.onpointerdown = (e) => {
      e.preventDefault(); // a range would jump to its own idea of the place
      this.range.focus({ preventScroll: true });
      this.point(this.under(e));
    };
    this.box = el("div", "plot heat", this.root0, this.range);
    this.said = el("p", "said");
    this.key0 = el("div", "heatkey");
    this.table = el("details", "tbl", el("summary", "", "Table"), el("div", "tbox"));
    this.table.ontoggle = () => this.rows();
    const summary = el("summary", "", icon("save"), el("span", "w", "Save"));
    summary.setAttribute("aria-label", "Save: errors by layer and head");
    const asCsv = button("item", null, "Errors, as CSV");
    const asPng = button("item", null, "Picture, as PNG");
    this.files = el("details", "files", summary, el("div", "menu", asCsv, asPng));
    const away = (make) => () => {
      this.files.open = false;
      make();
    };
    asCsv.onclick = away(() => saveText("kv-error.csv", csvOf(this.cells), "text/csv"));
    asPng.onclick = away(() => savePng("kv-error.png", [this.root0], { head: `Relative error of the cache, ${this.title}`, foot: this.prov.textContent, host: this.root }));
    this.head = el("h2", "", "Error by layer and head");
    this.root = el("section", "panel chart heats", el("header", "head", this.head, this.prov, this.files), this.key0, this.box, this.said, this.table);
  }

  update({ measured, words }, u) {
    const errors = measured?.errors ?? null;
    this.root.hidden = !errors;
    if (!errors) return;
    this.title = measured.title;
    this.words = words;
    this.prov.replaceChildren(...measuredLabel(measured.label));
    this.cells = cellsOf(errors);
    this.layers = errors.key.length;
    this.heads = errors.key[0].length;
    this.all = { key: errors.key_all, value: errors.value_all };
    this.range.max = String(this.cells.length - 1);
    this.range.setAttribute("aria-label", "Errors by layer and head, keys and then values");
    this.draw(u);
    this.rows();
  }

  draw(u) {
    const width = Math.floor(this.box.clientWidth);
    if (width < 60) return;
    const c = (this.colors = readColors(this.root));
    const rows = 2 * this.heads;
    this.across = width >= 560 * u;
    Object.assign(this, { u, left: (this.across ? 92 : 40) * u, top: (this.across ? 24 : 42) * u });
    this.gap = 10 * u; // between keys and values
    this.w = (width - this.left - (this.across ? 2 : this.gap)) / (this.across ? this.layers : rows);
    this.h = (this.across ? 30 : 19) * u;
    const height = this.top + this.h * (this.across ? rows : this.layers) + (this.across ? this.gap : 0) + 4 * u;
    const { root0: root } = this;
    root.replaceChildren();
    for (const [name, value] of [["width", width], ["height", height], ["viewBox", `0 0 ${width} ${height}`]]) root.setAttribute(name, value);
    const write = (x, y, words, more = {}) => (svg("text", { x, y, ...more }, root).textContent = words);
    this.sides(write);
    this.cells.forEach((cell, i) => {
      const { x, y } = this.place(i);
      const ground = mix(c.accent, c.surface, depth(cell.error));
      svg("rect", { x: x + 0.75, y: y + 0.75, width: this.w - 1.5, height: this.h - 1.5, rx: 2, fill: ground, stroke: cell.error ? "none" : c.border }, root);
      if (this.w >= 26 * u) write(x + this.w / 2, y + this.h / 2 + 4 * u, percentOf(cell.error), { "text-anchor": "middle", class: "cell", style: `fill:${ink(ground, c.text, c.surface)}` });
    });
    this.cursor = svg("rect", { class: "heatcursor", rx: 2, width: this.w, height: this.h }, root);
    root.setAttribute("aria-label", this.describe());
    this.legend(c);
    this.point(this.at !== null && this.at < this.cells.length ? this.at : null);
  }

  // Names of heads and numbers of layers along the sides.
  sides(write) {
    const { u } = this;
    for (let row = 0; row < 2 * this.heads; row++) {
      const { x, y } = this.place(row * this.layers);
      const kind = row < this.heads ? "key" : "value";
      const name = `${kind === "key" ? "K" : "V"} head ${row % this.heads}`;
      if (this.across) write(this.left - 8 * u, y + this.h / 2 + 4 * u, name, { "text-anchor": "end" });
      else {
        write(x + this.w / 2, this.top - 6 * u, String(row % this.heads), { "text-anchor": "middle", class: "v" });
        if (row % this.heads === 0) write(x, this.top - 22 * u, kind === "key" ? "K of head" : "V of head", {});
      }
    }
    const every = this.across && this.w < 22 * u ? 5 : 1;
    for (let layer = 0; layer < this.layers; layer += every) {
      const { x, y } = this.place(layer);
      if (this.across) write(x + this.w / 2, this.top - 7 * u, String(layer), { "text-anchor": "middle", class: "v" });
      else write(this.left - 8 * u, y + this.h / 2 + 4 * u, String(layer), { "text-anchor": "end", class: "v" });
    }
    write(this.across ? this.left - 8 * u : 0, this.across ? this.top - 7 * u : this.top - 6 * u, "layer", { "text-anchor": this.across ? "end" : "start" });
  }

  place(i) {
    const [row, layer] = [Math.floor(i / this.layers), i % this.layers];
    const apart = row < this.heads ? 0 : this.gap;
    return this.across ? { x: this.left + layer * this.w, y: this.top + row * this.h + apart } : { x: this.left + row * this.w + apart, y: this.top + layer * this.h };
  }

  under(e) {
    const box = this.box.getBoundingClientRect();
    const [x, y] = [e.clientX - box.left, e.clientY - box.top];
    const along = this.across ? x - this.left : y - this.top;
    let other = this.across ? y - this.top : x - this.left;
    const size = this.across ? this.h : this.w;
    if (other > this.heads * size) other = Math.max(this.heads * size, other - this.gap);
    const hold = (v, most) => Math.min(most, Math.max(0, Math.floor(v)));
    return hold(other / size, 2 * this.heads - 1) * this.layers + hold(along / (this.across ? this.w : this.h), this.layers - 1);
  }

  key(e) {
    const to = step(e.key, Number(this.range.value), this.layers, 2 * this.heads, this.across);
    if (to === null) return;
    e.preventDefault();
    this.point(to);
  }

  point(i) {
    this.at = i;
    this.cursor?.toggleAttribute("hidden", i === null);
    if (i !== null) {
      const { x, y } = this.place(i);
      this.cursor.setAttribute("x", x);
      this.cursor.setAttribute("y", y);
      this.range.value = String(i);
    }
    this.range.setAttribute("aria-valuetext", this.sentence(this.cells[i ?? Number(this.range.value)]));
    this.said.textContent = i === null ? this.summary() : this.sentence(this.cells[i]);
    this.said.classList.toggle("hint", i === null);
  }

  sentence({ kind, head, layer, error }) {
    const all = this.all[kind];
    const times = all > 0 && error > 0 ? `, ${(error / all).toFixed(1)} times the ${OF_KIND[kind]} of the whole cache` : "";
    return `Layer ${layer}, KV head ${head}, ${OF_KIND[kind]}: ${says(error)}${times}.`;
  }

  summary() {
    const [top] = worst(this.cells, 1);
    const whole = `All keys ${percentOf(this.all.key)} %, all values ${percentOf(this.all.value)} %.`;
    return `${whole} Worst: layer ${top.layer}, KV head ${top.head}, ${OF_KIND[top.kind]}, ${percentOf(top.error)} %. Point at a cell, or use the arrow keys.`;
  }

  describe() {
    const said = worst(this.cells, 3).map((one) => `layer ${one.layer}, head ${one.head}, ${OF_KIND[one.kind]}: ${percentOf(one.error)} %`);
    return `Relative error of ${num(this.layers)} layers and ${num(this.heads)} KV heads, keys and values. Worst: ${said.join("; ")}.`;
  }

  legend(c) {
    const strip = svg("svg", { width: 132, height: 12, viewBox: "0 0 132 12", "aria-hidden": "true" });
    for (let i = 0; i < 22; i++) svg("rect", { x: i * 6, y: 0, width: 6, height: 12, fill: mix(c.accent, c.surface, Math.max(0.05, i / 21)) }, strip);
    this.key0.replaceChildren(el("span", "small muted", this.words["heat"]), el("span", "scale", "0.1 %", strip, "100 %"));
  }

  rows() {
    const box = this.table.lastElementChild;
    if (!this.table.open || !this.cells) {
      box.replaceChildren();
      return;
    }
    const names = [0, this.heads].flatMap((from) => Array.from({ length: this.heads }, (_, head) => `${from ? "V" : "K"} head ${head}, %`));
    const head = el("tr", "", ...["Layer", ...names].map((w) => Object.assign(el("th", "", w), { scope: "col" })));
    const body = Array.from({ length: this.layers }, (_, layer) => el("tr", "", Object.assign(el("th", "", String(layer)), { scope: "row" }), ...names.map((_, row) => el("td", "n", percentOf(this.cells[row * this.layers + layer].error)))));
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", "Table: relative error in percent");
    box.replaceChildren(el("table", "t", el("caption", "sr", "Relative error in percent, by layer and KV head"), el("thead", "", head), el("tbody", "", ...body)));
  }
}

// One cell a line: layer,head,of,relative_error
export function csvOf(cells) {
  const lines = cells.map((one) => [one.layer, one.head, one.kind, one.error].join(","));
  return `${["layer,kv_head,of,relative_error", ...lines].join("\r\n")}\r\n`;
}
