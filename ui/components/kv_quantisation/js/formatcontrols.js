// The controls: the cache's format, its scales, layers apart, and the prompt that is asked.
import { icon } from "../../run_player/js/icons.js";
import { button, el, num } from "../../run_player/js/util.js";
import { Controls } from "../../kv_sizing/js/controls.js";

export class FormatControls extends Controls {
  constructor(choose, run) {
    super(choose);
    this.ask = run;
    this.root.setAttribute("aria-label", "Format and prompt");
  }

  update(data, { keep }) {
    if (!this.made) this.make(data);
    this.running(data);
    if (keep) return;
    const { place } = data;
    for (const name of ["fmt", "scale", "cal", "to"]) this[name].value = place[name];
    this.cal.parentElement.hidden = place.scale === "per_token_head";
    this.to.parentElement.hidden = !place.apart;
    for (const option of this.to.options) option.disabled = option.value === place.fmt;
    this.apart.value = this.apart.defaultValue = place.apart;
    if (this.shown !== place.prompt) this.prompt.value = this.prompt.defaultValue = this.shown = place.prompt;
    this.count();
  }

  make({ options }) {
    this.made = true;
    this.fmt = this.select("KV cache in", "fmt", options.fmt);
    this.scale = this.select("A scale for", "scale", options.scale);
    this.cal = this.select("Scales calibrated", "cal", options.cal);
    this.apart = Object.assign(el("input", "text"), { type: "text", maxLength: 60, placeholder: "none, or 0-4,25-29", spellcheck: false, autocomplete: "off" });
    this.apart.onchange = () => this.layers(options.layers);
    this.field("Layers apart", this.apart);
    this.to = this.select("Those in", "to", options.to);
    this.example = this.select("Example", "example", [["", "Set the controls to …"], ...options.examples]);
    this.wrong = el("p", "small wrong");
    this.wrong.setAttribute("role", "alert");
    this.wrong.hidden = true;
    this.prompt = Object.assign(el("textarea", "ask"), { rows: 2, maxLength: options.most, spellcheck: false });
    this.prompt.oninput = () => this.count();
    this.prompt.onchange = () => this.choose({ prompt: this.prompt.value });
    this.left = el("span", "small muted");
    this.go = button("btn go", null, icon("play"), "");
    this.go.onclick = () => {
      if (this.go.getAttribute("aria-disabled") === "true") return;
      this.go.setAttribute("aria-disabled", "true");
      this.go.lastChild.textContent = "Running both …";
      this.ask(this.prompt.value);
    };
    this.said = el("p", "small");
    this.said.setAttribute("role", "status");
    const foot = el("div", "askrow", this.go, this.said, this.left);
    this.root.append(this.wrong, el("label", "f askbox", el("span", "", "The prompt, answered twice: with the model's own cache and with this one"), this.prompt), foot);
  }

  // Spans of layers, or nothing; what is neither goes back to what held.
  layers(most) {
    const text = this.apart.value.replace(/\s+/g, "");
    const fits = text === "" || layersOf(text, most) !== null;
    this.wrong.hidden = fits;
    this.wrong.textContent = fits ? "" : `Layers are numbers from 0 to ${most - 1} and spans of them, as in 0-4,25-29.`;
    if (fits) this.choose({ apart: text });
  }

  count() {
    const { maxLength, value } = this.prompt;
    this.left.textContent = value.length > maxLength * 0.7 ? `${num(maxLength - value.length)} characters left` : "";
  }

  running({ live }) {
    this.go.removeAttribute("aria-disabled");
    this.go.lastChild.textContent = live.has ? "Run both again" : "Run both here, now";
    this.go.hidden = !live.can;
    this.said.textContent = live.said || (live.can ? "" : "No engine answers here now: what was recorded stands in, for the page's own prompt.");
  }
}

// "0-4,25-29" as layers; null where it is no such list.
export function layersOf(text, most) {
  const out = [];
  for (const piece of text.split(",")) {
    const found = /^(\d{1,3})(?:-(\d{1,3}))?$/.exec(piece);
    if (!found) return null;
    const [first, last] = [Number(found[1]), Number(found[2] ?? found[1])];
    if (first > last || last >= most) return null;
    for (let i = first; i <= last; i++) out.push(i);
  }
  return out;
}
