// The open claim: what was said, the vote, and after it what is right and why.
import { icon } from "../../run_player/js/icons.js";
import { button, el } from "../../run_player/js/util.js";
import { claimLink } from "./claimlink.js";
import { derivation } from "./derivation.js";
import { NEEDS, VERDICTS, VOTES, sees, verdictWords, votedWord } from "./rows.js";

export function verdictMark(verdict) {
  const { word, icon: name, cls } = VERDICTS[verdict];
  return el("span", `mark ${cls}`, icon(name), word);
}

function voting(row, vote) {
  const box = el("div", "vote");
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", "Your vote");
  if (row.lost) {
    const go = button("btn", null, "Show what belongs there");
    go.onclick = () => vote(row.id, "look");
    box.append(go, el("p", "hint", "The text has lost this number, so there is nothing to vote on. Say it to yourself first."));
    return box;
  }
  for (const { id, word, key } of VOTES) {
    const go = button("btn say", null, word, el("kbd", "", key));
    go.setAttribute("aria-keyshortcuts", key);
    go.onclick = () => vote(row.id, id);
    box.append(go);
  }
  box.append(el("p", "hint", "Vote first. The verdict is not in this page until you have."));
  return box;
}

const needed = (needs) => el("p", "needs", icon("help"), `${NEEDS[needs]}.`);

function part(one, { alone, told }) {
  const box = el("section", "part");
  const head = el("h3", "", one.what);
  box.append(alone ? head : el("div", "phead", head, verdictMark(one.verdict)));
  const facts = el("dl", "facts");
  const add = (word, said, cls = "") => said && facts.append(el("dt", "", word), el("dd", cls, said));
  add("Printed", one.printed, "num");
  add("Computed", one.value, "num");
  if (!one.needs || one.verdict === "stripped") add("So", one.reason);
  add("Source", one.source);
  box.append(facts);
  if (one.needs && !told) box.append(needed(one.needs));
  if (one.derived) {
    const fold = el("details", "fold", el("summary", "", "How it is computed"));
    fold.append(derivation(one.derived));
    fold.open = alone;
    box.append(fold);
  }
  return box;
}

function revealed(detail, answers) {
  const said = el("h3", "said", verdictMark(detail.verdict), votedWord({ id: detail.id }, answers) ? el("span", "", verdictWords(detail, answers).replace(/^[^.]*\. /, "")) : null);
  said.tabIndex = -1;
  const box = el("div", "reveal", said);
  box.append(el("p", "why", detail.explanation));
  if (detail.needs) box.append(needed(detail.needs));
  const prov = el("span", "prov modelled", el("b", "", icon("fn"), "MODELLED"), el("span", "", "computed now by core/sizing from the inputs below; no engine ran"));
  if (detail.parts.some((one) => one.derived)) box.append(el("p", "from", prov));
  box.append(...detail.parts.map((one, i) => part(one, { alone: detail.parts.length === 1, told: i === 0 && detail.needs })));
  if (detail.conflicts.length) box.append(el("h3", "", "It contradicts"), el("ul", "", ...detail.conflicts.map((c) => el("li", "", c))));
  if (detail.assumptions.length) box.append(el("h3", "", "Taken as given"), el("ul", "", ...detail.assumptions.map((a) => el("li", "", a))));
  if (detail.typed) box.append(el("p", "muted small", "This verdict rests on a fact that was looked up, not on a formula."));
  box.append(el("p", "dv-fact", el("span", "", "Same from a shell "), el("code", "", detail.command)));
  return box;
}

// what: {row, detail or null, answers, source, topic}; act: {vote(id, vote), back()}.
export function claimPanel(what, act) {
  const { row, detail, answers, source, topic } = what;
  const box = el("div", "claim");
  const back = button("btn quiet back", null, icon("out"), "All claims");
  back.onclick = act.back;
  box.append(el("div", "chead", back, el("span", "id", row.id), el("span", "muted", `${source.title}, ${row.section} · ${topic}`), ...claimLink(row.id)));
  const says = el("h2", "says", row.says);
  says.tabIndex = -1;
  box.append(says, el("p", "credit", source.credit));
  if (detail) box.append(revealed(detail, answers));
  else if (sees(row, answers)) {
    const wait = el("p", "wait muted", "Computing it now …");
    wait.setAttribute("role", "status");
    box.append(wait);
  } else box.append(voting(row, act.vote));
  return box;
}
