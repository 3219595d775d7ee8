// Who keeps keys and values: one layer in four ways, the model's own marked.
import { el, num } from "../../run_player/js/util.js";
import { svg } from "../../run_player/js/icons.js";
import { modelled, opens } from "./said.js";

export class Ways {
  constructor(open) {
    this.open = open;
    this.title = el("h2", "", "Who keeps keys and values");
    this.prov = el("span", "provs");
    this.cards = el("div", "ways");
    this.foot = el("p", "small muted");
    this.root = el("section", "panel who", el("header", "head", this.title, this.prov), this.cards, this.foot);
  }

  update(ways, data) {
    this.prov.replaceChildren(modelled([`${num(ways.layers)} of ${num(ways.of)} layers`, `${num(ways.query)} query heads`]));
    this.cards.replaceChildren(...ways.ways.map((way) => this.card(way, ways, data)));
    this.foot.textContent = data.words.ways[ways.borrowed ? "borrowed" : "own"];
  }

  card(way, ways, data) {
    const [name, line] = data.words.ways[way.id];
    const ratio = way.mine ? "this model" : way.ratio === null ? "" : `${Number(way.ratio.toPrecision(3))} × this model`;
    const said = way.latent ? `latent ${way.latent} + rotary key ${way.rope}, one for all heads` : `${num(ways.query)} query heads read ${num(way.heads)} KV head${way.heads === 1 ? "" : "s"}`;
    const rows = [el("p", "", opens(way.token, this.open), " a token"), el("p", "small", ways.gpus > 1 ? opens(way.gpu, this.open) : "", ways.gpus > 1 ? ` on each of ${ways.gpus} GPUs${this.copies(way, ways)}` : "")];
    return el("div", `way${way.mine ? " mine" : ""}`, el("h3", "", name, el("small", "", ratio)), this.picture(way, ways.query), el("p", "small muted", said), ...rows.slice(0, ways.gpus > 1 ? 2 : 1), el("p", "small", line));
  }

  copies(way, ways) {
    const times = (way.gpu.value * ways.gpus) / way.token.value;
    return times > 1.01 ? `: kept ${Number(times.toPrecision(3))} times in all` : "";
  }

  // Query heads as small squares above, what is kept as bars below.
  picture(way, query) {
    const shown = Math.min(query, 32);
    const kept = way.latent ? 1 : Math.max(1, Math.round((way.heads * shown) / query));
    const W = 200;
    const s = svg("svg", { viewBox: `0 0 ${W} 44`, class: "heads", role: "img" });
    s.setAttribute("aria-label", way.latent ? "all query heads over one latent" : `${query} query heads over ${way.heads} KV heads`);
    const q = W / shown;
    for (let i = 0; i < shown; i++) svg("rect", { x: i * q + q * 0.15, y: 2, width: q * 0.7, height: 8, class: "q" }, s);
    const w = W / kept;
    for (let i = 0; i < kept; i++) {
      const narrow = kept === 1 ? Math.min(w * 0.7, way.latent ? 60 : 20) : Math.min(w * 0.7, 20);
      const x = i * w + (w - narrow) / 2;
      svg("path", { d: `M${i * w + q * 0.2} 13 H${(i + 1) * w - q * 0.2} M${i * w + w / 2} 13 V22`, class: "wire" }, s);
      svg("rect", { x, y: 22, width: narrow, height: way.latent ? 18 : 8, class: "kv" }, s);
      if (!way.latent) svg("rect", { x, y: 32, width: narrow, height: 8, class: "kv two" }, s);
    }
    return s;
  }
}
