// The answer in one line, which of three bounds lets no more in, and the two times against their limits.
import { icon } from "../../run_player/js/icons.js";
import { el, num, plural } from "../../run_player/js/util.js";
import { modelled, opens } from "../../kv_sizing/js/said.js";

export const BOUND_WORDS = { blocks: "blocks of the pool", memory: "memory", max_num_seqs: "max_num_seqs", max_num_batched_tokens: "max_num_batched_tokens" };

// Whether what is about to be drawn anew has the focus, which would be lost with it.
export const hasFocus = (node) => node.contains(node.getRootNode().activeElement);

export const inMs = (s) => (s === null ? "none" : s >= 10 ? `${num(Math.round(s))} s` : s < 0.1 ? `${(1000 * s).toFixed(1)} ms` : `${num(Math.round(1000 * s))} ms`);

export const money = (v) => `$${v.toLocaleString("en-US", { maximumFractionDigits: v < 1000 ? 2 : 0 })}`;

// The places of bounds on one axis in powers of two, so that 158 and 8,192 can be read together.
export function widths(bounds) {
  const most = Math.max(2, ...Object.values(bounds));
  return Object.fromEntries(Object.entries(bounds).map(([name, v]) => [name, v > 0 ? Math.max(2, (100 * Math.log2(v + 1)) / Math.log2(most + 1)) : 0]));
}

export class Answer {
  constructor(open) {
    this.open = open;
    this.prov = el("span", "provs");
    this.head = el("p", "big");
    this.say = el("p", "small");
    this.bounds = el("div", "bounds");
    this.times = el("div", "times");
    this.root = el("section", "panel answer", el("header", "head", el("h2", "", "The answer"), this.prov), this.head, this.say, el("div", "two", this.bounds, this.times));
    this.root.setAttribute("aria-live", "polite");
  }

  update(a, data) {
    const { place, model } = data;
    this.prov.replaceChildren(modelled([model.title, model.gpu, "half the peak, full bandwidth"]));
    if (!a.each) {
      this.head.replaceChildren("Not one sequence fits: ", opens(a.streams, this.open, "see why"), ".");
      this.say.textContent = "Fewer bytes a weight, more GPUs of a replica, or a smaller model.";
    } else {
      this.head.replaceChildren(
        opens(a.gpus_figure, this.open, `${plural(a.gpus, "GPU")}`),
        ` ${model.gpu}: ${plural(a.replicas, "replica")} of ${place.tp}, ${num(a.held)} sequences at once `,
        el("span", a.holds ? "yes" : "no", icon(a.holds ? "check" : "warn"), a.holds ? `for ${num(a.users)} users` : `of ${num(a.users)} wanted`),
      );
      const free = a.held - a.users;
      this.say.textContent = a.holds
        ? `${num(a.load)} on the fullest replica; ${free ? `${num(free)} more could come` : "the next one waits"}.${place.r ? ` As many replicas as asked for; ${plural(a.needed / place.tp, "replica")} would hold them.` : ""}`
        : `${num(-free)} of them wait or are preempted. ${plural(a.needed, "GPU")} would hold them all.`;
    }
    this.threeBounds(a, place);
    this.twoTimes(a, place);
  }

  threeBounds(a, place) {
    const wide = widths(a.bounds);
    const rows = Object.entries(a.bounds).map(([name, v]) => {
      const bar = el("i", "");
      bar.style.width = `${wide[name]}%`;
      return el("div", name === a.binding ? "bound least" : "bound", el("span", "bname", BOUND_WORDS[name] ?? name), el("span", "track", bar), el("b", "n", num(v)), el("span", "what", name === a.binding ? "the least: this binds" : ""));
    });
    const groups = place.adp;
    const head = groups > 1 ? `Each of ${groups} groups runs the least of three, a replica ` : "A replica runs the least of three: ";
    this.bounds.replaceChildren(el("h3", "", head, opens(a.streams, this.open, num(a.each))), ...rows, el("p", "small muted", "Bars in powers of two. Blocks: what memory holds; the other two: settings of the scheduler."));
  }

  twoTimes(a, place) {
    const time = (label, value, limit, about) => {
      const told = limit && value !== null; // a plan that serves nobody keeps no limit and breaks none
      const met = !told || value * 1000 <= limit;
      return el(
        "div",
        `time ${told ? (met ? "met" : "missed") : ""}`,
        el("span", "bname", label),
        el("b", "n", inMs(value)),
        el("span", "what", told ? icon(met ? "check" : "warn") : null, told ? `${met ? "within" : "over"} ${num(limit)} ms` : limit ? "" : "no limit set"),
        el("span", "small muted", about),
      );
    };
    this.times.replaceChildren(
      el("h3", "", "Two times, before any queue"),
      time("First token", a.ttft, place.ttft, a.cached ? `an idle replica, ${num(a.cached)} shared tokens cached` : "an idle replica"),
      time("Between tokens", a.itl, place.itl, a.load ? `${plural(a.load, "sequence")} on a replica` : "nobody is served"),
      el("p", "price", a.price === null ? "" : `An hour of all GPUs costs ${money(a.price)}, at ${money(Number(place.price))} each.`),
    );
  }
}
