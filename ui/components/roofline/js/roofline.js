// The whole instrument: what the controls say goes to Python, the figures that come back are drawn;
// pointing at a step, or selecting several, happens here alone.
import { icon } from "../../run_player/js/icons.js";
import { provenance } from "../../run_player/js/provenance.js";
import { button, el, num, plural } from "../../run_player/js/util.js";
import { Instrument } from "../../kv_sizing/js/instrument.js";
import { modelled } from "../../kv_sizing/js/said.js";
import { figures, short } from "../../live_run/js/scales.js";
import { fileName, savePng, saveText } from "../../series/js/save.js";
import { Chosen } from "./chosen.js";
import { parseRanges, rangesOf, stepsOf, writeRanges } from "./measured.js";
import { CLASSES, Plane } from "./plane.js";
import { RoofControls, RoofPicker } from "./roofcontrols.js";
import { Strip } from "./strip.js";
import { Figures, StepTable, sheet, sheetCsv } from "./tables.js";

const SETTLED_MS = 300; // a selection goes into the address once it rests
const PRECISIONS = { bfloat16: "BF16", float32: "FP32", float16: "FP16" };

export class Roofline extends Instrument {
  constructor(host) {
    super(host, "kv sizing rooflines");
    this.steps = [];
    this.chosen = new Set();
    this.anchor = null; // where a range begins that Shift extends
    this.hovered = null;
    const choose = (change) => this.outbox.put(change);
    const act = { hover: (step) => this.hover(step), pick: (step, adds) => this.pick(step, adds), brush: (steps) => this.brush(steps) };
    this.controls = new RoofControls(choose);
    this.picker = new RoofPicker(choose);
    this.plane = new Plane(act);
    this.strip = new Strip(act);
    this.numbers = new Chosen();
    this.figures = new Figures(this.open);
    this.table = new StepTable();
    const duo = el("div", "duo", this.chartPanel(choose), this.runPanel(choose));
    this.root.append(this.controls.root, this.refused, this.notes, duo, this.figures.root, this.opened.root);
  }

  chartPanel(choose) {
    this.prov = el("span", "provs");
    this.views = el("div", "seg");
    this.views.setAttribute("role", "group");
    this.views.setAttribute("aria-label", "Axes around");
    this.view = { all: button("", null, "Everything"), own: button("", null, "Measured") };
    for (const [name, b] of Object.entries(this.view)) b.onclick = () => choose({ view: name });
    this.views.append(this.view.all, this.view.own);
    const summary = el("summary", "", icon("save"), el("span", "w", "Save"));
    summary.setAttribute("aria-label", "Save: the roofline");
    const asCsv = button("item", null, "Measured steps, as CSV");
    const asPng = button("item", null, "Picture, as PNG");
    this.files = el("details", "files", summary, el("div", "menu", asCsv, asPng));
    const away = (make) => () => {
      this.files.open = false;
      make();
    };
    asCsv.onclick = away(() => saveText(fileName(`roofline-${this.data.measured.name}`, "csv"), sheetCsv(sheet(this.steps)), "text/csv"));
    asPng.onclick = away(() => savePng("roofline.png", [this.plane.root], { head: `Roofline, ${this.data.modelled.title}`, foot: `${this.prov.textContent}; ${this.runProv.textContent}`, host: this.panel }));
    this.asCsv = asCsv;
    this.key = el("p", "keyline small muted");
    this.panel = el("section", "panel chart", el("header", "head", el("h2", "", "Roofline"), this.views, this.prov, this.files), this.picker.root, this.plane.box, this.key);
    return this.panel;
  }

  runPanel(choose) {
    this.run = el("select", "");
    this.run.setAttribute("aria-label", "Recorded run");
    this.run.onchange = () => choose({ run: this.run.value });
    this.runProv = el("span", "provs");
    const asks = (what) => () => this.component.setTriggerValue("live", { do: what });
    this.again = button("btn", null, icon("play"), "Run it here, now");
    this.again.onclick = () => {
      if (this.again.getAttribute("aria-disabled") === "true") return;
      this.again.setAttribute("aria-disabled", "true");
      this.again.lastChild.textContent = "Running …";
      asks("run")();
    };
    this.which = { recorded: button("", null, "Recorded"), live: button("", null, "Measured now") };
    for (const [name, b] of Object.entries(this.which)) b.onclick = asks(name);
    this.both = el("div", "seg", this.which.recorded, this.which.live);
    this.both.setAttribute("role", "group");
    this.both.setAttribute("aria-label", "Steps of this run");
    this.liveSaid = el("p", "small");
    this.liveSaid.setAttribute("role", "status");
    this.liveRow = el("div", "liverow", this.both, this.again);
    this.ceilings = el("p", "small muted");
    return el("section", "panel chart runs", el("header", "head", el("h2", "", "Measured steps"), this.runProv), this.run, this.liveRow, this.liveSaid, this.ceilings, this.strip.root, this.numbers.root, this.table.root);
  }

  received(before, moved) {
    const { data } = this;
    this.liveControls(data.live);
    if (before?.measured?.name !== data.measured?.name) this.take(data);
    else if (!moved && before && before.place.steps !== data.place.steps) this.choose(parseRanges(data.place.steps, this.steps));
  }

  undrawn({ place }) {
    return { seq: 0, place: { ...place, steps: "" } };
  }

  resized() {
    this.draw();
  }

