// The course on one page: a field to search, and below it what it finds, the map, or the terms.
import { icon } from "../../run_player/js/icons.js";
import { button, el, plural } from "../../run_player/js/util.js";
import { inside } from "../../reader/js/turning.js";
import { prepared } from "./find.js";
import { CourseMap } from "./map.js";
import { resultList } from "./results.js";
import { termList } from "./terms.js";

const REST_MS = 500; // how long nothing is typed before the address says it
const MOST_CHARS = 80;
let words = null; // the words of the course, asked for once

function load() {
  words ??= fetch(new URL("api/words", window.location.href)).then((answer) => {
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    return answer.json();
  }).then(prepared);
  words.catch(() => (words = null));
  return words;
}

export class Course {
  constructor() {
    this.rows = null;
    this.input = el("input", "q");
    Object.assign(this.input, { type: "search", maxLength: MOST_CHARS, placeholder: "Search the course", spellcheck: false, autocomplete: "off" });
    this.input.setAttribute("aria-label", "Search the course");
    this.input.oninput = () => this.typed();
    this.input.onfocus = () => this.fetch();
    this.hint = el("p", "hint");
    this.status = el("p", "status");
    this.status.setAttribute("role", "status");
    this.views = ["map", "terms"].map((view) => {
      const one = button("", null, view === "map" ? "Map" : "Terms");
      one.onclick = () => this.look(view);
      return one;
    });
    this.seg = el("div", "seg", ...this.views);
    this.seg.setAttribute("role", "group");
    this.seg.setAttribute("aria-label", "What to see");
    this.map = new CourseMap();
    this.below = el("div", "below");
    this.root = el("div", "kv course", el("div", "top", el("label", "field", icon("look"), this.input, el("kbd", "", "/")), this.seg), this.hint, this.status, this.below);
    this.stop = new AbortController();
    const { signal } = this.stop;
    window.addEventListener("keydown", (event) => this.key(event), { signal });
    this.root.addEventListener("keydown", (event) => this.inner(event), { signal });
    this.root.addEventListener("click", (event) => this.click(event), { signal });
  }

  dispose() {
    this.stop.abort();
    this.map.dispose();
    clearTimeout(this.timer);
  }

  update(data, send) {
    this.send = send;
    const before = this.data;
    this.data = data;
    this.root.dataset.scale = data.present ? "present" : "";
    this.hint.textContent = data.words.hint;
    const asked = JSON.stringify(data.place);
    // What comes back is often what was sent: typing is not to be undone by it, nor focus lost.
    const from = !before || (asked !== this.sent && asked !== JSON.stringify(before.place));
    if (from) {
      this.view = data.place.view ?? "map";
      this.term = data.place.term ?? null;
      this.input.value = data.place.q ?? "";
    }
    this.sent = asked;
    const places = JSON.stringify([data.sections, data.next]);
    if (places !== this.places) this.map.update(data);
    this.places = places;
    if (this.input.value) this.fetch();
    if (from || data.terms.length !== before.terms.length) this.show();
    // Back leads to another view on the same page: to its beginning, unless it opens a term.
    if (from && before && !this.term) document.querySelector('[data-testid="stMain"]')?.scrollTo({ top: 0 });
  }

  fetch() {
    if (this.rows || this.asking) return;
    this.asking = true;
    load().then(
      (rows) => (this.rows = rows),
      () => (this.lost = true),
    ).finally(() => {
      this.asking = false;
      this.show();
    });
  }

  typed() {
    this.lost = false;
    this.fetch();
    this.show();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.tell(), REST_MS);
  }

  look(view) {
    this.view = view;
    this.term = null;
    this.input.value = "";
    this.show();
    this.tell();
  }

  place() {
    const q = this.input.value.trim();
    return { ...(q ? { q } : {}), ...(this.view === "terms" ? { view: "terms" } : {}), ...(this.term ? { term: this.term } : {}) };
  }

  tell() {
    clearTimeout(this.timer);
    this.timer = 0;
    const place = this.place();
    if (JSON.stringify(place) === this.sent) return;
    this.sent = JSON.stringify(place);
    this.send("place", place);
  }

  show() {
    const query = this.input.value.trim();
    this.root.classList.toggle("searching", Boolean(query));
    this.views.forEach((one, i) => one.setAttribute("aria-pressed", String(!query && this.view === ["map", "terms"][i])));
    this.status.textContent = "";
    if (query && this.rows) {
      const { list, count, more } = resultList(this.rows, query);
      this.status.textContent = count ? `${plural(count, "place")}${more ? `, ${more}` : ""}` : this.data.words.nothing;
      this.below.replaceChildren(list);
    } else if (query) {
      this.status.textContent = this.lost ? this.data.words.unreachable : "Loading the words of the course …";
      this.below.replaceChildren();
    } else if (this.view === "terms") {
      this.below.replaceChildren(termList(this.data.terms, this.term));
      const open = this.term ? this.below.querySelector(".term.open") : null;
      if (open) requestAnimationFrame(() => open.scrollIntoView({ block: "center" }));
    } else this.below.replaceChildren(this.map.root);
  }

  // "/" comes here from anywhere on the page where nothing is being typed.
  key(event) {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.composedPath()[0].closest?.("input, textarea, select, [contenteditable]")) return;
    event.preventDefault();
    this.input.focus();
    this.input.select();
  }

  // Down from the field into what it found, up and down in it, Escape back.
  inner(event) {
    const links = [...this.below.querySelectorAll(".results a")];
    const at = links.indexOf(this.root.getRootNode().activeElement);
    const field = event.target === this.input;
    if (event.key === "Escape" && (field || at >= 0)) {
      event.preventDefault();
      if (field) {
        this.input.value = "";
        this.typed();
      } else this.input.focus();
    } else if (event.key === "ArrowDown" && links.length && (field || at >= 0)) {
      event.preventDefault();
      links[Math.min(at + 1, links.length - 1)].focus();
    } else if (event.key === "ArrowUp" && at >= 0) {
      event.preventDefault();
      (at ? links[at - 1] : this.input).focus();
    } else if (event.key === "Enter" && field && links.length) {
      event.preventDefault();
      links[0].click();
    }
  }

  click(event) {
    if (event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    const link = event.composedPath().find((node) => node instanceof HTMLAnchorElement);
    const to = link ? inside(link.href, window.location.origin, this.data.pages) : null;
    if (!to) return;
    event.preventDefault();
    if (this.timer) this.tell();
    this.send("go", to);
  }
}
