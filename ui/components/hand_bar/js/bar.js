// Add, fork, finish, cancel by hand: a row beside the player. It hears from the player at which
// step the reader stands, and tells Python what is to be done after that step.
//   data: {id, at, spans, refused, forks, text, undo, said, turn, chosen, present}
import { button, el } from "../../run_player/js/util.js";
import { icon } from "../../run_player/js/icons.js";
import { AddForm } from "./addform.js";
import { aliveAt, whyNot } from "./reach.js";

const ACTIONS = [
  ["fork", "F", "Fork", "fork", "A copy of the sequence from the next step on, with all of its blocks shared"],
  ["finish", "D", "Finish", "flag", "Its next token is a stop token"],
  ["cancel", "X", "Cancel", "close", "Its request ends before the next step; its blocks are free in it"],
];
const SETTLED = 650; // ms after which the player has told Python of its step: see COMMIT_AFTER there
const FIELDS = /^(INPUT|SELECT|TEXTAREA)$/;

export class HandBar {
  constructor(host) {
    this.host = host;
    this.k = 0;
    this.chosen = null;
    this.title = el("b", "ttl", "By hand");
    this.when = el("span", "when");
    this.pick = el("select", "pick");
    this.pick.setAttribute("aria-label", "The sequence to act on");
    this.pick.onchange = () => {
      this.chosen = this.pick.value;
      this.draw();
    };
    this.buttons = new Map();
    for (const [kind, key, word, glyph, tip] of ACTIONS) this.make(kind, key, word, glyph, tip, () => this.act(kind));
    this.make("add", "A", "Add a request", "plus", "It arrives in the next step", () => this.toggleForm());
    this.make("undo", "Z", "Undo", "prev", "Take back the last action", () => this.act("undo"));
    this.form = new AddForm((request) => this.send({ kind: "add", ...request }), () => this.toggleForm(false));
    this.said = el("p", "said");
    this.said.setAttribute("role", "status");
    const b = (kind) => this.buttons.get(kind).node;
    const row = el("div", "row", this.title, this.when, this.pick, b("fork"), b("finish"), b("cancel"), el("i", "gap"), b("add"), b("undo"));
    this.root = el("section", "kv hand panel", row, this.form.root, this.said);
    this.root.setAttribute("aria-label", "By hand");
    host.replaceChildren(this.root);
    this.onStep = (e) => this.stand(e.detail.step);
    this.onKey = (e) => this.key(e);
    document.addEventListener("kv-step", this.onStep);
    document.addEventListener("keydown", this.onKey, true); // before the player's own keys
  }

  make(kind, key, word, glyph, tip, act) {
    const node = button("btn", null, icon(glyph), el("span", "", word), el("kbd", "", key));
    node.setAttribute("aria-keyshortcuts", key.toLowerCase());
    node.onclick = () => node.getAttribute("aria-disabled") !== "true" && act();
    this.buttons.set(kind, { node, key: key.toLowerCase(), tip });
  }

  dispose() {
    clearTimeout(this.timer);
    document.removeEventListener("kv-step", this.onStep);
    document.removeEventListener("keydown", this.onKey, true);
  }

  update(data, setTriggerValue) {
    const before = this.data ?? {};
    this.data = data;
    this.setTriggerValue = setTriggerValue;
    this.host.dataset.scale = data.present ? "present" : "normal";
    if (data.id !== before.id || data.at !== before.at) this.k = data.at;
    if (data.id !== before.id) {
      this.busy = false;
      if (before.id !== undefined) this.toggleForm(false);
      if (data.chosen) this.chosen = data.chosen;
    }
    if (data.said !== before.said || data.turn !== before.turn) {
      this.busy = false;
      this.said.textContent = data.said ?? "";
    }
    if (data.refused) this.said.textContent = data.refused;
    this.draw();
  }

  stand(step) {
    if (step === this.k) return;
    this.k = step;
    this.stepped = performance.now();
    this.draw();
  }

  get span() {
    return this.there.find((s) => s.seq === this.chosen) ?? this.there[0];
  }

  draw() {
    const { data, k } = this;
    this.there = aliveAt(data.spans, k);
    const ids = this.there.map((s) => s.seq);
    if ([...this.pick.options].map((o) => o.value).join() !== ids.join()) this.pick.replaceChildren(...ids.map((id) => new Option(id, id)));
    this.pick.hidden = ids.length === 0;
    if (this.span) this.pick.value = this.span.seq;
    this.when.textContent = `after step ${k}`;
    for (const [kind, { node, tip }] of this.buttons) {
      const why = kind === "undo" ? (data.undo ? null : "Nothing was done by hand yet.") : whyNot(kind, this.span, k, data);
      node.setAttribute("aria-disabled", String(why !== null || Boolean(this.busy)));
      node.title = why ?? tip;
    }
    this.form.draw(ids, data.text);
  }

  toggleForm(open = this.form.root.hidden) {
    this.form.root.hidden = !open;
    this.buttons.get("add").node.setAttribute("aria-expanded", String(open));
    if (open) this.form.open();
  }

  act(kind) {
    this.send(kind === "undo" ? { kind } : { kind, seq: this.span.seq });
  }

  // One action at a time: the next one is meant for the run that this one makes.
  send(action) {
    if (this.busy) return;
    this.busy = true;
    this.draw();
    // The player's own word of the step comes first, or it would overwrite the step to go to.
    const told = { ...action, step: this.k, run: this.data.id };
    const wait = Math.max(0, (this.stepped ?? 0) + SETTLED - performance.now());
    this.timer = setTimeout(() => this.setTriggerValue("act", told), wait);
  }

  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || e.isComposing || e.defaultPrevented) return;
    const at = e.composedPath()[0];
    if (FIELDS.test(at.tagName ?? "") || at.isContentEditable) return;
    if (!this.root.checkVisibility() || document.querySelector('[role="dialog"], [role="listbox"]')) return;
    for (const { node, key } of this.buttons.values()) {
      if (e.key.toLowerCase() !== key || node.getAttribute("aria-disabled") === "true") continue;
      e.preventDefault();
      e.stopPropagation();
      node.click();
    }
  }
}
