// The controls: the model and its formats, batch and context of decode, tokens of prefill, roofs.
import { svg } from "../../run_player/js/icons.js";
import { button, el } from "../../run_player/js/util.js";
import { Controls, ladder } from "../../kv_sizing/js/controls.js";

const TOKENS = ladder(16, 131072, 8, 1);
const BATCHES = ladder(1, 4096, 8, 1);
const MOST = 1048576;

export class RoofControls extends Controls {
  constructor(choose) {
    super(choose);
    this.root.setAttribute("aria-label", "Model, formats and load");
  }

  update(data, { keep }) {
    if (!this.made) this.make(data);
    if (keep) return;
    const { place } = data;
    for (const name of ["model", "w", "kv"]) this[name].value = place[name];
    for (const name of ["b", "ctx", "n"]) this[name].set(place[name]);
  }

  make({ options }) {
    this.made = true;
    this.model = this.select("Model", "model", options.models, "wide");
    this.w = this.select("Weights in", "w", options.w);
    this.kv = this.select("KV cache in", "kv", options.kv);
    this.example = this.select("Example", "example", [["", "Set the controls to …"], ...options.examples]);
    this.b = this.slider("Decode: sequences at once", "b", BATCHES, 4096);
    this.ctx = this.slider("Decode: context of each, tokens", "ctx", TOKENS, MOST);
    this.n = this.slider("Prefill: tokens of the prompt", "n", TOKENS, MOST);
  }
}

// A piece of a roof's line.
function sample(cls) {
  const line = svg("svg", { width: 20, height: 8, viewBox: "0 0 20 8", "aria-hidden": "true" });
  svg("path", { d: "M0 4H20", class: `line ${cls}` }, line);
  return line;
}

// Which roofs are drawn: up to four. The first one carries the points.
export class RoofPicker {
  constructor(choose) {
    this.choose = choose;
    this.root = el("div", "picker");
  }

  update({ options, place, modelled }, classes) {
    const key = place.roofs.join();
    if (this.drawn === key) return;
    this.drawn = key;
    const { roofs } = modelled;
    const chips = roofs.map((roof, i) => {
      const lead = i === 0;
      const put = button("put", lead ? `${roof.short}: carries the points` : `Put the points on ${roof.short}`, sample(classes[i]), roof.short);
      put.setAttribute("aria-pressed", String(lead));
      put.onclick = () => this.set([roof.id, ...place.roofs.filter((other) => other !== roof.id)], 0);
      const off = button("off", `Take ${roof.short} out`, "×");
      off.hidden = roofs.length === 1;
      off.onclick = () => this.set(place.roofs.filter((other) => other !== roof.id), Math.max(0, i - 1));
      return el("span", `roofchip${lead ? " lead" : ""}`, put, off);
    });
    const groups = options.roofs.map(([title, entries]) => {
      const group = el("optgroup", "", ...entries.filter(([v]) => !place.roofs.includes(v)).map(([value, t]) => Object.assign(el("option", "", t), { value })));
      group.label = title;
      return group;
    });
    const none = Object.assign(el("option", "", "Add a roof"), { value: "" });
    const add = el("select", "add", none, ...groups.filter((g) => g.children.length));
    add.setAttribute("aria-label", "Add a GPU and precision to the chart");
    add.hidden = roofs.length >= 4;
    add.onchange = () => add.value && this.set([...place.roofs, add.value], place.roofs.length);
    this.root.replaceChildren(...chips, add);
    if (this.focus !== undefined) chips[Math.min(this.focus, chips.length - 1)].firstElementChild.focus(); // what was pressed is gone
    this.focus = undefined;
  }

  set(roofs, focus) {
    this.focus = focus;
    this.choose({ roofs: roofs.join(",") });
  }
}
