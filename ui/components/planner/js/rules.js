// The rules held against the plan: what was seen, the rule with its threshold, and what it rests on.
import { icon } from "../../run_player/js/icons.js";
import { el, plural } from "../../run_player/js/util.js";

const MARKS = { problem: "stop", notice: "warn", unknown: "help", pass: "check" };
const STATE_WORDS = { problem: "problem", notice: "worth a thought", unknown: "not known", pass: "fine" };
const RESTS = { arithmetic: "follows from the plan's numbers", convention: "a rule of thumb", literature: "as reported by others" };

const threshold = (one) => Object.entries(one.threshold).map(([name, v]) => `${name.replaceAll("_", " ")} ${v}`).join(", ");

export class Rules {
  constructor() {
    this.tally = el("span", "tally");
    this.list = el("div", "rlist");
    this.root = el("section", "panel rules", el("header", "head", el("h2", "", "Anti-patterns and rules"), this.tally), this.list);
    this.kept = new Set(); // rules that the reader has opened
  }

  update({ found, silent, count }) {
    const n = (status) => found.filter((one) => one.status === status).length;
    this.tally.textContent = `${plural(n("problem"), "problem")}, ${n("notice")} worth a thought, ${n("unknown")} not known, ${n("pass")} fine; of ${count} rules`;
    const open = found.filter((one) => one.status !== "pass");
    const fine = found.filter((one) => one.status === "pass");
    const rest = el("details", "r all", el("summary", "", `${plural(fine.length, "rule")} kept, and ${silent.length} that say nothing of this plan`), ...fine.map((one) => this.rule(one)), silent.length ? el("p", "small muted", `They do not apply: ${silent.join("; ")}.`) : null);
    this.remember(rest, "all");
    this.list.replaceChildren(...(open.length ? open.map((one) => this.rule(one)) : [el("p", "", "No rule has anything against this plan.")]), rest);
  }

  remember(node, id) {
    node.open = this.kept.has(id);
    node.ontoggle = () => (node.open ? this.kept.add(id) : this.kept.delete(id));
  }

  rule(one) {
    const head = el("summary", "", icon(MARKS[one.status]), el("b", "", one.title), el("span", "st", STATE_WORDS[one.status]), one.anti_pattern ? el("span", "anti", "anti-pattern") : null);
    const limits = threshold(one);
    const node = el("details", `r ${one.status}`, head, el("p", "", one.rule), limits ? el("p", "small", `Threshold: ${limits}.`) : null, el("p", "small", `To mend it: ${one.mend}`), el("p", "small muted", `${RESTS[one.basis] ?? one.basis}. ${one.source}`));
    this.remember(node, one.id);
    return el("div", "rwrap", node, el("p", "saw", one.saw));
  }
}
