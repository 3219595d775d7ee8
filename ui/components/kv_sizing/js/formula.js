// Bytes of one token: the formula with the values in it. Each letter says what it is and where it
// comes from; each lever shows which letter it moves.
import { button, el, num, plural, text } from "../../run_player/js/util.js";
import { amount, modelled, opens } from "./said.js";

const plain = (sym) => sym.replace(/_\d+$/, ""); // n_kv_1 is n_kv of another kind of layer
const TERM_NAMES = { L: "layers", n_kv: "KV heads", d_head: "head_dim", d_k: "key", d_v: "value", d_latent: "latent", d_rope: "rotary key", b: "bytes", b_k: "bytes, K", b_v: "bytes, V", b_rope: "bytes, rotary", s: "scale bytes" };
const sub = (sym) => TERM_NAMES[plain(sym)] ?? sym.replaceAll("_", " ");

// Which GPUs a token lies on: all, or those of one attention group.
const whereOf = ({ gpus, adp }) => (gpus === 1 ? "the GPU" : adp === 1 ? `each of ${gpus} GPUs` : gpus === adp ? "the one GPU it lies on" : `each of ${gpus / adp} GPUs it lies on`);

export class Formula {
  constructor(open) {
    this.open = open;
    this.on = null; // the letters that are pointed at
    this.title = el("h2", "", "One token, whole model");
    this.prov = el("span", "provs");
    this.lines = el("div", "lines");
    this.said = el("p", "said");
    this.said.setAttribute("role", "status");
    this.notes = el("div", "small muted");
    this.scopes = el("div", "scopes");
    this.levers = el("div", "levers");
    this.root = el("section", "panel form", el("header", "head", this.title, this.prov), this.lines, this.said, this.notes, this.scopes, this.levers);
  }

  update(token, data) {
    this.words = data.words;
    this.prov.replaceChildren(modelled([data.model.own ? "from your config.json" : "from the model's config.json", "no device involved"]));
    this.terms = [];
    this.lines.replaceChildren(...token.lines.map((line, i) => this.line(line, token, i)));
    this.notes.replaceChildren(...token.model.notes.map((note) => el("p", "", `${note.charAt(0).toUpperCase()}${note.slice(1)}.`)));
    this.scopes.replaceChildren(
      this.scope("whole model", token.model),
      ...(token.layer ? [this.scope("one layer", token.layer)] : []),
      this.scope(whereOf(data.place), token.gpu),
      this.scope(`${plural(data.place.ctx, "token")}, whole model`, token.sequence),
      ...(token.state ? [this.scope("fixed state of a sequence", token.state)] : []),
    );
    this.levers.replaceChildren(...token.levers.map((lever) => this.lever(lever, data)));
    this.point(null);
  }

  line(line, token, i) {
    const f = el("div", "f");
    for (const piece of line.pieces) {
      if (piece.op) f.append(el("span", "op", piece.op));
      else f.append(...this.term(piece));
    }
    const last = i === token.lines.length - 1;
    const shown = last ? opens(token.model, this.open, amount(line.value, line.unit)) : el("b", "", amount(line.value, line.unit));
    f.append(el("span", `res${last ? " last" : ""}`, el("span", "eqs", el("span", "op", "= "), shown), el("small", "", last ? `a token = ${token.model.both}` : line.formula)));
    return f;
  }

  term(piece) {
    const out = [];
    if (piece.before) out.push(el("span", "op", piece.before));
    const name = piece.sym === "2" ? "K and V" : piece.sym ? sub(piece.sym) : "";
    const b = button("s", `${name || "value"}: ${piece.value}`, el("b", "", /^\d+$/.test(piece.value) ? num(Number(piece.value)) : piece.value), el("small", "", name));
    b.dataset.sym = plain(piece.sym);
    const tell = () => this.point([b.dataset.sym], this.describe(piece));
    b.onpointerenter = b.onfocus = tell;
    b.onclick = tell;
    b.onpointerleave = b.onblur = () => this.point(null);
    this.terms.push(b);
    out.push(b);
    if (piece.after) out.push(el("span", "op", piece.after));
    return out;
  }

  describe(piece) {
    const known = this.words.symbols[plain(piece.sym)];
    const start = piece.text ? `${piece.sym} = ${piece.value}: ${piece.text}.` : `${piece.value}.`;
    return known ? `${start} ${known}` : start;
  }

  scope(label, figure) {
    return el("div", "scope", el("span", "", label), opens(figure, this.open), el("small", "", figure.value >= 1000 ? figure.both : ""));
  }

  lever(lever, { words }) {
    const [title, body] = words.levers[`${lever.id}${lever.case ? `-${lever.case}` : ""}`] ?? words.levers[lever.id];
    const filled = body.replace(/\{(\w+)\}/g, (_, name) => (typeof lever[name] === "number" ? num2(lever[name]) : String(lever[name])));
    const b = button("lever", null, el("b", "", title), el("span", "", filled));
    const tell = () => this.point(lever.moves, `${title} moves ${this.moved(lever)}.`);
    b.onpointerenter = b.onfocus = b.onclick = tell;
    b.onpointerleave = b.onblur = () => this.point(null);
    return b;
  }

  moved(lever) {
    const here = [...new Set(this.terms.map((t) => t.dataset.sym))].filter((sym) => lever.moves.includes(sym));
    if (lever.id === "context") return lever.case === "window" ? "how many tokens a layer keeps, not what one token takes" : "how many tokens are kept, not what one token takes";
    return here.length ? here.join(" and ") : "no letter of this formula";
  }

  point(letters, words) {
    for (const t of this.terms) t.classList.toggle("on", Boolean(letters?.includes(t.dataset.sym)));
    text(this.said, words ?? "Point at a number to see what it is, or at a lever to see what it moves. Press a result to see how it is reached.");
    this.said.classList.toggle("hint", !words);
  }
}

const num2 = (v) => (Number.isInteger(v) ? num(v) : String(v));
