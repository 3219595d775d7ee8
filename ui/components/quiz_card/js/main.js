// One question of the gate, or its result. All that is decided is decided in Python; the right
// answer is not in `data` before an answer is locked in.
import { button, el, icon } from "./dom.js";
import { feedback } from "./feedback.js";
import { answered, choices } from "./options.js";
import { proof } from "./proof.js";
import { strip } from "./strip.js";

const kept = new WeakMap();

function head(data) {
  const title = el("div", "title", el("h1", "", data.title), el("p", "lead", data.lead));
  return el("header", "head", title, strip(data.topics));
}

function question(data, state, send) {
  const top = el("div", "top", el("span", "eyebrow", data.number));
  if (data.drawn) top.append(el("span", "eyebrow drawn", `drawn for you: ${data.drawn}`));
  const panel = el("section", "panel card", top, el("h2", "q", data.question));
  if (data.given.length) panel.append(el("p", "given", ...data.given.map((one) => el("span", "", one))));
  if (!data.answered) {
    panel.append(...choices(data, state, (option) => send("answer", { place: data.place, option })));
    return panel;
  }
  panel.append(answered(data), feedback(data), proof(data.see, () => send("play", data.place)));
  const next = button("btn primary next", () => send("next", data.place), data.next);
  return [panel, el("div", "foot", next)];
}

function result(data, send) {
  const { right, of, complete, says, rows } = data.done;
  const panel = el("section", "panel card done");
  const said = el("h2", `score ${complete ? "good" : "bad"}`, icon(complete ? "check" : "again"), el("span", "", `${right} of ${of}`));
  said.tabIndex = -1;
  panel.append(said, el("p", "say", says));
  const list = el("ul", "rows");
  for (const row of rows) {
    list.append(el("li", row.good ? "right" : "wrong", icon(row.good ? "check" : "cross"), el("b", "", row.title), el("span", "", row.says)));
  }
  panel.append(list);
  const again = button(`btn ${complete ? "" : "primary"} next`, () => send("again", data.place), icon("again"), "Try again with new numbers");
  return [panel, el("div", "foot", again)];
}

export default function ({ parentElement, data, setTriggerValue }) {
  const root = parentElement.querySelector(".quiz");
  const state = kept.get(root) ?? { id: null, picked: null, answered: false };
  kept.set(root, state);
  if (state.id !== data.id) Object.assign(state, { id: data.id, picked: null });
  const send = (name, value) => {
    root.querySelectorAll("button").forEach((b) => (b.disabled = true)); // until Python has answered
    setTriggerValue(name, value);
  };
  if (data.present) root.dataset.scale = "present";
  else delete root.dataset.scale;
  root.replaceChildren(...(data.title ? [head(data)] : []), ...[data.done ? result(data, send) : question(data, state, send)].flat());
  // Whoever works by keyboard or by ear goes on where the news is.
  const news = `${data.id} ${Boolean(data.answered)} ${Boolean(data.done)}`;
  const first = state.news === undefined;
  if (!first && state.news !== news) {
    const target = root.querySelector(".fb h3, .score") ?? root.querySelector(".q");
    target.tabIndex = -1;
    target.focus({ preventScroll: false });
  }
  state.news = news;
}
