// The whole instrument: the controls, and the panels of what follows from them.
import { el } from "../../run_player/js/util.js";
import { Balance } from "./balance.js";
import { Check } from "./check.js";
import { Controls } from "./controls.js";
import { Formula } from "./formula.js";
import { Growth } from "./growth.js";
import { Instrument } from "./instrument.js";
import { Memory } from "./memory.js";
import { Paging } from "./paging.js";
import { Ways } from "./ways.js";

export class Sizing extends Instrument {
  constructor(host) {
    super(host, "kv sizing");
    const { open } = this;
    const choose = (change) => this.outbox.put(change);
    this.controls = new Controls(choose);
    this.parts = {
      token: new Formula(open),
      memory: new Memory(open, choose),
      growth: new Growth(choose),
      balance: new Balance(),
      ways: new Ways(open),
      paging: new Paging(open, choose),
      check: new Check(open, (what) => this.component.setTriggerValue("allocate", what)),
    };
    const p = this.parts;
    this.below = el("div", "stack", p.token.root, p.memory.root, el("div", "pair", p.growth.root, p.balance.root), p.ways.root, el("div", "pair", p.paging.root, p.check.root));
    this.root.append(this.controls.root, this.refused, this.notes, this.below, this.opened.root);
  }

  draw() {
    const { data } = this;
    const u = this.measure();
    this.warn([...data.model.warnings, data.unlinked, data.memory_why].filter(Boolean));
    for (const [name, part] of Object.entries(this.parts)) {
      const given = data[name];
      part.root.hidden = given === null || given === undefined;
      if (given) part.update(given, data, u);
    }
    this.opened.refresh(data);
  }

  // Only what is drawn to the pixel is drawn again.
  resized() {
    const { data } = this;
    const u = this.measure();
    for (const name of ["memory", "growth", "balance"]) if (data[name]) this.parts[name].update(data[name], data, u);
  }
}
