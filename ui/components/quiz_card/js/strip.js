// The four questions, and how each stands.
import { el, icon } from "./dom.js";

const MARKS = { right: "check", wrong: "cross" };

export function strip(topics) {
  const list = el("ol", "strip");
  list.setAttribute("aria-label", "The four questions");
  topics.forEach((topic, i) => {
    const mark = MARKS[topic.state] ? icon(MARKS[topic.state]) : topic.numbered ? "" : `${i + 1} `;
    const item = el("li", topic.state, el("b", "", mark, topic.title), topic.word);
    if (topic.state === "now") item.setAttribute("aria-current", "step");
    list.append(item);
  });
  return list;
}
