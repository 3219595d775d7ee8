// What the marks mean; only the marks that this run can show.
import { el } from "./util.js";

const item = (cls, words, sample = "") => el("span", "", el("i", cls, sample), words);
const mono = (sample, words) => el("span", "", el("b", "mono", sample), words);

export function drawLegend(root, info, size, tokens) {
  const out = [];
  if (tokens) {
    out.push(item("lg-w", "computed in this step"));
    if (info.cacheOn) out.push(item("lg-hit", "found in the cache"));
    out.push(el("span", "", el("em", "", "word"), info.keepsKV ? "sampled, no slot yet" : "computed again in every step"));
  }
  if (size !== "small") {
    out.push(item("lg-used", "held, in the colour of its request"));
    out.push(item("lg-w2", "written in this step"));
    out.push(item("lg-part", "partly filled"));
  }
  if (info.cacheOn) out.push(item("lg-idle", "cached, nobody reads it"));
  out.push(item(size === "small" ? "lg-free" : "lg-open", "free"));
  if (info.contiguous) out.push(item("lg-waste", "reserved, empty"));
  out.push(mono(size === "small" || tokens ? "×2" : "2", "references, if more than one"));
  if (size !== "dense") out.push(mono("next, 2nd, 3rd", "order in which free blocks are taken"));
  root.replaceChildren(...out);
}
