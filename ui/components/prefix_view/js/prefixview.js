// The instrument: one list of requests, run with a hash cache and with a radix tree, at the same step
// side by side. It stands in for a player towards the player's bar, timeline and keys.
import { readColors } from "../../run_player/js/canvas.js";
import { Controls } from "../../run_player/js/controls.js";
import { headline } from "../../run_player/js/events.js";
import { handLink } from "../../run_player/js/handlink.js";
import { icon } from "../../run_player/js/icons.js";
import { Keyboard } from "../../run_player/js/keyboard.js";
import { ANY, kindsOf } from "../../run_player/js/kinds.js";
import { openRun } from "../../run_player/js/packing.js";
import { Playback } from "../../run_player/js/playback.js";
import { Cursor } from "../../run_player/js/reducer.js";
import { RunInfo } from "../../run_player/js/runinfo.js";
import { Timeline } from "../../run_player/js/timeline.js";
import { button, clamp, el } from "../../run_player/js/util.js";
import { StepView } from "../../run_player/js/view.js";
import { ChainPane } from "./chain.js";
import { exportMenu, Facts } from "./facts.js";
import { CARD, keyOrder, levelFor, NODE } from "./layout.js";
import { collect, lookAt, reader } from "./looks.js";
import { RadixPane } from "./radix.js";
import { Strip } from "./strip.js";
import { Why } from "./why.js";

const COMMIT_MS = 500;
const SIDE_NAMES = ["Hash chain", "Radix tree"];
const SIDE = ["chain", "tree"];

// "chain:7", "tree:7", "node:2" ↔ what is picked
export function parsePick(text) {
  const found = /^(chain|tree|node):(\d{1,7})$/.exec(text ?? "");
  if (!found) return null;
  const n = Number(found[2]);
  return found[1] === "node" ? { side: 1, node: n } : { side: SIDE.indexOf(found[1]), b: n };
}

export const pickText = (p) => (!p ? null : p.node !== undefined ? `node:${p.node}` : `${SIDE[p.side]}:${p.b}`);

const KEYS = [
  ["Space", "play or pause"],
  ["← →", "one step back or on, also Page Up and Page Down"],
  ["Home End", "first and last step"],
  ["N P", "to the next and the previous event of the kind that is chosen"],
  ["Tab", "into the prompt, a cache or the order of eviction; arrow keys then go from block to block, Enter asks one why it is there"],
  ["?", "this list"],
];

export class PrefixView extends Playback {
  constructor(host) {
    super();
    this.host = host;
    this.loading = true; // until both runs have been opened
    this.shown = []; // nothing here follows a step but `draw`
    this.pick = null;
    this.request = null;
    this.kind = ANY;
    this.kinds = new Map();
    this.present = false;
    this.sheet = { open: false }; // the keys ask a player for one; there is none here
    this.title = el("h2", "ttl");
    this.strip = new Strip(this);
    this.panes = [new ChainPane(this), new RadixPane(this)];
    this.why = new Why(this);
    this.facts = new Facts(this);
    this.timeline = new Timeline(this);
    this.controls = new Controls(this, KEYS);
    this.moment = el("div", "moment");
    this.tipNode = el("div", "tip");
    this.tipNode.setAttribute("role", "tooltip");
    this.live = el("div", "sr");
    this.live.setAttribute("aria-live", "polite");
    this.copy = button("btn quiet", "Copy link", icon("link"), (this.copyWord = el("span", "w", "Copy link")));
    this.copy.onclick = () => this.copyLink();
    this.presentButton = button("btn quiet", "Present", icon("present"), (this.presentWord = el("span", "w", "Present")));
    this.presentButton.onclick = () => this.setPresent(!this.present, true);
    this.field = el("input", "linkfield");
    this.field.readOnly = true;
    this.field.hidden = true;
    this.field.setAttribute("aria-label", "Link to this step");
    const bar = el("header", "bar", this.title, el("span", "actions", ...exportMenu(this), this.copy, this.presentButton), this.field);
    const foot = el("div", "player", this.controls.root, el("div", "tracks", this.timeline.root), this.controls.sheet);
    this.root = el("section", "kv prefix", el("div", "panel", bar, this.strip.root, this.moment, el("div", "halves", ...this.panes.map((p) => p.root)), this.why.root, foot), this.facts.root);
    this.root.setAttribute("aria-label", "Hash chain and radix tree");
    this.keyboard = new Keyboard(this);
    this.listen();
  }

