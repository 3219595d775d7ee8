// A number of the quick reference: say it to yourself, then see it with the formula behind it.
import { button, el } from "../../quiz_card/js/dom.js";
import { rates } from "./rates.js";

function call({ fn, steps, source }) {
  const box = el("div", "call");
  for (const [formula, substituted, value] of steps) {
    const line = el("div", "", el("span", "muted", formula), substituted ? ` = ${substituted}` : "", " = ", el("b", "", value));
    box.append(line);
  }
  box.append(el("p", "tiny muted", source ? `${fn}: ${source}` : fn));
  return box;
}

function answer(data) {
  const { shown, exact, note, expression, calls } = data.recall;
  const value = el("h3", "shown", shown);
  const box = el("div", "fb good", value);
  if (exact && exact !== shown) box.append(el("p", "muted exact", exact));
  if (note) box.append(el("p", "", note));
  const eq = el("div", "eq", ...calls.map(call));
  if (expression) eq.prepend(el("div", "", expression));
  eq.tabIndex = 0; // scrolls sideways on a narrow screen
  eq.setAttribute("role", "group");
  eq.setAttribute("aria-label", "How it is computed");
  box.append(eq);
  return box;
}

export function recall(data, revealed, show, rate) {
  const top = el("div", "top", el("span", "eyebrow", data.number), el("span", "eyebrow", data.scope));
  const panel = el("section", "panel card", top, el("h2", "q", data.question), el("p", "small muted", data.about));
  if (!revealed) {
    panel.append(el("p", "lockrow", button("btn primary", show, data.reveal), el("span", "small muted", data.hint)));
    return [panel];
  }
  panel.append(answer(data));
  return [panel, rates(data, rate)];
}
