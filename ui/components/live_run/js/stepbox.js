// One step in numbers. Each number opens to the formula with the values put in.
import { button, el, num, plural, text } from "../../run_player/js/util.js";
import { against, forwardUs, kindOf, modelledSeconds, numSequences, promptLengths, stepTokens, stepUs } from "./metrics.js";
import { figures, millis, share, short } from "./scales.js";
import { kindName } from "./stepchart.js";

const parts = (words) => words.filter(Boolean).join(" + ");

// [{key, label, value, formula, modelled}] of a step. machine: the run's own ceilings or null.
export function rows(run, step, machine, modelled, missing) {
  const T = stepTokens(step);
  const S = step.events.filter((e) => e.type === "token_sampled").length;
  const w = step.work;
  const us = forwardUs(step);
  const out = [];
  const add = (key, label, value, formula, more = {}) => out.push({ key, label, value, formula, ...more });
  const shares = Object.entries(step.scheduled);
  add("tokens", "Tokens in the step", num(T), `${shares.slice(0, 8).map(([id, x]) => `${id} ${num(x.num_scheduled_tokens)}`).join(" + ")}${shares.length > 8 ? ` + ${num(shares.length - 8)} more sequences` : ""} = ${num(T)}`);
  add("seqs", "Sequences", num(shares.length), `${plural(S, "token")} sampled at the end of the step`);
  if (w) {
    add("flops", "FLOPs", short(w.flops, "FLOP"), `${parts([
      T && `2 × ${plural(T, "token")} × ${num(Math.round(w.linear_flops / (2 * T)))} layer weights`,
      S && w.logits_flops && `2 × ${plural(S, "row")} × ${num(Math.round(w.logits_flops / (2 * S)))} logits weights`,
      `attention ${num(w.attention_flops)}`,
    ])} = ${num(w.flops)}`);
    const kv = run.header.kv_bytes_per_token;
    const held = (b) => (kv && b % kv === 0 ? `${plural(b / kv, "token")} × ${num(kv)} B` : `${num(b)} B`);
    add("bytes", "Bytes moved", short(w.bytes, "B"), `weights ${num(w.weight_bytes)} B + keys and values read ${held(w.kv_read_bytes)} + written ${held(w.kv_write_bytes)} + logits ${num(w.logits_bytes)} B = ${num(w.bytes)} B`);
    add("intensity", "Intensity", `${figures(w.flops / w.bytes)} FLOP/B`, `${num(w.flops)} FLOP ÷ ${num(w.bytes)} B`);
  }
  if (us > 0) {
    const t = step.timing;
    const of = (name) => ((t[name] ?? 0) / 1000).toFixed(1);
    add("forward", "Forward pass", `${(us / 1000).toFixed(1)} ms`, t.linear_us === undefined ? "measured by the engine" : `matrices ${of("linear_us")} + attention ${of("attention_us")} + the rest ${of("other_us")} ms`);
    add("step", "Whole step", `${(stepUs(step) / 1000).toFixed(1)} ms`, `decide ${of("schedule_us")} + compute ${of("forward_us")} + sample ${of("sample_us")} ms`);
  }
  if (w && machine) {
    const a = against(w, us, machine);
    add("floor", "Roofline floor", millis(a.floor), `the longer of ${short(w.flops, "FLOP")} ÷ ${short(machine.flops, "FLOP/s")} = ${millis(a.computing)} and ${short(w.bytes, "B")} ÷ ${short(machine.bytes, "B/s")} = ${millis(a.moving)}`);
    if (us > 0) {
      const above = (x, why) => (x > 1 ? `. More than the ceiling: ${why}the ceiling was measured beside other work.` : "");
      add("mfu", "MFU", share(a.mfu), `${num(w.flops)} FLOP ÷ ${(us / 1000).toFixed(2)} ms ÷ ${short(machine.flops, "FLOP/s")}${above(a.mfu, "")}`);
      add("mbu", "MBU", share(a.mbu), `${num(w.bytes)} B ÷ ${(us / 1000).toFixed(2)} ms ÷ ${short(machine.bytes, "B/s")}${above(a.mbu, "part of the weights stayed in the processor's cache, or ")}`);
    }
  } else if (w) {
    add("mfu", "MFU and MBU", "not measured", missing);
  }
  if (w)
    for (const m of modelled) {
      const linear = [(w.linear_flops + w.logits_flops) / m.flops, (w.weight_bytes + w.logits_bytes) / m.bytes];
      const attention = [w.attention_flops / m.flops, (w.kv_read_bytes + w.kv_write_bytes) / m.bytes];
      const pick = ([c, b]) => `the longer of computing ${millis(c)} and moving ${millis(b)}`;
      add(m.id, `Floor on ${m.short}`, millis(modelledSeconds(w, m)), `MODELLED, ${m.title}: matrices, ${pick(linear)}; attention, ${pick(attention)}. Peak ${short(m.flops, "FLOP/s")} dense bf16, ${short(m.bytes, "B/s")}.`, { modelled: true });
    }
  return out;
}

