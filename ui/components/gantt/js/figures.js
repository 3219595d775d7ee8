// The figures of every run beside each other, each with the sum behind it; and the two targets.
import { el, num, percent } from "../../run_player/js/util.js";
import { goodput, nearestStop, stops } from "./measure.js";
import { bare, shareOf, time } from "./words.js";

const P = ["p50", "p90", "p99"];
const LOOSE = 4; // the gap that is asked for at first, in usual gaps

// [name, value(lane) → [shown, derivation]]; `unit` and the targets are those of the picture.
function figuresOf(unit, targets) {
  const inUnit = (s) => (unit === "ms" ? s.in_us : s.in_steps);
  const ranks = (name, kind, what, n) =>
    P.map((p) => [
      `${name} ${p}${suffix}`,
      ({ summary: s }) => [bare(inUnit(s)[kind][p], unit), `${what}: the smallest of ${num(n(s))} values that ${p.slice(1)} % of them do not exceed (nearest rank).`],
    ]);
  const suffix = unit === "ms" ? ", ms" : ", steps";
  const rows = [
    ["Steps", ({ summary: s }) => [num(s.steps), `${num(s.output_tokens)} tokens of ${num(s.sequences)} answers in ${num(s.steps)} steps.`]],
    [
      "Idle place-steps",
      ({ summary: s }) => {
        const p = s.place_steps;
        return [`${num(p.idle)} (${shareOf(p.total ? p.idle / p.total : null)})`, `${num(s.places)} places × ${num(s.steps)} steps = ${num(p.total)}. ${num(p.busy)} computed something; ${num(p.held)} were kept by answers that had ended, ${num(p.stalled)} got no token, ${num(p.empty)} were empty. In ${num(p.idle_while_waiting)} of the idle ones somebody was waiting.`];
      },
    ],
    ["Tokens a step", ({ summary: s }) => [(s.output_tokens / Math.max(1, s.steps)).toFixed(2), `${num(s.output_tokens)} answer tokens ÷ ${num(s.steps)} steps.`]],
  ];
  if (unit === "ms") {
    rows.push(["Tokens a second", ({ summary: s }) => [((1e6 * s.output_tokens) / s.duration_us).toFixed(1), `${num(s.output_tokens)} answer tokens ÷ ${(s.duration_us / 1e6).toFixed(2)} s.`]]);
  }
  rows.push(
    ...ranks("First token", "ttft", "Time from arrival to first token", (f) => f.sequences),
    ...ranks("Gap", "gap", "Time between two tokens of an answer", (f) => inUnit(f).num_gaps),
    [`Longest gap${suffix}`, ({ summary: s }) => [bare(inUnit(s).worst_gap, unit), "The longest time that anybody waited for a next token."]],
    [
      "Goodput",
      (serving) => {
        const g = goodput(serving, targets, unit);
        const rate = unit === "ms" ? `${g.rate.toFixed(2)} a second` : `${g.rate.toFixed(1)} in 100 steps`;
        return [`${num(g.met)} of ${num(g.of)}`, `${num(g.met)} of ${num(g.of)} requests were answered to the end with the first token within ${time(targets.ttft, unit)} and every later one within ${time(targets.gap, unit)}: ${rate}.`, `${percent(g.met, g.of)}, ${rate}`];
      },
    ],
  );
  return rows;
}

const PRESSURE = [
  ["Preemptions", ({ summary: s }) => [num(s.preemptions), "How often a running sequence gave its blocks back and had to start again."]],
  ["Computed again", ({ summary: s }) => [`${num(s.recomputed_tokens)} (${shareOf(s.computed_tokens ? s.recomputed_tokens / s.computed_tokens : null)})`, `${num(s.recomputed_tokens)} of ${num(s.computed_tokens)} tokens computed had been computed before, and were thrown away.`]],
];

export class Figures {
  constructor(player) {
    this.player = player;
    this.ttft = this.slider("ttft", "First token within");
    this.gap = this.slider("gap", "Every gap within");
    this.table = el("table", "t figs");
    const targets = el("fieldset", "targets", el("legend", "", "Targets"), this.ttft.root, this.gap.root);
    this.root = el("div", "figures", targets, el("div", "tscroll", this.table));
  }

  slider(name, words) {
    const input = el("input");
    input.type = "range";
    input.min = "0";
    input.step = "1";
    const out = el("output");
    const root = el("label", "tgt", el("span", "", words), input, out);
    // Its arrow keys are its own: the player would take them for a step.
    input.onkeydown = (e) => e.key.startsWith("Arrow") || ["Home", "End", "PageUp", "PageDown"].includes(e.key) ? e.stopPropagation() : null;
    input.oninput = () => {
      this.player.setTarget(name, this[name].list[Number(input.value)]);
      this.player.commit();
    };
    return { root, input, out, list: [1] };
  }

  // In microseconds where a model ran, in steps where none did. A target that no link names begins at
  // the median first token, and at a few times the median gap.
  load(lanes, unit, given) {
    this.unit = unit;
    const all = lanes.flatMap((l) => l.serving.rows.filter((r) => r.first_token !== null));
    const of = { ttft: all.map((r) => (unit === "ms" ? r.ttft_us : r.ttft_steps)), gap: all.map((r) => (unit === "ms" ? r.worst_gap_us : r.worst_gap_steps) ?? 0) };
    const middle = of.ttft.toSorted((a, b) => a - b)[Math.floor(of.ttft.length / 2)] ?? 1;
    const usual = Math.max(...lanes.map((l) => (unit === "ms" ? l.serving.summary.in_us : l.serving.summary.in_steps).gap.p50 ?? 1));
    const begin = { ttft: middle, gap: LOOSE * usual };
    const targets = {};
    for (const name of ["ttft", "gap"]) {
      const one = this[name];
      one.list = stops([...of[name], begin[name]], unit === "steps");
      one.input.max = String(one.list.length - 1);
      targets[name] = given[name] ? given[name] * (unit === "ms" ? 1000 : 1) : one.list.find((v) => v >= begin[name]) ?? one.list.at(-1);
    }
    return targets;
  }

  draw(lanes, targets, pressure) {
    for (const name of ["ttft", "gap"]) {
      const { input, out, list } = this[name];
      const at = String(nearestStop(list, targets[name]));
      if (input.value !== at) input.value = at;
      out.textContent = time(targets[name], this.unit);
      input.setAttribute("aria-valuetext", out.textContent);
    }
    const head = el("tr", "", el("th", ""), ...lanes.map((l) => el("th", "", l.name)));
    for (const th of head.children) th.scope = "col";
    head.firstChild.append(el("span", "sr", "Figure"));
    const body = el("tbody");
    for (const [name, of] of [...figuresOf(this.unit, targets), ...(pressure ? PRESSURE : [])]) {
      const th = el("th", "", name);
      th.scope = "row";
      const cells = lanes.map((lane) => {
        const [shown, how, more] = of(lane.serving);
        const v = el("span", "val", shown);
        v.dataset.tip = how;
        v.tabIndex = 0;
        return el("td", "", v, more ? el("small", "", more) : null);
      });
      body.append(el("tr", name === "Goodput" ? "good" : "", th, ...cells));
    }
    const caption = el("caption", "sr", "Key figures of each run");
    this.table.replaceChildren(caption, el("thead", "", head), body);
  }
}
