// Every term of the glossary, with the page that teaches it.
import { el } from "../../run_player/js/util.js";

export function termList(terms, open) {
  const items = terms.map((term) => {
    const also = term.also.length ? el("small", "", `also ${term.also.join(", ")}`) : null;
    const head = el("dt", "", term.name, ...(also ? [also] : []));
    const taught = el("a", "", term.taught);
    taught.href = term.see;
    const said = el("dd", "", term.is, ...(term.see ? [el("span", "taught", "Taught on ", taught)] : []));
    const item = el("div", "term", head, said);
    item.dataset.slug = term.slug;
    item.classList.toggle("open", term.slug === open);
    return item;
  });
  return el("dl", "terms", ...items);
}
