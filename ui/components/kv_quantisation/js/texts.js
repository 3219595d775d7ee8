// Two answers to one prompt: what both say, the first token that differs, and how each goes on; and
// how close the choice was there.
import { el, num, plural } from "../../run_player/js/util.js";
import { measuredLabel } from "./labels.js";

export const nats = (v) => (v === null ? "–" : v < 0 ? `−${(-v).toFixed(3)}` : v.toFixed(3));

// What the place where they part says, in sentences. own, other: the names of the two formats. The
// first two candidates are the choices of the two; how far the second's lead goes says how much was
// moved, which the first's alone does not.
export function verdict({ first, gap, lengths, candidates }, [own, other], words) {
  if (first === null) return words["same"].replace("{tokens}", plural(lengths[0], "token"));
  const part = words["part"].replace("{at}", num(first + 1));
  if (gap === null) return candidates.length > 1 ? `${part} ${words["unlisted"].replace("{own}", own)}` : part;
  const close = words[gap < 0.1 ? "close" : gap < 0.5 ? "near" : "far"];
  const [mine, theirs] = candidates.slice(0, 2).map((one) => one.logprobs[1]);
  const known = typeof mine === "number" && typeof theirs === "number";
  const lead = known ? ` ${words["lead"].replace("{other}", other).replace("{lead}", (theirs - mine).toFixed(3))}` : "";
  return `${part} ${close.replace("{own}", own).replace("{gap}", gap.toFixed(3))}${lead}`;
}

export class Texts {
  constructor() {
    this.prov = el("span", "provs");
    this.both = el("p", "both");
    this.parts = el("div", "parts");
    this.said = el("p", "verdict");
    this.table = el("div", "cands");
    this.body = el("div", "tbody", this.said, this.both, this.parts, this.table);
    this.none = el("p", "none");
    this.root = el("section", "panel texts", el("header", "head", el("h2", "", "Greedy text"), this.prov), this.none, this.body);
  }

  update({ measured, words, live, memory }) {
    this.none.hidden = Boolean(measured);
    this.body.hidden = !measured;
    this.none.textContent = words[live.can ? "unmeasured" : "unrecorded"];
    this.prov.replaceChildren(...measuredLabel(measured?.label));
    if (!measured) return;
    const { texts, own } = measured;
    this.said.textContent = verdict(texts, [own, memory.name], words);
    this.both.textContent = texts.same.join("");
    this.both.hidden = texts.same.length === 0;
    const differ = texts.first !== null;
    this.parts.hidden = !differ;
    this.parts.replaceChildren(...(differ ? [this.part(own, texts.parts[0], "own"), this.part(memory.name, texts.parts[1], "other")] : []));
    this.table.replaceChildren(...(texts.candidates.length ? [this.candidates(texts.candidates, [own, memory.name])] : []));
  }

  part(name, pieces, cls) {
    const [head, ...rest] = pieces;
    const first = head === undefined ? el("mark", cls, "⟨nothing more⟩") : el("mark", cls, head);
    return el("p", cls, el("b", "", name), first, rest.join(""));
  }

  candidates(rows, names) {
    const head = el("tr", "", ...["Token there", ...names.map((name) => `${name}, nats`)].map((w) => Object.assign(el("th", "", w), { scope: "col" })));
    const body = rows.map(({ text, logprobs }) => el("tr", "", Object.assign(el("th", "", el("code", "", shown(text))), { scope: "row" }), ...logprobs.map((v) => el("td", "n", nats(v)))));
    return el("table", "t", el("caption", "small muted", "Log-probabilities there; –: not among the four likeliest"), el("thead", "", head), el("tbody", "", ...body));
  }
}

// A token's text with its spaces and line ends to be seen.
export const shown = (text) => text.replaceAll(" ", "␣").replaceAll("\n", "↵");
