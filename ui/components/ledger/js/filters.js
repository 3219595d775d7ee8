// What to list: words, topic, source, one's own votes, and by verdict where all are shown.
import { icon } from "../../run_player/js/icons.js";
import { button, el } from "../../run_player/js/util.js";
import { VERDICTS } from "./rows.js";

const MINE = { open: "Not voted yet", voted: "Voted", agree: "As the ledger", differ: "Not as the ledger" };

function choice(label, empty, options, change) {
  const select = el("select");
  select.setAttribute("aria-label", label);
  const add = (value, word) => {
    const option = el("option", "", word);
    option.value = value;
    select.append(option);
  };
  add("", empty);
  for (const [value, word] of Object.entries(options)) add(value, word);
  select.onchange = () => change(select.value);
  return select;
}

export class Filters {
  // data: the rows' data; act: {change(name, value), all(on)}
  constructor(data, act) {
    this.words = el("input", "words");
    this.words.type = "search";
    this.words.maxLength = 80;
    this.words.placeholder = "Search the claims";
    this.words.setAttribute("aria-label", "Search the claims");
    this.words.oninput = () => act.change("q", this.words.value.trim());
    const sources = Object.fromEntries(Object.entries(data.sources).map(([id, s]) => [id, s.title]));
    const verdicts = Object.fromEntries(data.verdicts.map((v) => [v, VERDICTS[v].word]));
    this.selects = {
      topic: choice("Topic", "All topics", data.topics, (v) => act.change("topic", v)),
      source: choice("Source", "Both sources", sources, (v) => act.change("source", v)),
      mine: choice("Your votes", "Voted or not", MINE, (v) => act.change("mine", v)),
      verdict: choice("Verdict", "All verdicts", verdicts, (v) => act.change("verdict", v)),
    };
    this.all = button("btn all", null, icon("key"), el("span", ""));
    this.all.onclick = () => act.all(!this.shown);
    this.root = el("div", "filters", this.words, ...Object.values(this.selects), this.all);
    this.root.setAttribute("role", "search");
  }

  set(place, shown) {
    this.shown = shown;
    if (this.words.value.trim() !== (place.q ?? "")) this.words.value = place.q ?? "";
    for (const [name, select] of Object.entries(this.selects)) select.value = place[name] ?? "";
    this.selects.verdict.hidden = !shown;
    this.all.lastChild.textContent = shown ? "Hide verdicts" : "Show all verdicts";
    this.all.setAttribute("aria-pressed", String(shown));
  }
}
