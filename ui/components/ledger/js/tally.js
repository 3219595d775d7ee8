// One's own votes against the verdicts: a line, and behind it how many of each.
import { el } from "../../run_player/js/util.js";
import { VERDICTS, VOTES, tallyWords } from "./rows.js";

export class Tally {
  constructor() {
    this.line = el("summary", "");
    this.box = el("div", "tbox");
    this.root = el("details", "tally", this.line, this.box);
  }

  set(tally) {
    this.line.textContent = tallyWords(tally);
    this.root.classList.toggle("none", !tally?.votes);
    if (!tally?.votes) {
      this.root.open = false;
      this.box.replaceChildren();
      return;
    }
    const used = Object.keys(VERDICTS).filter((v) => VOTES.some(({ id }) => tally.table[id][v]));
    const cell = (tag, scope, ...kids) => {
      const node = el(tag, "", ...kids);
      if (scope) node.scope = scope;
      return node;
    };
    const head = el("tr", "", cell("th", "col", "You said"), ...used.map((v) => cell("th", "col", VERDICTS[v].word)));
    const body = VOTES.map(({ id, word }) => el("tr", "", cell("th", "row", word), ...used.map((v) => cell("td", "", String(tally.table[id][v] ?? 0)))));
    this.box.replaceChildren(el("table", "", el("thead", "", head), el("tbody", "", ...body)));
  }
}
