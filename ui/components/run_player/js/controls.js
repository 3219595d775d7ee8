// The player bar: the same for every run.
import { icon } from "./icons.js";
import { KINDS, ANY, neighbour } from "./kinds.js";
import { msOf } from "./runinfo.js";
import { button, el, ms, num } from "./util.js";

const SPEEDS = [["0.5", "½×"], ["1", "1×"], ["2", "2×"], ["4", "4×"], ["8", "8×"], ["Infinity", "max"]];

const HELP = [
  ["Space", "play or pause"],
  ["← →", "one step back or on, also Page Up and Page Down"],
  ["Home End", "first and last step"],
  ["N P", "to the next and the previous event of the kind that is chosen, E is N; any notable one is a copy, a preemption, a fork, a split, an eviction, a wait or a refusal"],
  ["Tab", "into the pool; arrow keys then go from block to block, Enter asks a block why it is there"],
  ["+ − 0", "in a large pool: nearer, further away, the whole"],
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
    this.jump = make("jump", "Next notable event", "Next notable event  E", manual(() => player.jump(1)));
    this.back = make("back", "Previous notable event", "", manual(() => player.jump(-1)));
    this.kind = el("select", "speed kind");
    this.kind.setAttribute("aria-label", "Kind of event to jump to");
    this.kind.onchange = () => {
      player.chooseKind(this.kind.value);
      this.name();
    };
    this.speed = el("select", "speed");
    this.speed.setAttribute("aria-label", "Speed");
    for (const [v, t] of SPEEDS) this.speed.append(new Option(t, v, v === "1", v === "1"));
    this.speed.onchange = () => player.setSpeed(Number(this.speed.value));
    this.help = make("help", "Keys", "Which keys do what  ?", () => this.toggleHelp());
    this.help.setAttribute("aria-expanded", "false");
    this.help.classList.add("help-key");
    this.now = el("div", "now");
    this.root = el("div", "keysbox", el("div", "keys", this.first, this.prev, this.play, this.next, this.last, this.speed, player.chooseKind ? el("span", "kinds", this.back, this.kind, this.jump) : this.jump, this.help), this.now);
    this.sheet = el("dl", "help");
    this.sheet.hidden = true;
    for (const [k, what] of help) this.sheet.append(el("dt", "", ...k.split(" ").map((x) => el("kbd", "", x))), el("dd", "", what));
  }

  toggleHelp() {
    this.sheet.hidden = !this.sheet.hidden;
    this.help.setAttribute("aria-expanded", String(!this.sheet.hidden));
  }

  // Only the kinds that the run has, each with the number of its steps.
  choices(kinds, chosen) {
    const name = (key) => (key === ANY ? "Notable" : KINDS[key][0]);
    this.kind.replaceChildren(...[...kinds].map(([key, steps]) => new Option(`${name(key)} (${num(steps.length)})`, key, key === chosen, key === chosen)));
    this.kind.disabled = !kinds.size;
    this.name();
  }

  name() {
    const what = KINDS[this.kind.value]?.[0].toLowerCase() ?? "notable event";
    for (const [b, word, key] of [[this.jump, "Next", "N"], [this.back, "Previous", "P"]]) {
      b.setAttribute("aria-label", `${word} ${what}`);
      b.dataset.tip = `${word} ${what}  ${key}`;
    }
  }

  // steps: those with the chosen kind of event, where there is a choice.
  draw(k, last, tokens, timing, steps = null) {
    const parts = ["Step ", el("b", "", num(k)), ` of ${num(last)}, `, el("b", "", num(tokens)), tokens === 1 ? " token" : " tokens"];
    const took = msOf(timing);
    if (took !== null) parts.push(", ", el("b", "", ms(1000 * took)), " ms");
    this.now.replaceChildren(...parts);
    // Not `disabled`: a button that had the focus would lose it at the end of the run.
    const off = (b, yes) => b.setAttribute("aria-disabled", String(yes));
    for (const b of [this.first, this.prev]) off(b, k === 0);
    for (const b of [this.next, this.last]) off(b, k >= last);
    off(this.jump, steps ? neighbour(steps, k, 1) === null : k >= last);
    off(this.back, !steps || neighbour(steps, k, -1) === null);
  }

  playing(on) {
    this.play.replaceChildren(icon(on ? "pause" : "play"));
    this.play.setAttribute("aria-label", on ? "Pause" : "Play");
  }
}
