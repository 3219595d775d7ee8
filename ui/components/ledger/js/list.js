// The rows of one page: a list box with one row in the tab order.
import { icon } from "../../run_player/js/icons.js";
import { el } from "../../run_player/js/util.js";
import { verdictMark } from "./panel.js";
import { votedWord } from "./rows.js";

function standing(row, answers) {
  const verdict = answers.verdicts[row.id];
  const vote = votedWord(row, answers);
  if (!verdict) return el("span", "stand muted", row.lost ? "number lost" : "not voted");
  const box = el("span", "stand", verdictMark(verdict));
  if (vote) box.append(el("span", `mine ${answers.agree[row.id] ? "same" : "other"}`, icon(answers.agree[row.id] ? "check" : "close"), `you: ${vote}`));
  return box;
}

export class ClaimList {
  // act: {open(id), key(event, id)}
  constructor(act) {
    this.act = act;
    this.root = el("div", "rows");
    this.root.setAttribute("role", "listbox");
    this.root.setAttribute("aria-label", "Claims. Arrows move, Enter opens, T, F and D vote.");
    this.root.onclick = (event) => {
      const row = event.target.closest(".row");
      if (row) act.open(row.dataset.id);
    };
    this.root.onkeydown = (event) => {
      const row = event.target.closest(".row");
      if (row) act.key(event, row.dataset.id);
    };
    this.root.addEventListener("focusin", (event) => {
      const row = event.target.closest(".row");
      if (row) this.mark(row.dataset.id);
    });
  }

  // The row that Tab reaches.
  mark(id) {
    for (const row of this.root.children) row.tabIndex = row.dataset.id === id ? 0 : -1;
    this.at = id;
  }

  focus(id) {
    const row = [...this.root.children].find((one) => one.dataset.id === id);
    row?.focus();
    return Boolean(row);
  }

  // Into sight within the list; the page itself does not move.
  bring(id) {
    const row = [...this.root.children].find((one) => one.dataset.id === id);
    if (row) this.root.scrollTop = row.offsetTop - this.root.clientHeight / 3;
  }

  draw(rows, { answers, open, topics, sources }) {
    const had = this.root.getRootNode().activeElement?.closest?.(".row")?.dataset.id;
    const made = rows.map((row) => {
      const node = el("div", "row", el("span", "id", row.id), el("span", "says", row.says), el("span", "where muted", `${sources[row.source].title}, ${row.section} · ${topics[row.topic]}`), standing(row, answers));
      node.dataset.id = row.id;
      node.setAttribute("role", "option");
      node.setAttribute("aria-selected", String(row.id === open));
      return node;
    });
    this.root.replaceChildren(...made);
    const ids = rows.map((row) => row.id);
    const next = [had, this.at, open].find((id) => ids.includes(id)) ?? ids[0];
    this.mark(next);
    if (had && ids.includes(had)) this.focus(had);
  }
}
