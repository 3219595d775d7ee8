// How a number was computed: the calls into the library, with values put in. Text only.
import { el } from "../../run_player/js/util.js";
import { legible } from "../../kv_sizing/js/legible.js";

function table(cls, head, rows) {
  const body = el("tbody");
  for (const row of rows) {
    const line = el("tr");
    row.forEach((cell, i) => {
      const box = el(i ? "td" : "th", "", cell);
      if (!i) box.scope = "row";
      line.append(box);
    });
    body.append(line);
  }
  const top = el("tr");
  for (const word of head) {
    const box = el("th", "", word);
    box.scope = "col";
    top.append(box);
  }
  const wide = el("div", "dv-wide", el("table", cls, el("thead", "", top), body));
  wide.tabIndex = 0; // it scrolls sideways on a narrow screen
  wide.setAttribute("role", "group");
  wide.setAttribute("aria-label", head.join(", "));
  return wide;
}

export const SCOPES = { layer: "one layer", gpu: "one GPU", replica: "one replica", model: "the whole model", fleet: "all replicas" };

function fact(word, said) {
  return said ? el("p", "dv-fact", el("span", "", `${word} `), said) : null;
}

function oneCall(call) {
  const box = el("div", "dv-call");
  box.append(el("p", "dv-name", el("code", "", call.function), call.scope ? el("span", "dv-scope", `for ${SCOPES[call.scope]}`) : null, el("b", "", call.value)));
  box.append(el("p", "dv-in", call.inputs));
  if (call.steps.length) box.append(table("dv-steps", ["Formula", "With the values", "Gives"], call.steps.map(([formula, values, gives]) => [formula, legible(values, 6), gives])));
  if (call.symbols.length) box.append(table("dv-symbols", ["Symbol", "What it is", "Value"], call.symbols));
  for (const note of call.notes) box.append(el("p", "dv-note", note));
  const basis = { arithmetic: "arithmetic", convention: "a convention", literature: "a measurement that somebody reports" }[call.basis];
  for (const line of [fact("Rests on", basis), fact("Source", call.source)]) if (line) box.append(line);
  box.append(el("p", "dv-fact", el("span", "", "Same from a shell "), el("code", "", call.command)));
  return box;
}

// derived: {expression, calls}, or null where nothing is computed.
export function derivation(derived) {
  const box = el("div", "dv");
  if (!derived) return box;
  if (derived.expression) box.append(el("p", "dv-expr", derived.expression));
  box.append(...derived.calls.map(oneCall));
  return box;
}
