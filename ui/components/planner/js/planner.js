// The whole instrument: the controls, and the panels of what follows from them.
import { el } from "../../run_player/js/util.js";
import { Instrument } from "../../kv_sizing/js/instrument.js";
import { Answer } from "./answer.js";
import { Demands } from "./demands.js";
import { Frontier } from "./frontier.js";
import { Others } from "./others.js";
import { Rules } from "./rules.js";
import { Steps } from "./steps.js";

const REST_MS = 120; // long enough that a slider which is being dragged does not ask

export class Planner extends Instrument {
  constructor(host) {
    super(host, "kv sizing planner");
    const { open } = this;
    const choose = (change) => this.outbox.put(change);
    this.controls = new Demands(choose);
    this.parts = { answer: new Answer(open), steps: new Steps(open), others: new Others(choose), frontier: new Frontier(choose), advice: new Rules() };
    const p = this.parts;
    this.below = el("div", "stack", p.answer.root, el("div", "pair", p.steps.root, el("div", "stack", p.frontier.root, p.advice.root)), p.others.root);
    this.root.append(this.controls.root, this.refused, this.notes, this.below, this.opened.root);
  }

  dispose() {
    clearTimeout(this.later);
    super.dispose();
  }

  draw() {
    const { data } = this;
    const u = this.measure();
    this.warn(data.model.warnings);
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
      if (this.outbox.busy) this.rest();
      else if (this.data.frontier === null) this.component.setTriggerValue("rest", this.data.seq);
    }, REST_MS);
  }

  // Only what is drawn to the pixel is drawn again.
  resized() {
    const u = this.measure();
    if (this.data.frontier) this.parts.frontier.update(this.data.frontier, this.data, u);
  }
}
