// How well it was known: each rating with the time after which it brings the card back.
import { button, el } from "../../quiz_card/js/dom.js";

export function rates(data, rate) {
  const row = el("div", "rates");
  row.setAttribute("role", "group");
  row.setAttribute("aria-label", data.ask);
  for (const { rating, word, when } of data.rates) {
    const main = rating === data.proposed;
    const key = el("kbd", "", `${rating}`);
    key.setAttribute("aria-hidden", "true");
    row.append(button(`btn rate ${main ? "primary" : ""}`, () => rate(rating), key, el("b", "", word), el("span", "when", when)));
  }
  return el("div", "judge", el("p", "small muted", data.ask), row, el("p", "tiny muted keys", data.keys));
}
