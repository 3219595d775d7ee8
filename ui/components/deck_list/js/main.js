// Cards in three lists, with a filter; a button changes one card, or all that are shown.
//   data: {lists: [{id, title, empty, all: {act, word} or null, acts: [{act, word}],
//          rows: [{id, name, group, state}]}], filter}
import { button, el } from "../../quiz_card/js/dom.js";
import { fits } from "./filter.js";

const kept = new WeakMap();

function row(card, acts, send) {
  const name = el("th", "", el("span", "", card.name), el("small", "muted", card.group));
  name.scope = "row";
  const buttons = acts.map(({ act, word }) => {
    const one = button("btn", () => send([card.id], act), word);
    one.setAttribute("aria-label", `${word}: ${card.name}`);
    return one;
  });
  return el("tr", "", name, el("td", "muted", card.state), el("td", "acts", ...buttons));
}

function table(list, shown, send) {
  if (!shown.length) return el("p", "none muted", list.rows.length ? "No card has that in its name." : list.empty);
  const head = el("tr", "", ...["Card", "State", ""].map((word) => el("th", "", word)));
  head.lastChild.append(el("span", "sr", "What can be done"));
  const body = el("tbody", "", ...shown.map((card) => row(card, list.acts, send)));
  const box = el("div", "scroll", el("table", "", el("caption", "sr", list.title), el("thead", "", head), body));
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", list.title);
  return box;
}

export default function ({ parentElement, data, setTriggerValue }) {
  const root = parentElement.querySelector(".deck");
  const state = kept.get(root) ?? { open: data.lists.find((list) => list.rows.length)?.id ?? data.lists[0].id, filter: "" };
  kept.set(root, state);
  const send = (ids, act) => setTriggerValue("act", { ids, act });

  const tabs = el("div", "tabs");
  tabs.setAttribute("role", "group");
  tabs.setAttribute("aria-label", "Which cards");
  const filter = el("input");
  filter.type = "search";
  filter.placeholder = data.filter;
  filter.setAttribute("aria-label", data.filter);
  filter.value = state.filter;
  const body = el("div");
  const whole = el("div", "whole");

  const draw = () => {
    const list = data.lists.find((one) => one.id === state.open);
    const shown = list.rows.filter((card) => fits(card, state.filter));
    tabs.replaceChildren(
      ...data.lists.map((one) => {
        const tab = button("btn", () => choose(one.id), `${one.title} (${one.rows.length})`);
        tab.setAttribute("aria-pressed", String(one.id === state.open));
        return tab;
      }),
    );
    whole.replaceChildren();
    if (list.all && shown.length) {
      whole.append(button("btn", () => send(shown.map((card) => card.id), list.all.act), `${list.all.word} (${shown.length})`));
    }
    const top = body.querySelector(".scroll")?.scrollTop ?? 0;
    body.replaceChildren(table(list, shown, send));
    const box = body.querySelector(".scroll");
    if (box) box.scrollTop = top;
  };
  const choose = (id) => {
    state.open = id;
    draw();
    tabs.children[data.lists.findIndex((list) => list.id === id)].focus();
  };
  filter.oninput = () => {
    state.filter = filter.value;
    draw();
  };
  const active = root.getRootNode().activeElement;
  const at = active?.closest("tr")?.rowIndex;
  root.replaceChildren(el("div", "bar", tabs, filter, whole), body);
  draw();
  // The row that had the focus is gone: it goes to the one in its place.
  if (at !== undefined) (root.querySelectorAll("tbody tr")[at - 1]?.querySelector("button") ?? tabs.querySelector("[aria-pressed=true]")).focus();
}
