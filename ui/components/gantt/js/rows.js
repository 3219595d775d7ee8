// The picture as tables: one for each run, a line a sequence. Filled when it is opened.
import { badge } from "../../run_player/js/badge.js";
import { el, num } from "../../run_player/js/util.js";
import { bare } from "./words.js";

export class Rows {
  constructor(player) {
    this.player = player;
    this.root = el("div", "tables");
  }

  load(lanes) {
    this.root.replaceChildren(
      ...lanes.map((lane) => {
        const box = el("div", "tbox");
        const details = el("details", "", el("summary", "", `Table: ${lane.name}`), box);
        details.ontoggle = () => box.replaceChildren(...(details.open ? [this.table(lane)] : []));
        box.tabIndex = 0;
        box.setAttribute("role", "region");
        box.setAttribute("aria-label", `Table: ${lane.name}`);
        return details;
      }),
    );
  }

  table(lane) {
    const { unit } = this.player;
    const inUnit = unit === "ms" ? "ms" : "steps";
    const heads = ["Request", "Tokens in", "Tokens out", "Arrives", "Let in", "First token", "Ends", `Time to first token, ${inUnit}`, `Longest gap, ${inUnit}`, "Waits, from step to step, and why", "Sent away", "Computed again"];
    const head = el("tr", "", ...heads.map((w) => el("th", "", w)));
    for (const th of head.children) th.scope = "col";
    const n = (v) => el("td", "n", v === null ? "–" : num(v));
    const body = el(
      "tbody",
      "",
      ...lane.serving.rows.map((r) =>
        el(
          "tr",
          "",
          el("td", "", badge(lane.info, r.sequence, lane.info.short(r.sequence))),
          n(r.prompt_tokens),
          n(r.output_tokens),
          n(r.arrived),
          n(r.admitted),
          n(r.first_token),
          n(r.ended),
          el("td", "n", bare(unit === "ms" ? r.ttft_us : r.ttft_steps, unit)),
          el("td", "n", bare(unit === "ms" ? r.worst_gap_us : r.worst_gap_steps, unit)),
          el("td", "", r.rejected ?? r.waits.map(([a, b, why]) => `${num(a)}–${num(b)} ${why}`).join(", ")),
          el("td", "", r.preempted.map(num).join(", ")),
          n(r.recomputed),
        ),
      ),
    );
    return el("table", "t", el("caption", "", lane.name), el("thead", "", head), body);
  }
}
