// The player bar: the same for every run.
import { icon } from "./icons.js";
import { button, el, ms, num } from "./util.js";

const SPEEDS = [["0.5", "½×"], ["1", "1×"], ["2", "2×"], ["4", "4×"], ["8", "8×"]];

const HELP = [
  ["Space", "play or pause"],
  ["← →", "one step back or on, also Page Up and Page Down"],
  ["Home End", "first and last step"],
  ["E", "to the next notable event: a copy, a preemption, a fork, an eviction, a wait, a refusal"],
  ["Tab", "into the pool; arrow keys then go from block to block, Enter asks a block why it is there"],
  ["?", "this list"],
];

export class Controls {
  // help: what the keys do, where it is another list than the run player's
  constructor(player, help = HELP) {
    this.player = player;
    const make = (name, label, tip, act) => {
      const b = button("btn icon", label, icon(name));
      b.dataset.tip = tip;
      b.onclick = act;
      return b;
    };
    const manual = (f) => () => {
      player.pause();
      f();
      player.commit();
    };
    this.first = make("first", "First step", "First step  Home", manual(() => player.go(0)));
    this.prev = make("prev", "Step back", "Step back  ←", manual(() => player.go(player.k - 1)));
    this.play = make("play", "Play", "Play or pause  Space", () => player.toggle());
    this.play.classList.add("play");
    this.next = make("next", "Step on", "Step on  →", manual(() => player.go(player.k + 1)));
    this.last = make("last", "Last step", "Last step  End", manual(() => player.go(player.last)));
    this.jump = make("jump", "Next notable event", "Next notable event  E", manual(() => player.jump()));
    this.speed = el("select", "speed");
    this.speed.setAttribute("aria-label", "Speed");
    for (const [v, t] of SPEEDS) this.speed.append(new Option(t, v, v === "1", v === "1"));
    this.speed.onchange = () => player.setSpeed(Number(this.speed.value));
    this.help = make("help", "Keys", "Which keys do what  ?", () => this.toggleHelp());
    this.help.setAttribute("aria-expanded", "false");
    this.now = el("div", "now");
    this.root = el("div", "keysbox", el("div", "keys", this.first, this.prev, this.play, this.next, this.last, this.jump, this.speed, this.help), this.now);
    this.sheet = el("dl", "help");
    this.sheet.hidden = true;
    for (const [k, what] of help) this.sheet.append(el("dt", "", ...k.split(" ").map((x) => el("kbd", "", x))), el("dd", "", what));
  }

  toggleHelp() {
    this.sheet.hidden = !this.sheet.hidden;
    this.help.setAttribute("aria-expanded", String(!this.sheet.hidden));
  }

  draw(k, last, tokens, timing) {
    const parts = ["Step ", el("b", "", num(k)), ` of ${num(last)}, `, el("b", "", num(tokens)), tokens === 1 ? " token" : " tokens"];
    const us = (timing?.forward_us ?? 0) + (timing?.sample_us ?? 0);
    if (us > 0) parts.push(", ", el("b", "", ms(us + (timing.schedule_us ?? 0))), " ms");
    this.now.replaceChildren(...parts);
    // Not `disabled`: a button that had the focus would lose it at the end of the run.
    for (const b of [this.first, this.prev]) b.setAttribute("aria-disabled", String(k === 0));
    for (const b of [this.next, this.last, this.jump]) b.setAttribute("aria-disabled", String(k === last));
  }

  playing(on) {
    this.play.replaceChildren(icon(on ? "pause" : "play"));
    this.play.setAttribute("aria-label", on ? "Pause" : "Play");
  }
}
