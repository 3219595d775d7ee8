// The memory of the GPUs as one bar: weights, overhead, keys and values, what is free, what is held
// back; and where keys and values weigh as much as the weights.
import { button, el, num, plural } from "../../run_player/js/util.js";
import { amount, gb, gib, modelled, opens } from "./said.js";

const ORDER = ["weights", "overhead", "kv", "free", "held_back"];
const NAMES = { weights: "Weights", overhead: "Overhead", kv: "Keys and values", free: "Free", held_back: "Held back" };

export class Memory {
  constructor(open, choose) {
    this.open = open;
    this.title = el("h2", "");
    this.prov = el("span", "provs");
    this.fit = el("span", "fit");
    this.seg = el("div", "seg");
    this.seg.setAttribute("role", "group");
    this.seg.setAttribute("aria-label", "Memory of");
    this.one = button("", null, "One GPU");
    this.all = button("", null, "All");
    this.one.onclick = () => choose({ of: "gpu" });
    this.all.onclick = () => choose({ of: "all" });
    this.seg.append(this.one, this.all);
    this.bar = el("div", "hbm");
    this.bar.setAttribute("role", "group");
    this.mark = el("span", "mark");
    this.key = el("div", "key");
    this.even = el("p", "even");
    this.root = el("section", "panel mem", el("header", "head", this.title, this.seg, this.prov, this.fit), el("div", "barbox", this.bar, this.mark), this.key, this.even);
  }

  update(memory, data, u) {
    const { place } = data;
    this.u = u;
    const many = place.gpus > 1;
    const all = many && place.of === "all";
    const parts = all ? memory.all : memory.gpu;
    this.seg.hidden = !many;
    this.all.textContent = `All ${place.gpus}`;
    this.one.setAttribute("aria-pressed", String(!all));
    this.all.setAttribute("aria-pressed", String(all));
    const whose = all ? `Memory of ${place.gpus} GPUs` : many ? "Memory of each GPU" : "Memory of the GPU";
    this.title.replaceChildren(`${whose}, `, opens(parts.total, this.open, `${gb(parts.total.value)} = ${gib(parts.total.value)}`));
    this.prov.replaceChildren(modelled([memory.gpu_title, `weights ${memory.weight_format}`, `${Math.round(100 * memory.utilization)} % of memory used`]));
    const short = parts.short.value;
    this.fit.className = `fit${short ? " short" : ""}`;
    this.fit.replaceChildren(...this.verdict(memory, parts, place));
    this.segments(parts, short);
    this.balance(parts, memory, place);
  }

  verdict(memory, parts, place) {
    const fits = memory.fit.value;
    if (fits === null) return ["a sequence of this model keeps nothing: memory sets no bound"];
    const many = opens(memory.fit, this.open, `${plural(fits, "sequence")} fit${fits === 1 ? "s" : ""}`);
    if (!parts.short.value) return [many, ` at ${plural(place.ctx, "token")}`];
    return [`${num(place.n)} do not fit: `, opens(parts.short, this.open, `${gb(parts.short.value)} short`), ". ", many, "."];
  }

  segments(parts, short) {
    const inside = 2 * parts.weights.value + parts.overhead.value <= parts.total.value - parts.held_back.value;
    const total = parts.total.value;
    const shown = { ...parts };
    let room = total - parts.held_back.value;
    const nodes = [];
    for (const name of ORDER) {
      const value = name === "held_back" ? parts[name].value : Math.max(0, Math.min(parts[name].value, room));
      if (name !== "held_back") room -= value;
      const b = button(`part ${name}${name === "kv" && short ? " over" : ""}`, `${NAMES[name]}: ${gb(parts[name].value)}, ${gib(parts[name].value)}. Show how it is reached`);
      b.style.flexGrow = String(Math.max(value / total, 0));
      b.hidden = value <= 0;
      b.append(...this.words(name, parts[name].value, value / total));
      b.onclick = () => this.open(shown[name], b);
      nodes.push(b);
    }
    this.bar.replaceChildren(...nodes);
    this.bar.setAttribute("aria-label", `Of ${gb(total)}: ${ORDER.map((n) => `${NAMES[n].toLowerCase()} ${gb(parts[n].value)}`).join(", ")}`);
    this.key.replaceChildren(
      ...ORDER.map((name) => el("span", "", el("i", name), `${NAMES[name].toLowerCase()} `, opens(parts[name], this.open, gb(parts[name].value)), el("small", "", gib(parts[name].value)))),
      ...(inside ? [el("span", "", el("i", "even-key"), "keys and values as large as the weights")] : []),
    );
  }

  // The words that a part of the bar has room for; the key below has all of them.
  words(name, value, share) {
    const room = share * (this.bar.clientWidth || 0) - 14 * this.u;
    const size = gb(value);
    return [NAMES[name].length * 7 * this.u < room ? el("span", "", NAMES[name]) : null, size.length * 7.2 * this.u < room ? el("small", "", size) : null].filter(Boolean);
  }

  // Where keys and values are as large as the weights: a mark on the bar, and both ways to get there.
  balance(parts, memory, place) {
    const { weights, overhead, total, held_back: held } = parts;
    const at = weights.value * 2 + overhead.value;
    const inside = at <= total.value - held.value;
    this.mark.hidden = !inside;
    this.mark.style.left = `${(100 * at) / total.value}%`;
    const batch = memory.balance_batch;
    const context = memory.balance_context;
    const kv = parts.kv.value;
    const now = !weights.value ? "" : kv >= weights.value ? `Keys and values weigh ${times2(kv / weights.value)} the weights. ` : `The weights weigh ${kv ? times2(weights.value / kv) : "more than"} the keys and values. `;
    const out = [now, "They balance at "];
    if (batch.value !== null) out.push(opens(batch, this.open, amount(batch.value, "")), ` sequences of ${plural(place.ctx, "token")}`);
    if (batch.value !== null && context.value !== null) out.push(", or with ");
    if (context.value !== null) out.push(`${plural(place.n, "sequence")} at `, opens(context, this.open, num(Math.round(context.value))), " tokens each");
    else if (batch.value === null) out[1] = "They never balance: a sequence of this model keeps too little.";
    const again = memory.all.weights.value > 1.01 * memory.model_weights.value;
    if (again) out.push(`; the weights counted once, though GPUs hold some of them again`);
    out.push(memory.copies > 1.01 ? `, each byte counted once; here every one is kept ${memory.copies} times.` : ".");
    if (memory.longest === null) out.push(` ${plural(place.n, "sequence")} fit${place.n === 1 ? "s" : ""} at any length.`);
    else out.push(memory.longest ? ` ${plural(place.n, "sequence")} fit${place.n === 1 ? "s" : ""} up to ${plural(memory.longest, "token")} each.` : ` Not even one token for each of ${plural(place.n, "sequence")} fits.`);
    this.even.replaceChildren(...out);
  }
}

const times2 = (v) => `${v >= 10 ? num(Math.round(v)) : v.toFixed(2)} ×`;