  // Another run.
  take({ measured, options, place }) {
    if (!this.run.options.length) this.run.append(...options.runs.map(([value, title]) => Object.assign(el("option", "", title), { value })));
    this.steps = measured ? stepsOf(measured) : [];
    this.asCsv.hidden = !this.steps.length;
    this.strip.root.hidden = !this.steps.length;
    this.strip.show(this.steps);
    this.table.show(this.steps);
    this.chosen = parseRanges(place.steps, this.steps);
    this.anchor = this.hovered = null;
  }

  draw() {
    const { data } = this;
    const u = this.measure();
    const { modelled: m, measured, place } = data;
    this.warn(m.notes);
    this.picker.update(data, CLASSES);
    for (const [name, b] of Object.entries(this.view)) b.setAttribute("aria-pressed", String(place.view === name));
    this.views.hidden = !measured;
    if (measured) this.run.value = place.run;
    this.run.hidden = !measured;
    this.label(measured);
    const near = place.view === "own" && this.steps.length > 0; // nothing but measured points
    this.prov.replaceChildren(near ? this.runProv.firstElementChild.cloneNode(true) : modelled([m.title, m.formats]));
    this.figures.update(data);
    this.opened.refresh(data);
    const own = this.own(measured);
    const width = Math.floor(this.plane.box.clientWidth);
    if (width > 60) this.plane.draw({ modelled: m, steps: this.steps, own, view: place.view, about: this.about(m, own) }, width, Math.round((data.present ? 410 : 500) * u), u);
    const other = m.points.find((p) => p.id === "decode-attention")?.dtype;
    const apart = m.roofs[0].short.endsWith(`, ${other}`) ? "" : ` Attention is computed in ${other}, so its points are under that peak.`;
    const carries = near ? [] : [el("b", "", m.roofs[0].short), ` carries the points of the model; small marks are measured steps.${apart}`];
    this.key.replaceChildren("Round: decode. Square: prefill. Diamond: both. Full: matrices. Open: attention. ", ...carries);
    this.choose(this.chosen);
  }

  // Whether the chosen run can be measured on the engine that is here, and which of both is shown.
  liveControls({ can, has, shown, said }) {
    this.again.removeAttribute("aria-disabled");
    this.again.lastChild.textContent = has ? "Run it again" : "Run it here, now";
    this.again.hidden = !can;
    this.both.hidden = !has;
    this.which.live.setAttribute("aria-pressed", String(shown));
    this.which.recorded.setAttribute("aria-pressed", String(!shown));
    this.liveRow.hidden = !can && !has;
    this.liveSaid.textContent = said;
    this.liveSaid.hidden = !said;
  }

  label(measured) {
    if (!measured) {
      this.runProv.replaceChildren();
      this.ceilings.textContent = "No recorded run is here.";
      return;
    }
    const p = provenance(measured.header);
    const about = el("span", "", p.about.filter(Boolean).join(", "));
    const label = el("span", `prov ${p.cls}`, el("b", "", icon(p.icon), p.word), about);
    label.title = `${p.word}: ${about.textContent}`;
    this.runProv.replaceChildren(label);
    const top = measured.ceilings;
    this.ceilings.textContent = top
      ? `Ceilings measured on the same machine: ${short(top.flops_per_s, "FLOP/s")} in ${PRECISIONS[top.dtype] ?? top.dtype}, ${short(top.read_bytes_per_s, "B/s")}; ridge ${figures(top.flops_per_s / top.read_bytes_per_s)} FLOP per byte.`
      : "This machine's ceilings were not measured: there is no roof for these points, and no MFU or MBU.";
  }

  own(measured) {
    const top = measured?.ceilings;
    return top ? { name: "the run's machine", flops: top.flops_per_s, bytes: top.read_bytes_per_s } : null;
  }

  about(m, own) {
    const roofs = m.roofs.map((r) => `${r.short} has its ridge at ${figures(r.ridge.value)} FLOP per byte`).join("; ");
    const points = m.points.filter((p) => p.reaches).map((p) => `${p.label} at ${figures(p.at.value)}, bound by ${p.bound}`);
    const steps = this.steps.length ? ` ${plural(this.steps.length, "measured step")}${own ? " under a measured roof" : ""}.` : "";
    return `FLOP per second over FLOP per byte, both in powers of ten. ${roofs}. On ${m.roofs[0].short}: ${points.join("; ")}.${steps}`;
  }

  // --- steps ----------------------------------------------------------------------------------------
  hover(step) {
    if (step === this.hovered) return;
    this.hovered = step;
    this.plane.point(step);
    this.strip.point(step);
    this.say();
  }

  // adds: all from where the range began to here
  pick(step, adds) {
    if (!adds || this.anchor === null) this.anchor = step;
    const [lo, hi] = [Math.min(step, this.anchor), Math.max(step, this.anchor)];
    this.select(this.steps.map((s) => s.step).filter((k) => lo <= k && k <= hi));
  }

  brush(steps) {
    this.anchor = steps.length ? Math.min(...steps) : null;
    this.select(steps);
  }

  select(steps) {
    this.hover(null);
    this.choose(new Set(steps));
    const ranges = writeRanges(rangesOf(this.chosen, this.steps));
    this.outbox.put({ steps: ranges.length <= this.data.options.longest ? ranges : "" }, SETTLED_MS);
  }

  choose(chosen) {
    this.chosen = chosen;
    this.plane.light(chosen);
    this.strip.light(chosen);
    this.say();
  }

  say() {
    const shown = this.hovered === null ? this.chosen : new Set([this.hovered]);
    const hint = this.steps.length ? `${num(this.steps.length)} steps. Point at one here or in the picture; drag over several to add them up.` : "";
    this.numbers.show(this.steps.filter((s) => shown.has(s.step)), this.steps, this.data?.measured?.ceilings ?? null, hint);
  }
}
