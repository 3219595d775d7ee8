// What a search finds, as links: where it stands, and the words around it.
import { el, num } from "../../run_player/js/util.js";
import { excerpt, found, marked } from "./find.js";

const MOST = 40;

const pieces = (list) => list.map(([words, on]) => (on ? el("mark", "", words) : words));

export function resultList(rows, query) {
  const all = found(rows, query);
  const items = all.slice(0, MOST).map(({ entry, first }) => {
    const link = el("a", "ttl", ...pieces(marked(entry.title, query)));
    link.href = entry.to;
    const head = el("div", "line", el("span", "kind", entry.kind), link, ...(entry.head ? [el("span", "part", ...pieces(marked(entry.head, query)))] : []));
    return el("li", "", head, el("p", "", ...pieces(excerpt(entry.text, query, first))));
  });
  const rest = all.length - items.length;
  const list = el("ol", "results", ...items);
  return { list, count: all.length, more: rest > 0 ? `and ${num(rest)} more: another word narrows it` : "" };
}
