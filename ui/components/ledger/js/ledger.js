// The claims ledger: filters, a list of 25 at a time, the open claim beside it.
import { icon } from "../../run_player/js/icons.js";
import { button, clamp, el, text } from "../../run_player/js/util.js";
import { Filters } from "./filters.js";
import { ClaimList } from "./list.js";
import { claimPanel } from "./panel.js";
import { NO_ANSWERS, PAGE, VOTES, listed, matches, pages, sees, span, verdictWords } from "./rows.js";
import { Tally } from "./tally.js";

const ANSWERS = Symbol.for("kv-scope.ledger.answers");
const COMMIT_MS = 400;
const NARROW = 760;

export class Ledger {
  constructor(host) {
    this.host = host;
    this.details = new Map();
    this.answers = NO_ANSWERS;
    this.page = 0;
    this.onAnswers = () => this.take(window[ANSWERS]);
    window.addEventListener("kv-ledger-answers", this.onAnswers);
    this.sizes = new ResizeObserver(([entry]) => this.host.classList.toggle("narrow", entry.contentRect.width < NARROW));
    this.sizes.observe(host);
  }

  dispose() {
    clearTimeout(this.timer);
    window.removeEventListener("kv-ledger-answers", this.onAnswers);
    this.sizes.disconnect();
  }

  update({ data, setStateValue, setTriggerValue }) {
    this.setStateValue = setStateValue;
    this.setTriggerValue = setTriggerValue;
    const first = !this.data;
    this.data = data;
    if (data.present) this.host.dataset.scale = "present";
    else delete this.host.dataset.scale;
    if (!first) return;
    this.byId = new Map(data.rows.map((row) => [row.id, row]));
    const { claim, show, ...place } = data.place;
    this.place = place;
    this.open = claim ?? this.firstToVote();
    this.build();
    this.turnTo(this.open);
    this.draw();
    this.list.bring(this.open);
    if (window[ANSWERS]) this.take(window[ANSWERS]);
  }

  // Where nobody has chosen and there is room beside the list, something to vote on stands open.
  firstToVote() {
    if (this.host.clientWidth < NARROW) return null;
    return this.data.rows.find((row) => !row.lost && matches(row, this.place, this.answers))?.id ?? null;
  }

  build() {
    this.filters = new Filters(this.data, { change: (name, value) => this.change(name, value), all: (on) => this.setTriggerValue("all", on) });
    this.tally = new Tally();
    this.list = new ClaimList({ open: (id) => this.show(id), key: (event, id) => this.onKey(event, id) });
    this.panel = el("section", "opened");
    this.panel.setAttribute("aria-label", "The open claim");
    this.panel.onkeydown = (event) => this.onPanelKey(event);
    this.before = button("btn icon", "Earlier claims", icon("prev"));
    this.after = button("btn icon", "Later claims", icon("next"));
    this.before.onclick = () => this.turn(-1);
    this.after.onclick = () => this.turn(1);
    this.count = el("span", "count");
    this.live = el("p", "sr");
    this.live.setAttribute("role", "status");
    const nav = el("div", "pager", this.count, this.before, this.after);
    this.nothing = el("p", "nothing muted", "No claim is like that. Take a filter away.");
    const left = el("div", "left", nav, this.list.root, this.nothing);
    this.body = el("div", "body", left, this.panel);
    this.root = el("section", "kv ledger", this.filters.root, this.tally.root, this.body, this.live);
    this.host.replaceChildren(this.root);
  }

  // Everything of which a part may have changed.
  draw() {
    const { data, answers, place } = this;
    this.shown = listed(data.rows, place, answers);
    this.page = clamp(this.page, 0, pages(this.shown.length) - 1);
    const from = this.page * PAGE;
    this.list.draw(this.shown.slice(from, from + PAGE), { answers, open: this.open, topics: data.topics, sources: data.sources });
    this.list.root.hidden = !this.shown.length;
    this.nothing.hidden = Boolean(this.shown.length);
    text(this.count, span(this.shown.length, this.page));
    this.before.setAttribute("aria-disabled", String(this.page === 0));
    this.after.setAttribute("aria-disabled", String(this.page >= pages(this.shown.length) - 1));
    this.filters.set(place, answers.all);
    this.tally.set(answers.tally);
    this.drawPanel();
  }

