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

function away(title, href, what) {
  const link = el("a", "away", icon("out"), title);
  link.href = href;
  link.target = "_blank";
  link.rel = "noopener";
  link.setAttribute("aria-label", `${title}: open ${what} there, in a new tab`);
  return link;
}

// To the run: here, below the question, or on the page where it can be changed.
function ways(run, play) {
  const go = button("btn", play, icon("play"), run.open ? "Close the run" : "Play the run here");
  go.setAttribute("aria-expanded", String(run.open));
  return el("div", "go", go, label(run), away(run.page, run.href, "this run"));
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
  if (see.page) left.append(el("div", "go", away(see.page.title, see.page.href, "these numbers")));
  const box = el("section", "panel see", left);
  box.setAttribute("aria-label", "See it happen");
  if (see.heads) box.append(picture(see.heads));
  return box;
}
