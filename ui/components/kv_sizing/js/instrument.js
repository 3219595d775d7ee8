// What the instruments of numbers have in common: what the controls say goes to Python, the figures
// that come back are drawn, and what is the same is not drawn again.
import { icon } from "../../run_player/js/icons.js";
import { el } from "../../run_player/js/util.js";
import { Outbox } from "../../roofline/js/outbox.js";
import { Opened } from "./opened.js";

export class Instrument {
  // A subclass puts its panels into `root`, has `controls`, and draws by `draw` and `resized`.
  constructor(host, cls) {
    this.host = host;
    this.outbox = new Outbox((what) => this.component.setStateValue("choice", what));
    this.opened = new Opened();
    this.open = (figure, from) => this.opened.show(figure, from);
    this.refused = el("p", "refused");
    this.refused.setAttribute("role", "alert");
    this.notes = el("div", "notes");
    this.root = el("section", cls);
    this.resize = new ResizeObserver(() => {
      cancelAnimationFrame(this.raf);
      this.raf = requestAnimationFrame(() => {
        if (this.data && this.root.clientWidth !== this.width) this.resized();
      });
    });
    this.resize.observe(this.root);
  }

  dispose() {
    this.outbox.dispose();
    cancelAnimationFrame(this.raf);
    this.resize.disconnect();
    this.opened.dispose();
  }

  update(component) {
    this.component = component;
    const { data } = component;
    if (this.host.firstElementChild !== this.root) this.host.replaceChildren(this.root);
    const moved = this.outbox.answered(data.seq); // what has moved on since stays where it stands
    const before = this.data;
    this.data = data;
    this.root.dataset.scale = data.present ? "present" : "";
    this.controls.update(data, { keep: moved });
    this.refused.textContent = data.refused ?? "";
    this.refused.hidden = !data.refused;
    this.received(before, moved);
    const text = JSON.stringify({ ...data, ...this.undrawn(data) });
    if (text !== this.drawn) {
      this.drawn = text; // what is the same is not drawn again: it may have the focus
      this.draw();
    }
    this.host.dataset.seq = String(data.seq);
  }

  // New data, before they are drawn. moved: the reader has moved on since they were asked for
  received() {}

  // What may differ in data that look the same.
  undrawn() {
    return { seq: 0 };
  }

  warn(lines) {
    this.notes.replaceChildren(...lines.map((text) => el("p", "warn", icon("warn"), el("span", "", text))));
    this.notes.hidden = lines.length === 0;
  }

  // Which layout the width asks for; returns the scale of the type.
  measure() {
    const u = Number(getComputedStyle(this.root).getPropertyValue("--scale")) || 1;
    this.width = this.root.clientWidth;
    this.root.classList.toggle("narrow", this.width / u < 620);
    this.root.classList.toggle("middle", this.width / u < 980);
    return u;
  }
}