  drawPanel() {
    const row = this.byId.get(this.open);
    this.root.classList.toggle("one", Boolean(row));
    if (!row) {
      this.panel.replaceChildren(el("p", "none muted", "Open a claim to vote on it."));
      this.drawn = null;
      return;
    }
    const detail = sees(row, this.answers) ? this.details.get(row.id) ?? null : null;
    const state = `${row.id} ${Boolean(detail)} ${sees(row, this.answers)}`;
    if (this.drawn === state) return;
    const focused = this.panel.contains(this.panel.getRootNode().activeElement);
    this.drawn = state;
    const { sources, topics } = this.data;
    this.panel.replaceChildren(claimPanel({ row, detail, answers: this.answers, source: sources[row.source], topic: topics[row.topic] }, { vote: (id, vote) => this.vote(id, vote), back: () => this.back() }));
    if (focused) (this.panel.querySelector(".said") ?? this.panel.querySelector(".says")).focus({ preventScroll: true });
  }

  show(id, { focus = false } = {}) {
    this.open = id;
    const row = this.byId.get(id);
    if (sees(row, this.answers) && !this.details.has(id)) this.setTriggerValue("ask", { id, vote: null });
    this.draw();
    if (focus || this.host.classList.contains("narrow")) this.panel.querySelector(".says")?.focus({ preventScroll: false });
    this.commit();
  }

  // To a claim from elsewhere on the page: nothing may hide it.
  reach(id) {
    this.place = {};
    this.turnTo(id);
    this.show(id, { focus: true });
    this.list.bring(id);
    this.host.scrollIntoView({ block: "start" });
  }

  vote(id, vote) {
    const row = this.byId.get(id);
    this.open = id;
    if (sees(row, this.answers)) return this.show(id);
    if (row.lost !== (vote === "look")) return this.show(id);
    this.waiting = id;
    this.setTriggerValue("ask", { id, vote });
    this.draw();
    this.commit();
  }

  back() {
    const id = this.open;
    this.open = null;
    this.draw();
    this.list.focus(id);
    this.commit();
  }

  take(answers) {
    if (!answers || !this.data) return;
    const hid = this.answers.all && !answers.all;
    this.answers = answers;
    if (hid) this.details.clear();
    if (answers.open) this.details.set(answers.open.id, answers.open);
    this.drawn = null;
    this.draw();
    const { id, n } = answers.wish;
    if (this.wished !== undefined && n !== this.wished) this.reach(id);
    this.wished = n;
    const row = this.byId.get(this.open);
    if (row && sees(row, answers) && !this.details.has(row.id) && this.asked !== row.id) {
      this.asked = row.id; // all verdicts have just been asked for
      this.setTriggerValue("ask", { id: row.id, vote: null });
    } else this.asked = null;
    if (this.waiting && answers.open?.id === this.waiting) {
      text(this.live, verdictWords(answers.open, answers));
      this.waiting = null;
    }
  }

  change(name, value) {
    if (value) this.place[name] = value;
    else delete this.place[name];
    this.page = 0;
    this.draw();
    this.commit();
  }

  turn(by) {
    const to = clamp(this.page + by, 0, pages(this.shown.length) - 1);
    if (to === this.page) return false;
    this.page = to;
    this.draw();
    return true;
  }

  // The page of the list that a claim is on.
  turnTo(id) {
    const at = listed(this.data.rows, this.place, this.answers).findIndex((row) => row.id === id);
    if (at >= 0) this.page = Math.floor(at / PAGE);
  }

  step(id, by) {
    const at = this.shown.findIndex((row) => row.id === id);
    const to = clamp(at + by, 0, this.shown.length - 1);
    this.page = Math.floor(to / PAGE);
    this.list.at = this.shown[to].id;
    this.draw();
    this.list.focus(this.shown[to].id);
  }

  onKey(event, id) {
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: PAGE, PageUp: -PAGE, Home: -Infinity, End: Infinity };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in moves) this.step(id, moves[event.key]);
    else if (event.key === "Enter" || event.key === " ") this.show(id, { focus: true });
    else if (!this.votes(event, id)) return;
    event.preventDefault();
    event.stopPropagation();
  }

  onPanelKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.open) return;
    if (event.key === "Escape") this.back();
    else if (!this.votes(event, this.open)) return;
    event.preventDefault();
    event.stopPropagation();
  }

  votes(event, id) {
    const found = VOTES.find(({ key }) => key === event.key.toUpperCase());
    if (found) this.vote(id, found.id);
    return Boolean(found);
  }

  // Where the reader stands goes into the address once they rest there.
  commit() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      const place = { ...this.place, ...(this.open ? { claim: this.open } : {}) };
      this.setStateValue("place", place);
    }, COMMIT_MS);
  }
}
