// What is said of the answer: the misconception by name, what is so, and what the right one says.
import { el, icon } from "./dom.js";

export function feedback(data) {
  const { good, says, fact, also } = data.answered;
  const box = el("div", `fb ${good ? "good" : "bad"}`);
  const said = el("h3", "", icon(good ? "check" : "cross"), el("span", "", says));
  said.tabIndex = -1;
  box.append(said, el("p", "", fact));
  if (also) box.append(el("p", "muted", also));
  return box;
}
