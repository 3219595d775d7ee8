// What happened in this step: one plain sentence an event, and the event as the engine names it.
import { KIND, context, rankOf, routine, topEvent } from "./events.js";
import { icon } from "./icons.js";
import { code, sentence } from "./sentences.js";
import { button, el, num } from "./util.js";

const BAD = new Set(["waiting", "preempted", "request_rejected", "cancelled"]);
const ROUTINE = new Set(["scheduled", "token_sampled"]);
const MANY = 4;

export class Log {
  constructor(player) {
    this.player = player;
    this.list = el("ol");
    this.root = el("div", "log", this.list);
    this.root.tabIndex = 0;
    this.root.setAttribute("role", "region");
    this.root.setAttribute("aria-label", "What happened in this step");
    this.open = new Set(); // kinds of event shown in full
  }

  load(info) {
    this.info = info;
    this.open.clear();
  }

  draw(sv, notes) {
    const { info } = this;
    const groups = new Map();
    sv.events.forEach((e, i) => {
      const k = ROUTINE.has(e.type) ? e.type : `${e.type}|${e.reason ?? e.cause ?? ""}|${e.to ?? ""}`;
      if (!groups.has(k)) groups.set(k, []);
      groups.get(k).push([e, i]);
    });
    const top = topEvent(sv.events);
    const out = [];
    for (const [k, items] of groups) {
      if (ROUTINE.has(items[0][0].type) && items.length > 1 && !this.open.has(k)) {
        out.push(this.item(items[0][0], routine(items[0][0].type, items.map(([e]) => e), info), items[0][0].type, k));
        continue;
      }
      const cut = items.length > MANY && !this.open.has(k) ? 2 : items.length;
      items.slice(0, cut).forEach(([e, i]) => out.push(this.item(e, sentence(e, context(e, notes[i], info)), code(e), null, e === top && rankOf(e) === 0)));
      if (cut < items.length) out.push(this.more(items.length - cut, k, items[0][0].type));
    }
    if (!out.length) out.push(el("li", "", icon("dot"), el("div", "", "Nothing happened: the next request is still to arrive.")));
    this.list.replaceChildren(...out);
  }

  item(e, words, under, key, star = false) {
    const li = el("li", star ? "star" : BAD.has(e.type) ? "bad" : "", icon(KIND[e.type]?.[1]), el("div", "", words, el("span", "c", under)));
    const bs = e.type === "block_copied" ? [e.src, e.dst] : e.type === "block_uncached" ? [e.block] : e.blocks;
    if (bs?.length) li.dataset.blocks = bs.join();
    if (key) li.lastChild.append(this.each(key));
    return li;
  }

  each(key) {
    const b = button("steplink", null, "one by one");
    b.onclick = () => {
      this.open.add(key);
      this.player.draw();
    };
    return b;
  }

  more(n, key, type) {
    const b = button("steplink", null, `${num(n)} more of ${type}`);
    b.onclick = () => {
      this.open.add(key);
      this.player.draw();
    };
    return el("li", "", icon("dot"), el("div", "", b));
  }

  target(node) {
    const li = node.closest("[data-blocks]");
    return li ? { blocks: li.dataset.blocks.split(",").map(Number) } : null;
  }
}
