// The instrument: a format and a prompt go to Python, its bytes, errors and texts come back.
import { el } from "../../run_player/js/util.js";
import { Instrument } from "../../kv_sizing/js/instrument.js";
import { Bytes } from "./bytes.js";
import { FormatControls } from "./formatcontrols.js";
import { HeatPanel } from "./heatpanel.js";
import { Texts } from "./texts.js";

export class Quantise extends Instrument {
  constructor(host) {
    super(host, "kv sizing quant");
    const choose = (change) => this.outbox.put(change);
    const run = (prompt) => this.component.setTriggerValue("run", { prompt });
    this.controls = new FormatControls(choose, run);
    this.bytes = new Bytes(this.open);
    this.texts = new Texts();
    this.heat = new HeatPanel();
    this.root.append(this.controls.root, this.refused, el("div", "pair", this.bytes.root, this.texts.root), this.heat.root, this.opened.root);
  }

  resized() {
    this.draw();
  }

  draw() {
    const { data } = this;
    const u = this.measure();
    this.root.classList.toggle("wide", this.width / u >= 1080);
    this.bytes.update(data);
    this.texts.update(data);
    this.heat.update(data, u);
    this.opened.refresh(data);
  }
}
