// Bytes, perplexity, divergence and agreement of every format on one text: numbers with a dot on a
// scale beside each, so that the rows can be compared at a glance. The chart is a table.
import { icon, svg } from "../../run_player/js/icons.js";
import { button, clamp, el, num } from "../../run_player/js/util.js";
import { saveText } from "../../series/js/save.js";
import { measuredLabel } from "./labels.js";

// Where a value lies between two ends, 0 … 1; in powers of ten where `log`.
export function along(value, low, high, log) {
  const f = log ? Math.log10 : (v) => v;
  if (log && value <= 0) return 0;
  return high > low ? clamp((f(value) - f(low)) / (f(high) - f(low)), 0, 1) : 0;
}

export const plain = (v) => (v === 0 ? "0" : v < 0.001 ? v.toExponential(1).replace("e-", "·10⁻").replace(/⁻(\d+)$/, (_, d) => `⁻${[...d].map((x) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[x]).join("")}`) : v >= 1000 ? num(Math.round(v)) : String(Number(v.toPrecision(3))));

const signed = (v) => (v < 0 ? `−${-v}` : `+${v}`);

// The columns with dots: their ends are those of the rows.
export function scalesOf(rows) {
  const of = (name) => rows.map((row) => row[name]);
  const kls = of("kl").filter((v) => v > 0);
  return {
    perplexity: { low: Math.min(...of("perplexity")), high: Math.max(...of("perplexity")), log: true },
    kl: { low: Math.min(...kls) / 2, high: Math.max(...kls), log: true },
    top1: { low: Math.min(...of("top1")), high: 1, log: false },
  };
}

export function qualityCsv(rows, prompts) {
  const head = ["format", "kv_bytes_per_token", "perplexity", "nll_change_nats", "nll_change_se", "kl_nats", "kl_max_nats", "top1", ...prompts.map((p) => `diverges_${p.id}`)];
  const quoted = (s) => `"${String(s).replaceAll('"', '""')}"`;
  const lines = rows.map((r) => [quoted(r.name), r.bytes, r.perplexity, ...r.change, r.kl, r.kl_max, r.top1, ...prompts.map((p) => r.diverges[p.id] ?? "")].join(","));
  return `${[head.join(","), ...lines].join("\r\n")}\r\n`;
}

export class QualityTable {
  constructor(host) {
    this.host = host;
    this.prov = el("span", "provs");
    const summary = el("summary", "", icon("save"), el("span", "w", "Save"));
    summary.setAttribute("aria-label", "Save: quality of each format");
    const asCsv = button("item", null, "Measured values, as CSV");
    asCsv.onclick = () => {
      this.files.open = false;
      saveText("kv-quality.csv", qualityCsv(this.data.rows, this.data.prompts), "text/csv");
    };
    this.files = el("details", "files", summary, el("div", "menu", asCsv));
    this.about = el("p", "small muted");
    this.box = el("div", "qbox");
    this.panel = el("section", "panel chart quality", el("header", "head", el("h2", "", "What it costs on a text"), this.prov, this.files), this.about, this.box);
    this.root = el("section", "kv sizing quant", this.panel);
    this.resize = new ResizeObserver(() => this.measure());
    this.resize.observe(this.root);
  }

  dispose() {
    this.resize.disconnect();
  }

  measure() {
    const u = Number(getComputedStyle(this.root).getPropertyValue("--scale")) || 1;
    const width = this.root.clientWidth / u;
    this.root.classList.toggle("narrow", width < 620);
    this.root.classList.toggle("middle", width < 980);
  }

  update(component) {
    this.component = component;
    const { data } = component;
    if (this.host.firstElementChild !== this.root) this.host.replaceChildren(this.root);
    this.root.dataset.scale = data.present ? "present" : "";
    const text = JSON.stringify(data);
    if (text === this.drawn) return;
    this.drawn = text;
    this.data = data;
    this.prov.replaceChildren(...measuredLabel(data.label));
    this.about.textContent = data.words.about.replace("{tokens}", num(data.tokens));
    const pressed = this.pressed();
    this.box.replaceChildren(this.table());
    if (pressed >= 0) this.rowButtons()[pressed]?.focus({ preventScroll: true });
    this.measure();
  }

  rowButtons() {
    return [...this.box.querySelectorAll("button.putrow")];
  }

  // The row whose button has the focus, which a new table would take from it; -1: none.
  pressed() {
    return this.rowButtons().indexOf(this.root.getRootNode().activeElement);
  }

  table() {
    const { rows, prompts } = this.data;
    const scales = scalesOf(rows);
    const most = Math.max(...rows.map((r) => r.bytes));
    const names = ["Cache", "Bytes a token", "Perplexity", "KL, nats", "Same likeliest token", ...(prompts.length ? ["First token that differs"] : [])];
    const head = el("tr", "", ...names.map((w) => Object.assign(el("th", "", w), { scope: "col" })));
    const body = rows.map((row, i) => {
      const here = i === this.data.here;
      const name = row.place ? button("putrow", null, row.name) : el("span", "", row.name);
      if (row.place) {
        name.setAttribute("aria-pressed", String(here));
        name.title = "Set the controls above to this format";
        name.onclick = () => this.component.setTriggerValue("show", i);
      }
      const cell = (label, ...kids) => Object.assign(el("td", "", ...kids), { title: label });
      const parts = [
        cell(names[1], this.bar(row.bytes / most), el("b", "n", num(row.bytes))),
        cell(`Mean negative log-likelihood ${signed(row.change[0])} ± ${row.change[1]} nats a token`, this.dot(along(row.perplexity, scales.perplexity.low, scales.perplexity.high, true)), el("b", "n", row.perplexity < 100 ? row.perplexity.toFixed(2) : plain(row.perplexity))),
        cell(names[3], this.dot(along(row.kl, scales.kl.low, scales.kl.high, true), i === 0), el("b", "n", i === 0 ? "–" : plain(Math.max(0, row.kl)))),
        cell(names[4], this.dot(along(row.top1, scales.top1.low, 1, false)), el("b", "n", `${(100 * row.top1).toFixed(1)} %`)),
        ...(prompts.length ? [cell(names[5], el("span", "n firsts", ...this.firsts(row, i)))] : []),
      ];
      parts.forEach((td, k) => (td.dataset.name = names[k + 1]));
      return el("tr", here ? "here" : "", Object.assign(el("th", "", name), { scope: "row" }), ...parts);
    });
    return el("table", "t q", el("caption", "sr", "Each format of the cache on the same text"), el("thead", "", head), el("tbody", "", ...body));
  }

  firsts(row, i) {
    if (i === 0) return ["–"];
    return [this.data.prompts.map((p) => (row.diverges[p.id] === null || row.diverges[p.id] === undefined ? "none" : num(row.diverges[p.id] + 1))).join(", ")];
  }

  bar(share) {
    const bar = el("span", "minibar", Object.assign(el("i", ""), { style: `width:${100 * share}%` }));
    bar.setAttribute("aria-hidden", "true");
    return bar;
  }

  dot(at, none = false) {
    const line = svg("svg", { class: "minidot", viewBox: "0 0 100 12", preserveAspectRatio: "none", "aria-hidden": "true" });
    svg("line", { x1: 2, x2: 98, y1: 6, y2: 6, class: "rail" }, line);
    const holder = el("span", "dotbox", line);
    if (!none) holder.append(Object.assign(el("i", "dot0"), { style: `left:${4 + 92 * at}%` }));
    holder.setAttribute("aria-hidden", "true");
    return holder;
  }
}
