// A card of the review deck. A question is answered first, and the answer is judged in Python; a
// number is recalled, shown, and rated by the learner. Then one of the ratings moves on.
import { el } from "../../quiz_card/js/dom.js";
import { feedback } from "../../quiz_card/js/feedback.js";
import { answered, choices } from "../../quiz_card/js/options.js";
import { proof } from "../../quiz_card/js/proof.js";
import { digit, isSpace } from "./keys.js";
import { recall } from "./recall.js";
import { rates } from "./rates.js";

const kept = new WeakMap();

function question(data, state, send) {
  const top = el("div", "top", el("span", "eyebrow", data.number));
  if (data.drawn) top.append(el("span", "eyebrow drawn", `drawn for you: ${data.drawn}`));
  const panel = el("section", "panel card", top, el("h2", "q", data.question));
  if (data.given.length) panel.append(el("p", "given", ...data.given.map((one) => el("span", "", one))));
  if (!data.answered) {
    panel.append(...choices(data, state, (option) => send("answer", { id: data.id, option })));
    return [panel];
  }
  panel.append(answered(data), feedback(data));
  const rest = proof(data.see, () => send("play", data.id));
  return [panel, rates(data, (rating) => send("rate", { id: data.id, rating })), rest];
}

// The key that answers, reveals or rates, for whoever has the focus in the card.
function press(event, data, state, root, show, send) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const on = event.composedPath()[0];
  const waits = Boolean(data.rates) && (data.kind === "question" ? Boolean(data.answered) : state.revealed);
  const place = digit(event.key);
  if (isSpace(event.key) && !on.closest("button, a, input, summary")) {
    event.preventDefault(); // it would scroll
    if (waits) send("rate", { id: data.id, rating: data.proposed });
    else if (data.kind === "number") show();
  } else if (place !== null && waits) {
    if (data.rates.some((rate) => rate.rating === place)) send("rate", { id: data.id, rating: place });
  } else if (place !== null && data.kind === "question" && !data.answered) {
    const option = root.querySelectorAll("label.opt input")[place - 1];
    option?.click();
    option?.focus();
  }
}

export default function ({ parentElement, data, setTriggerValue }) {
  const root = parentElement.querySelector(".quiz");
  const state = kept.get(root) ?? { id: null, news: null };
  kept.set(root, state);
  if (state.id !== data.id) Object.assign(state, { id: data.id, picked: null, revealed: false });
  const send = (name, value) => {
    if (state.sent === `${name} ${data.id}`) return; // a key pressed twice
    state.sent = `${name} ${data.id}`;
    root.querySelectorAll("button").forEach((b) => (b.disabled = true)); // until Python has answered
    setTriggerValue(name, value);
  };
  const show = () => {
    if (state.revealed) return;
    state.revealed = true;
    draw();
    focus(root.querySelector(".shown"));
  };
  const focus = (target) => {
    if (!target) return;
    target.tabIndex = -1;
    target.focus({ preventScroll: false });
  };
  const draw = () => {
    const rate = (rating) => send("rate", { id: data.id, rating });
    const parts = data.kind === "number" ? recall(data, state.revealed, show, rate) : question(data, state, send);
    root.replaceChildren(...parts);
  };
  if (data.present) root.dataset.scale = "present";
  else delete root.dataset.scale;
  state.sent = null;
  draw();
  root.onkeydown = (event) => press(event, data, state, root, show, send);
  // Whoever works by keyboard or by ear goes on where the news is.
  const news = `${data.id} ${Boolean(data.answered)}`;
  if (state.news !== null && state.news !== news) focus(root.querySelector(".fb h3") ?? root.querySelector(".q"));
  state.news = news;
}