  listen() {
    this.host.addEventListener("pointerdown", () => this.keyboard.claim());
    for (const type of ["pointerover", "focusin"]) this.host.addEventListener(type, (e) => this.point(e));
    for (const type of ["pointerleave", "focusout"]) this.host.addEventListener(type, () => this.point(null));
    this.resize = new ResizeObserver(() => {
      cancelAnimationFrame(this.raf);
      this.raf = requestAnimationFrame(() => {
        if (!this.sides || !this.root.clientWidth) return;
        this.measure();
        this.timeline.draw(this.k);
      });
    });
    this.resize.observe(this.root);
  }

  dispose() {
    this.pause();
    clearTimeout(this.commitTimer);
    cancelAnimationFrame(this.raf);
    for (const p of this.panes) cancelAnimationFrame(p.after);
    this.gone = true;
    this.resize.disconnect();
    this.keyboard.dispose();
  }

  measure() {
    this.size = { track: this.timeline.root.clientWidth, trackHeight: this.timeline.root.clientHeight };
  }

  update({ data, setStateValue, setTriggerValue }) {
    const before = this.data ?? {};
    this.data = data;
    this.setStateValue = setStateValue;
    this.setTriggerValue = setTriggerValue;
    if (data.present !== before.present) this.setPresent(Boolean(data.present), false);
    if (data.id !== before.id) this.open(data);
    else if (this.sides) {
      if (["step", "pick", "follow"].some((name) => data[name] !== before[name])) this.stand(data);
      this.refresh();
    }
  }

  // The last picture stays until both runs have been opened.
  async open(data) {
    const runs = await Promise.all([data.chain, data.radix].map(openRun));
    if (this.gone || this.data.id !== data.id) return;
    // The outline of the page stays until there is a picture.
    if (!this.root.isConnected) this.host.replaceChildren(el("div", "wrap", this.root), this.live, this.tipNode);
    this.load(this.data, runs);
    this.loading = false;
    this.refresh();
  }

  refresh() {
    this.colors = readColors(this.root);
    this.timeline.drawn = null;
    this.measure();
    this.draw();
  }

  // Where Python says that the reader stands: on arrival, and when they are sent somewhere.
  stand(data) {
    this.k = clamp(Number.isInteger(data.step) ? data.step : 0, 0, Math.max(0, this.last));
    this.pick = parsePick(data.pick);
    this.request = this.info.index.has(data.follow) ? data.follow : null;
  }

  load(data, runs) {
    this.pause();
    this.sv = null;
    this.runs = runs;
    this.sides = runs.map((run, i) => {
      const info = new RunInfo(run);
      return { which: i, name: SIDE_NAMES[i], run, info, cursor: new Cursor(run), order: keyOrder(run), read: reader(info), ...collect(run, data.looks[i]) };
    });
    this.front = this.sides[1];
    this.run = this.front.run;
    this.info = this.front.info;
    this.last = Math.max(...this.sides.map((s) => s.run.steps.length)) - 1;
    this.stand(data);
    this.title.textContent = data.title;
    const width = this.panes[0].area.clientWidth || 520;
    const [chain, tree] = this.sides;
    this.panes[0].load(chain, levelFor(chain.size.cols, chain.size.blocks, width, CARD, [40, 260]));
    this.panes[1].load(tree, levelFor(tree.size.depths, tree.size.nodes, width, NODE, [24, 120], 3.2));
    this.strip.load(this.info);
    this.empty = this.last < 0;
    this.timeline.load(this.info, this.last + 1);
    this.timeline.name(null);
    this.kinds = kindsOf(runs);
    if (!this.kinds.has(this.kind)) this.kind = ANY;
    this.controls.choices(this.kinds, this.kind);
  }

  draw() {
    for (const s of this.sides) {
      const k = Math.min(this.k, s.run.steps.length - 1);
      s.sv = new StepView(s.info, s.cursor.seek(k), s.run.steps[k]);
    }
    this.sv = this.front.sv;
    this.strip.draw(this.k, this.front, this.request);
    const look = lookAt(this.front.looks, this.k, this.request);
    const path = new Set((look?.keys ?? []).filter(Boolean));
    for (const p of this.panes) p.draw(path);
    this.why.draw(this.sides[this.pick?.side ?? 1], this.pick);
    this.drawMoment();
    this.timeline.draw(this.k);
    this.controls.draw(this.k, this.last, this.sv.tokensInStep, this.sv.step.timing, this.kinds.get(this.kind) ?? []);
    this.facts.draw();
  }

