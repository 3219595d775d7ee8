// The whole instrument: what the controls say goes to Python, the figures that come back are drawn.
import { icon } from "../../run_player/js/icons.js";
import { el } from "../../run_player/js/util.js";
import { Opened } from "../../kv_sizing/js/opened.js";
import { Sizing } from "../../kv_sizing/js/sizing.js";
import { Answer } from "./answer.js";
import { Demands } from "./demands.js";
import { Frontier } from "./frontier.js";
import { Others } from "./others.js";
import { Rules } from "./rules.js";
import { Steps } from "./steps.js";

const REST_MS = 120; // long enough that a slider which is being dragged does not ask

export class Planner {
  // One change in flight at a time, the newest after it: as the KV sizing instrument has it.
  choose = Sizing.prototype.choose;
  send = Sizing.prototype.send;

  constructor(host) {
    this.host = host;
    this.seq = 0; // of the last commit
    this.waits = null; // a commit whose answer has not come: {seq, at}
    this.pending = null; // what to commit once it has
    const open = (figure, from) => this.opened.show(figure, from);
    const choose = (change) => this.choose(change);
    this.opened = new Opened();
    this.controls = new Demands(choose);
    this.parts = { answer: new Answer(open), steps: new Steps(open), others: new Others(choose), frontier: new Frontier(choose), advice: new Rules() };
    this.refused = el("p", "refused");
    this.refused.setAttribute("role", "alert");
    this.notes = el("div", "notes");
    const p = this.parts;
    this.below = el("div", "stack", p.answer.root, el("div", "pair", p.steps.root, el("div", "stack", p.frontier.root, p.advice.root)), p.others.root);
    this.root = el("section", "kv sizing planner", this.controls.root, this.refused, this.notes, this.below, this.opened.root);
    this.resize = new ResizeObserver(() => {
      cancelAnimationFrame(this.raf);
      this.raf = requestAnimationFrame(() => this.resized());
    });
    this.resize.observe(this.root);
  }

  dispose() {
    clearTimeout(this.timer);
    clearTimeout(this.later);
    cancelAnimationFrame(this.raf);
    this.resize.disconnect();
    this.opened.dispose();
  }

  update(component) {
    this.component = component;
    const { data } = component;
    if (this.host.firstElementChild !== this.root) this.host.replaceChildren(this.root);
    if (this.waits && data.seq >= this.waits.seq) this.waits = null;
    this.data = data;
    this.root.dataset.scale = data.present ? "present" : "";
    // A control that has moved on since the commit keeps where it stands.
    this.controls.update(data, { keep: this.pending !== null || data.seq < this.seq });
    this.refused.textContent = data.refused ?? "";
    this.refused.hidden = !data.refused;
    const text = JSON.stringify({ ...data, seq: 0 });
    if (text !== this.drawn) {
      this.drawn = text; // what is the same is not drawn again: it may have the focus
      this.draw();
    }
    if (this.pending && !this.waits) this.send();
    this.host.dataset.seq = String(data.seq);
  }

  draw() {
    const { data } = this;
    const u = this.measure();
    this.notes.replaceChildren(...data.model.warnings.map((w) => el("p", "warn", icon("warn"), el("span", "", w))));
    this.notes.hidden = data.model.warnings.length === 0;
    for (const [name, part] of Object.entries(this.parts)) {
      part.root.classList.toggle("stale", data[name] === null);
      if (data[name] !== null) part.update(data[name], data, u);
    }
    this.opened.refresh(data);
    this.rest();
  }

  // What was left out so that the answer comes at once: asked for when it is drawn and no hand moves.
  rest() {
    clearTimeout(this.later);
    if (this.data.frontier !== null) return;
    this.later = setTimeout(() => {
      if (this.pending || this.waits) this.rest();
      else if (this.data.frontier === null) this.component.setTriggerValue("rest", this.data.seq);
    }, REST_MS);
  }

  // Which layout the width asks for; returns the scale of the type.
  measure() {
    const u = Number(getComputedStyle(this.root).getPropertyValue("--scale")) || 1;
    this.width = this.root.clientWidth;
    this.root.classList.toggle("narrow", this.width / u < 620);
    this.root.classList.toggle("middle", this.width / u < 980);
    return u;
  }

  // Only what is drawn to the pixel is drawn again.
  resized() {
    if (!this.data || this.root.clientWidth === this.width) return;
    const u = this.measure();
    if (this.data.frontier) this.parts.frontier.update(this.data.frontier, this.data, u);
  }
}
