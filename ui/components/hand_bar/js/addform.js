// The form of a new request: what it asks, how long it may answer, and how often.
import { button, el } from "../../run_player/js/util.js";
import { asked } from "./reach.js";

const KINDS = [["prefix", "Begins like"], ["tokens", "Tokens"], ["text", "Text"]];

export class AddForm {
  constructor(onAdd, onClose) {
    this.kind = "prefix";
    this.onAdd = onAdd;
    this.seg = el("span", "seg");
    this.seg.setAttribute("role", "group");
    this.seg.setAttribute("aria-label", "What the prompt is");
    this.tabs = KINDS.map(([kind, word]) => {
      const b = button("", null, word);
      b.onclick = () => {
        this.kind = kind;
        this.show();
      };
      return b;
    });
    this.seg.append(...this.tabs);
    this.seq = el("select");
    this.seq.setAttribute("aria-label", "The sequence to begin like");
    this.shared = field("8");
    this.own = field("5");
    this.text = el("input", "text");
    this.text.maxLength = 2000;
    this.max = field("8");
    this.n = field("1");
    this.fields = {
      seq: labelled("sequence", this.seq),
      shared: labelled("tokens shared", this.shared),
      own: labelled("tokens of its own", this.own),
      text: labelled("prompt", this.text),
    };
    this.why = el("p", "why");
    this.why.setAttribute("role", "alert");
    const add = button("btn primary", null, "Add it");
    add.type = "submit";
    this.root = el("form", "add", this.seg, ...Object.values(this.fields), labelled("answer, at most", this.max), labelled("answers", this.n), add, this.why);
    this.root.hidden = true;
    this.root.noValidate = true;
    this.root.onsubmit = (e) => {
      e.preventDefault();
      this.submit();
    };
    this.root.onkeydown = (e) => {
      e.stopPropagation(); // what is typed here is no key of the player
      if (e.key === "Escape") onClose();
    };
    this.show();
  }

  show() {
    KINDS.forEach(([kind], i) => this.tabs[i].setAttribute("aria-pressed", String(kind === this.kind)));
    const shown = { prefix: ["seq", "shared", "own"], tokens: ["own"], text: ["text"] }[this.kind];
    for (const [name, node] of Object.entries(this.fields)) node.hidden = !shown.includes(name);
    this.why.textContent = "";
  }

  // texts: whether a text is a prompt here. A script of a model's tokens knows no text of one's own.
  draw(ids, texts) {
    this.tabs[KINDS.findIndex(([kind]) => kind === "text")].hidden = !texts;
    if (!texts && this.kind === "text") {
      this.kind = "prefix";
      this.show();
    }
    if ([...this.seq.options].map((o) => o.value).join() === ids.join()) return;
    const { value } = this.seq;
    this.seq.replaceChildren(...ids.map((id) => new Option(id, id)));
    if (ids.includes(value)) this.seq.value = value;
  }

  // As it opens: where nobody is alive, there is nobody to begin like.
  open() {
    if (this.kind === "prefix" && !this.seq.options.length) {
      this.kind = "tokens";
      this.show();
    }
    this.focus();
  }

  focus() {
    this.tabs[KINDS.findIndex(([kind]) => kind === this.kind)].focus();
  }

  submit() {
    const { kind } = this;
    const request = asked({ kind, text: this.text.value, own: this.own.value, shared: this.shared.value, seq: this.seq.value, max: this.max.value, n: this.n.value });
    this.why.textContent = request.why ?? "";
    if (!request.why) this.onAdd(request);
  }
}

function field(value) {
  const input = el("input", "num");
  input.inputMode = "numeric";
  input.value = value;
  return input;
}

function labelled(words, control) {
  return el("label", "", el("span", "", words), control);
}