  drawMoment() {
    const s = this.front;
    const h = headline(s.sv.step, s.cursor.notes, s.info);
    const split = h.event?.type === "node_split";
    this.moment.className = `moment${split ? " cow" : ""}`;
    this.moment.replaceChildren(icon(h.icon), el("span", "k", h.title), el("span", "words", h.text));
    this.headlineText = `Step ${this.k}. ${h.title}. ${h.text}`;
  }

  // --- what the bar, the timeline and the keys ask for ------------------------------------------
  showOf() {}

  chooseKind(kind) {
    this.kind = kind;
    this.timeline.drawn = null;
    this.draw();
  }

  say(words) {
    this.live.textContent = words;
  }

  // Python hears where the reader rests: the step, what is picked, whose prompt.
  commit() {
    clearTimeout(this.commitTimer);
    this.commitTimer = setTimeout(() => {
      if (this.stop) return;
      const rest = { id: this.data.id, step: this.k, pick: pickText(this.pick), follow: this.request };
      const text = JSON.stringify(rest);
      if (text === this.committed) return;
      this.committed = text;
      this.setStateValue?.("place", rest);
    }, COMMIT_MS);
  }

  // --- picking and pointing ---------------------------------------------------------------------
  pickBlock(side, b) {
    this.choose({ side: side.which, b });
  }

  pickNode(side, node) {
    this.choose({ side: side.which, node });
  }

  choose(pick) {
    this.pick = pick;
    this.pause();
    this.draw();
    this.live.textContent = this.why.root.textContent;
    this.commit();
  }

  isPicked(side, b) {
    return this.pick?.side === side.which && this.pick.b === b;
  }

  isPickedNode(side, id) {
    return this.pick?.side === side.which && this.pick.node === id;
  }

  pickedSig(side) {
    return this.pick?.side === side.which ? pickText(this.pick) : "";
  }

  followRequest(id) {
    this.request = id;
    const look = id && this.front.looks.find((l) => l.request === id);
    this.pause();
    if (look && look.step > this.k) this.k = look.step;
    this.draw();
    this.commit();
  }

  // The same prefix lights up in the strip, in both caches and in both orders of eviction.
  point(e) {
    for (const node of this.root.querySelectorAll(".lit")) node.classList.remove("lit");
    const at = e?.target?.closest?.("[data-k], [data-ks], [data-tip]");
    if (!at) return this.tip(null);
    const keys = at.dataset.k ? [at.dataset.k] : (at.dataset.ks ?? "").split(" ").filter(Boolean);
    for (const key of keys) for (const node of this.root.querySelectorAll(`[data-k="${CSS.escape(key)}"]`)) node.classList.add("lit");
    if (at.dataset.ks) at.classList.add("lit");
    this.tip(at.dataset.tip ?? null, at.dataset.tip ? at.getBoundingClientRect() : null);
  }

  tip(words, at) {
    this.tipNode.classList.toggle("on", Boolean(words));
    if (!words) return;
    this.tipNode.textContent = words;
    const { offsetWidth: w, offsetHeight: h } = this.tipNode;
    this.tipNode.style.left = `${clamp(at.left + at.width / 2 - w / 2, 8, Math.max(8, window.innerWidth - w - 8))}px`;
    this.tipNode.style.top = `${at.top > h + 14 ? at.top - h - 8 : at.bottom + 8}px`;
  }

  // --- the link, the projector -------------------------------------------------------------------
  url() {
    const base = new URL(typeof this.data.link === "string" ? `?${this.data.link}` : window.location.href, window.location.href);
    const rest = { step: this.k, pick: pickText(this.pick), follow: this.request };
    for (const [name, value] of Object.entries(rest)) if (value !== null) base.searchParams.set(name, String(value));
    base.hash = "";
    return base.toString();
  }

  copyLink() {
    return handLink(this.url(), { word: this.copyWord, field: this.field, say: (words) => (this.live.textContent = words) });
  }

  setPresent(on, byUser) {
    this.present = on;
    this.host.dataset.scale = this.root.dataset.scale = on ? "present" : "normal";
    this.presentWord.textContent = on ? "Leave" : "Present";
    this.presentButton.setAttribute("aria-label", on ? "Leave presenter mode" : "Present");
    this.presentButton.setAttribute("aria-pressed", String(on));
    if (!byUser) return;
    this.colors = readColors(this.root);
    this.measure();
    this.draw();
    this.setTriggerValue?.("present", on);
  }
}
