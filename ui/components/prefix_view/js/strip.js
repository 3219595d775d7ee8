// The prompt of the request at hand, block by block: what was found, where the match ended, what is
// computed.
import { badge, paint } from "../../run_player/js/badge.js";
import { rove } from "../../run_player/js/keyboard.js";
import { button, el, num, plural } from "../../run_player/js/util.js";
import { hitSentence, lookAt, whySentence } from "./looks.js";

const SHOW = 5; // blocks at each end of a long run of alike blocks

export class Strip {
  constructor(view) {
    this.view = view;
    this.head = el("h3", "striphead");
    this.follow = el("select", "speed follow");
    this.follow.setAttribute("aria-label", "Whose prompt");
    this.follow.onchange = () => view.followRequest(this.follow.value || null);
    this.row = el("div", "strip");
    this.row.setAttribute("role", "group");
    this.row.setAttribute("aria-label", "The prompt in blocks");
    this.says = el("p", "stripsays");
    this.open = new Set();
    rove(this.row, () => [[...this.row.querySelectorAll("button")]]);
    this.root = el("section", "stripbox", el("div", "striptop", this.head, this.follow), this.row, this.says);
  }

  load(info) {
    this.info = info;
    this.open.clear();
    this.follow.replaceChildren(new Option("The newest", ""), ...info.header.scenario.requests.map((r) => new Option(r.id, r.id)));
  }

  draw(k, side, request) {
    this.follow.value = request ?? "";
    const look = lookAt(side.looks, k, request);
    if (!look) return this.drawWaiting(k, request);
    const { info, read } = side;
    const state = side.sv.state;
    const { bs } = info;
    const seq = state.seqs.get(look.sequence);
    this.head.replaceChildren("The prompt of ", badge(info, look.sequence), ` ${look.resumed ? "taken up again" : "let in"} at step ${num(look.step)}`);
    const count = Math.ceil(look.num_tokens / bs);
    const cells = [];
    for (let i = 0; i < count; i++) {
      const tokens = seq.tokens(i * bs, Math.min((i + 1) * bs, look.num_tokens));
      cells.push({ i, hit: i < look.hit_blocks, b: look.table[i] ?? -1, key: look.keys[i] ?? null, text: read(tokens), n: tokens.length });
    }
    const out = [];
    const cut = el("span", "cut");
    cut.setAttribute("aria-hidden", "true");
    out.push(...this.run(cells.slice(0, look.hit_blocks), look, "hit"));
    if (look.hit_blocks < count) out.push(cut, ...this.run(cells.slice(look.hit_blocks), look, "miss"));
    const at = this.row.getRootNode().activeElement;
    const held = at && this.row.contains(at) ? at.dataset.b ?? "" : null;
    this.row.replaceChildren(...out);
    const cellsNow = [...this.row.querySelectorAll("button")];
    const stop = cellsNow.find((c) => held && c.dataset.b === held) ?? cellsNow[0];
    for (const c of cellsNow) c.tabIndex = c === stop ? 0 : -1;
    if (held !== null) stop?.focus({ preventScroll: true });
    this.says.replaceChildren(el("b", "", hitSentence(look)), ` ${whySentence(look, bs)}`);
  }

  // A long run of alike blocks is folded in its middle.
  run(cells, look, kind) {
    const name = `${look.step}.${look.sequence}.${kind}`;
    if (cells.length <= 2 * SHOW + 2 || this.open.has(name)) return cells.map((c) => this.cell(c, look));
    const rest = cells.length - 2 * SHOW;
    const more = button("pb more", null, `${num(rest)} more ${kind === "hit" ? "hits" : "to compute"}`);
    more.onclick = () => {
      this.open.add(name);
      this.view.draw();
    };
    return [...cells.slice(0, SHOW).map((c) => this.cell(c, look)), more, ...cells.slice(-SHOW).map((c) => this.cell(c, look))];
  }

  cell(c, look) {
    const { info } = this;
    const what = c.hit ? "hit" : "compute";
    const b = button(`pb ${c.hit ? "hit" : "miss"}`, `${what}, ${c.b >= 0 ? `block ${c.b}` : "no block yet"}: ${c.text}`, el("span", "w", c.text), el("span", "s", el("span", "", what), el("span", "mono", c.b >= 0 ? `block ${num(c.b)}` : "–")));
    paint(b, info, look.sequence);
    if (c.key) b.dataset.k = c.key;
    if (c.b >= 0) {
      b.dataset.b = c.b;
      b.onclick = () => this.view.pickBlock(this.view.front, c.b, c.key);
    }
    return b;
  }

  drawWaiting(k, request) {
    this.row.replaceChildren();
    this.head.replaceChildren("The prompt of ", ...(request ? [badge(this.info, request)] : ["the next request"]));
    const spec = this.info.header.scenario.requests.find((r) => r.id === request) ?? this.info.header.scenario.requests[0];
    const tokens = this.info.header.prompts?.[spec?.id]?.length ?? 0;
    this.says.textContent = spec ? `${spec.id} brings ${plural(tokens, "token")} in step ${num(spec.arrive_step ?? 0)} and has not been let in yet.` : "Nobody has been let in yet.";
  }
}