export function verdict(step, machine) {
  if (!step.work || !machine) return null;
  const a = against(step.work, forwardUs(step), machine);
  const T = stepTokens(step);
  if (a.bound === "memory")
    return T === 1 ? "The weights are read once for a single token: memory sets the floor." : `${num(T)} tokens share one reading of the weights, and still memory sets the floor.`;
  return `${num(T)} tokens share one reading of the weights: arithmetic sets the floor.`;
}

export class StepBox {
  constructor(bench) {
    this.bench = bench;
    this.open = new Set(["flops", "bytes"]);
    this.rows = []; // on the page
    this.title = el("h2", "");
    this.badge = el("span", "prov");
    this.list = el("div", "rows");
    this.said = el("p", "small muted");
    this.root = el("section", "panel pad stepbox", el("div", "chh", this.title, this.badge), this.list, this.said);
    this.root.setAttribute("aria-label", "The step in numbers");
  }

  draw() {
    const { run, k } = this.bench;
    const step = run.steps[k];
    if (!step) {
      this.title.textContent = "No step yet";
      this.list.replaceChildren();
      this.rows = [];
      this.said.textContent = "";
      return;
    }
    const keeps = run.header.scenario?.engine?.kv_cache !== false;
    const kind = kindOf(step, promptLengths(run), keeps);
    this.title.textContent = `Step ${num(step.step)}: ${kindName(kind)}`;
    this.bench.label(this.badge, true);
    const made = rows(run, step, this.bench.own, this.bench.modelled, this.bench.missing);
    if (made.length !== this.rows.length || made.some(({ key }, i) => key !== this.rows[i].key)) {
      this.rows = made.map(({ key }) => this.row(key));
      this.list.replaceChildren(...this.rows.map((r) => r.root));
    }
    made.forEach((m, i) => this.fill(this.rows[i], m));
    const others = numSequences(step) - 1;
    const said = verdict(step, this.bench.own) ?? "";
    this.said.textContent = others > 0 && this.bench.shared ? `${said} ${plural(others, "other sequence")} took part in this step.` : said;
  }

  // A row stays from step to step: the focus and a press in it do, too.
  row(key) {
    const label = el("span", "l");
    const value = el("span", "v");
    const b = button("row", null, label, value);
    const line = el("p", "formula");
    const show = () => {
      b.setAttribute("aria-expanded", String(this.open.has(key)));
      line.hidden = !this.open.has(key);
    };
    b.dataset.row = key;
    b.onclick = () => {
      if (!this.open.delete(key)) this.open.add(key);
      show();
    };
    show();
    return { key, label, value, b, line, root: el("div", "item", b, line) };
  }

  fill(row, { label, value, formula, modelled }) {
    text(row.label, label);
    text(row.value, value);
    text(row.line, formula);
    row.b.classList.toggle("modelled", Boolean(modelled));
  }
}
