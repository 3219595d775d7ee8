// The requests as buttons, and what became of the chosen one under each run.
import { badge } from "../../run_player/js/badge.js";
import { icon } from "../../run_player/js/icons.js";
import { rove } from "../../run_player/js/keyboard.js";
import { button, el, num } from "../../run_player/js/util.js";
import { meets } from "./measure.js";
import { lifeOf, time, waitsOf } from "./words.js";

export class Requests {
  constructor(player) {
    this.player = player;
    this.row = el("div", "chips");
    this.row.setAttribute("role", "group");
    this.row.setAttribute("aria-label", "Requests: what became of each");
    this.card = el("div", "card");
    this.root = el("div", "requests", this.row, this.card);
    rove(this.row, () => [this.chips.map((c) => c.b)]);
  }

  load(lanes) {
    const names = [...new Set(lanes.flatMap((l) => l.serving.rows.map((r) => r.sequence)))];
    this.chips = names.map((sequence, i) => {
      const marks = el("span", "marks");
      const b = button("chip", null, badge(lanes[0].info, sequence, lanes[0].info.short(sequence)), marks);
      b.tabIndex = i ? -1 : 0;
      b.dataset.chip = sequence;
      b.onclick = () => this.player.choose(sequence);
      b.onfocus = () => this.player.light(sequence);
      b.onblur = () => this.player.light(null);
      b.onpointerenter = () => this.player.light(sequence);
      b.onpointerleave = () => this.player.light(null);
      return { sequence, b, marks };
    });
    this.row.replaceChildren(...this.chips.map((c) => c.b));
  }

  drawMarks(lanes, targets, unit) {
    for (const { sequence, b, marks } of this.chips) {
      const out = [];
      const said = [];
      for (const lane of lanes) {
        const row = lane.picture.rows.get(sequence);
        if (!row) continue;
        const met = meets(row, targets, unit);
        const i = icon(met ? "check" : "close");
        i.classList.add(met ? "met" : "missed");
        out.push(i);
        said.push(`${lane.name} ${met ? "meets" : "misses"} the targets`);
      }
      marks.replaceChildren(...out);
      b.setAttribute("aria-label", `${sequence}: ${said.join(", ")}`);
    }
  }

  // Of the sequence that is pointed at, else of the chosen one.
  draw(sequence, chosen, lanes, unit) {
    for (const c of this.chips) c.b.setAttribute("aria-pressed", String(c.sequence === chosen));
    if (sequence === null) {
      this.card.replaceChildren(el("p", "hint", "Point at a bar, or choose a request, to see when it arrived, why it waited and when it answered. A check: it meets both targets."));
      return;
    }
    const parts = lanes.map((lane) => {
      const row = lane.picture.rows.get(sequence);
      if (!row) return null;
      const box = el("div", "became", el("h4", "", lane.name));
      box.append(el("p", "", `${lifeOf(row, unit).join(", ")}.`));
      for (const wait of waitsOf(row, lane.info.engine).slice(0, 3)) box.append(el("p", "why", `Waits ${wait.when}: ${wait.why} `, el("code", "", wait.reason)));
      if (row.waits.length > 3) box.append(el("p", "why", `And ${num(row.waits.length - 3)} more waits; the table has all.`));
      if (row.first_token !== null) {
        const ttft = unit === "ms" ? row.ttft_us : row.ttft_steps;
        const worst = unit === "ms" ? row.worst_gap_us : row.worst_gap_steps;
        box.append(el("p", "", "First token after ", el("b", "", time(ttft, unit)), ", longest gap ", el("b", "", time(worst, unit)), "."));
      }
      return box;
    });
    const { info } = lanes[0];
    const row = lanes[0].picture.rows.get(sequence);
    const about = row ? ` ${num(row.prompt_tokens)} tokens in, ${num(row.output_tokens)} out` : "";
    this.card.replaceChildren(el("p", "who", badge(info, sequence, info.short(sequence)), about), ...parts.filter(Boolean));
  }
}
