// "See it happen": what the engine does with these numbers, and the way to the run.
import { button, el, icon } from "./dom.js";

function line(item) {
  const parts = [el("span", "who", item.who)];
  item.factors.forEach((factor, i) => {
    if (i) parts.push(" × ");
    parts.push(i === item.changed ? el("span", item.who === "yours" ? "bad" : "good", factor) : factor);
  });
  return el("div", "", ...parts, ` = ${item.equals}`);
}

function heads(count, cls) {
  const box = el("div", `heads ${cls}`);
  box.append(...Array.from({ length: count }, () => el("i")));
  box.setAttribute("aria-hidden", "true");
  return box;
}

function picture({ query, kv }) {
  return el(
    "div",
    "pic",
    el("p", "tiny muted", `${query} query heads: read, never stored`),
    heads(query, ""),
    el("p", "tiny muted", `${kv} KV heads: stored for every token, in every layer`),
    heads(kv, "kv"),
  );
}

function label({ kind, about }) {
  const node = el("span", `prov ${kind.toLowerCase()}`);
  node.append(el("b", "", icon(kind === "RECORDED" ? "disc" : "branch"), kind), el("span", "", about));
  return node;
}

// To the run: here, below the question, or on the page where it can be changed.
function ways(run, play) {
  const link = el("a", "away", icon("out"), run.page);
  link.href = run.href;
  link.target = "_blank";
  link.rel = "noopener";
  link.setAttribute("aria-label", `${run.page}: open this run there, in a new tab`);
  const go = button("btn", play, icon("play"), run.open ? "Close the run" : "Play the run here");
  go.setAttribute("aria-expanded", String(run.open));
  return el("div", "go", go, label(run), link);
}

export function proof(see, play) {
  const left = el("div", "", el("h3", "", "See it happen"), el("p", "small muted say", see.say));
  if (see.lines.length) {
    const lines = el("div", "eq", ...see.lines.map(line));
    lines.tabIndex = 0; // scrolls sideways on a narrow screen
    lines.setAttribute("role", "group");
    lines.setAttribute("aria-label", "The product, factor by factor");
    left.append(lines);
  }
  if (see.run) left.append(ways(see.run, play));
  const box = el("section", "panel see", left);
  box.setAttribute("aria-label", "See it happen");
  if (see.heads) box.append(picture(see.heads));
  return box;
}
