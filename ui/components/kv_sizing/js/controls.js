// The controls: model, GPUs, formats, context, sequences. A change is sent as {name: text}.
import { el, num } from "../../run_player/js/util.js";

// Places of a slider: `fine` steps to each doubling, on whole multiples of `unit`.
export function ladder(low, high, fine, unit) {
  const out = [];
  for (let v = low; v <= high * 1.0001; v *= 2 ** (1 / fine)) {
    const x = Math.max(low, Math.round(v / unit) * unit);
    if (x !== out.at(-1)) out.push(Math.min(x, high));
  }
  if (out.at(-1) !== high) out.push(high);
  return out;
}

export function nearest(values, v) {
  let best = 0;
  for (let i = 1; i < values.length; i++) if (Math.abs(values[i] - v) < Math.abs(values[best] - v)) best = i;
  return best;
}

const CONTEXTS = ladder(128, 1048576, 8, 16);
const COUNTS = ladder(1, 4096, 8, 1);

export class Controls {
  constructor(choose) {
    this.choose = choose;
    this.made = false;
    this.root = el("section", "panel ctl");
    this.root.setAttribute("aria-label", "Model, GPUs, formats and load");
  }

  update(data, { keep }) {
    if (!this.made) this.make(data);
    const { place } = data;
    this.model.firstElementChild.hidden = !place.own;
    if (keep) return;
    this.model.value = place.own ? "" : place.model;
    this.group(place.gpus);
    for (const name of ["gpu", "gpus", "adp", "kv", "w"]) this[name].value = String(place[name]);
    this.ctx.set(place.ctx);
    this.n.set(place.n);
  }

  make({ options }) {
    this.made = true;
    this.root.classList.add("deploy");
    this.model = this.select("Model", "model", options.models, "wide");
    const own = el("option", "", "Your config.json");
    own.value = "";
    this.model.prepend(own);
    this.gpu = this.select("GPU", "gpu", options.gpus, "wide");
    this.gpus = this.select("How many", "gpus", options.counts);
    this.adp = this.select("Attention", "adp", []);
    this.kv = this.select("KV cache in", "kv", options.kv);
    this.w = this.select("Weights in", "w", options.w);
    this.ctx = this.slider("Context of each, tokens", "ctx", CONTEXTS, 1048576);
    this.n = this.slider("Sequences at once", "n", COUNTS, 4096);
    this.example = this.select("Example", "example", [["", "Set the controls to …"], ...options.examples]);
  }

  // How the GPUs can be grouped: all of them split the heads of each sequence, or groups of them do,
  // each for sequences of its own.
  group(gpus) {
    if (this.grouped === gpus) return;
    this.grouped = gpus;
    const counts = [1, 2, 4, 8, 16].filter((n) => n <= gpus);
    const words = (n) => (gpus === 1 ? "on the one GPU" : n === 1 ? `heads over all ${gpus}` : n === gpus ? `${n} groups of one` : `${n} groups of ${gpus / n}`);
    this.adp.replaceChildren(...counts.map((n) => Object.assign(el("option", "", words(n)), { value: String(n) })));
    this.adp.disabled = gpus === 1;
  }

  field(label, node, cls = "") {
    this.root.append(el("label", `f ${cls}`, el("span", "", label), node));
    return node;
  }

  select(label, name, options, cls) {
    const s = el("select", "", ...options.map(([value, text]) => Object.assign(el("option", "", text), { value })));
    s.onchange = () => {
      if (s.value) this.choose({ [name]: s.value });
      if (name === "example") s.value = "";
    };
    return this.field(label, s, cls);
  }

  // A slider for the hand and a field for the exact number, whose default is the last one that held:
  // a value that is none goes back to it.
  slider(label, name, values, most) {
    const least = values[0] > 0 ? 1 : 0;
    const range = Object.assign(el("input", "rng"), { type: "range", min: "0", max: String(values.length - 1), step: "1" });
    const exact = Object.assign(el("input", "exact"), { type: "number", min: String(least), max: String(most), step: "1", inputMode: "numeric" });
    range.setAttribute("aria-label", label);
    exact.setAttribute("aria-label", `${label}, exactly`);
    const show = (v) => range.setAttribute("aria-valuetext", num(v));
    range.oninput = () => {
      const v = values[Number(range.value)];
      exact.value = exact.defaultValue = String(v);
      show(v);
      this.choose({ [name]: String(v) });
    };
    exact.onchange = () => {
      const v = Math.round(Number(exact.value));
      if (exact.value === "" || !Number.isFinite(v) || v < least) return void (exact.value = exact.defaultValue);
      const inside = Math.min(v, most);
      exact.value = exact.defaultValue = String(inside);
      range.value = String(nearest(values, inside));
      show(inside);
      this.choose({ [name]: String(inside) });
    };
    this.root.append(el("div", "f slide", el("span", "lab", label, exact), range));
    return {
      range,
      exact,
      set: (v) => {
        exact.value = exact.defaultValue = String(v);
        if (values[Number(range.value)] !== v) range.value = String(nearest(values, v));
        show(v);
      },
    };
  }
}
