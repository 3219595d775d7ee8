// The options of a question: radio buttons until one is locked in, then what became of each.
import { button, el, icon } from "./dom.js";

const LETTERS = "ABCDEF";

function row(option, i, words) {
  const parts = [el("span", "k", LETTERS[i])];
  if (words) parts.push(el("span", "w", option.text));
  else parts.push(el("span", "v", option.text), el("span", "x", option.aside));
  return parts;
}

// state: {picked: index or null}, kept across redraws of the same question.
export function choices(data, state, lock) {
  const group = el("fieldset", "opts", el("legend", "sr", "Your answer"));
  const go = button("btn primary", () => state.picked !== null && lock(state.picked), icon("lock"), data.lock);
  const show = () => {
    group.querySelectorAll("label").forEach((label, i) => label.classList.toggle("on", i === state.picked));
    go.setAttribute("aria-disabled", String(state.picked === null));
  };
  data.options.forEach((option, i) => {
    const input = el("input");
    input.type = "radio";
    input.name = "option";
    input.checked = state.picked === i;
    input.onchange = () => {
      state.picked = i;
      show();
    };
    const label = el("label", "opt", input, ...row(option, i, data.words));
    group.append(label);
  });
  group.onkeydown = (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const i = e.key.length === 1 ? LETTERS.indexOf(e.key.toUpperCase()) : -1;
    if (i >= 0 && i < data.options.length) {
      e.stopPropagation(); // "c" is a key of Streamlit's
      group.querySelectorAll("input")[i].click();
      group.querySelectorAll("input")[i].focus();
    } else if (e.key === "Enter" && state.picked !== null) lock(state.picked);
  };
  show();
  return [group, el("p", "lockrow", go, el("span", "small muted", data.note))];
}

export function answered(data) {
  const { chosen, right } = data.answered;
  const list = el("ol", "opts");
  data.options.forEach((option, i) => {
    const kind = i === right ? "right" : i === chosen ? "wrong" : "";
    const said = [i === chosen && "your answer", i === right && i !== chosen && "the right answer"].filter(Boolean).join(", ");
    const item = el("li", `opt ${kind}`, ...row(option, i, data.words));
    item.append(el("span", "said", kind ? icon(kind === "right" ? "check" : "cross") : null, said));
    list.append(item);
  });
  return list;
}
