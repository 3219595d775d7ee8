// The keys of somebody who presents, on every page.
import { LEGEND, leftOver, meaning, place } from "./keys.js";
import { Start } from "./start.js";

const AGAIN = new WeakSet(); // events of our own
const PLAY = "kv-recorded"; // whoever has a run to play takes this event
const LOOK_MS = 250;
const LOOK_FOR_MS = 10_000;
const LEFT_MS = 1500; // until the address says that the view was left

const began = performance.getEntriesByType?.("navigation")?.[0]?.type;
let store = null;
try {
  store = window.sessionStorage;
} catch {
  // a browser that keeps nothing
}
const start = new Start(store, began === "navigate" || began === "prerender");
// Until when a recorded run is waited for on the page that was gone to. It outlives that page's
// drawing, and this module if Streamlit loads it again.
const WANTED = Symbol.for("kv-scope.presenter.wanted");

class Presenter {
  constructor(root) {
    this.root = root;
    this.black = root.querySelector(".black");
    this.legend = root.querySelector(".legend");
    this.said = root.querySelector("[role=status]");
    const rows = LEGEND.map(([keys, does]) => {
      const row = document.createElement("div");
      const dt = document.createElement("dt");
      const dd = document.createElement("dd");
      dt.textContent = keys;
      dd.textContent = does;
      row.append(dt, dd);
      return row;
    });
    this.legend.querySelector("dl").replaceChildren(...rows);
    this.legend.querySelector("button").onclick = () => this.legend.close();
    root.querySelector(".open").onclick = () => this.legend.showModal();
    this.down = (event) => this.first(event);
    this.up = (event) => this.last(event);
    window.addEventListener("keydown", this.down, true);
    window.addEventListener("keydown", this.up);
    this.black.onclick = () => this.black.close();
    this.lookForRun();
  }

  dispose() {
    window.removeEventListener("keydown", this.down, true);
    window.removeEventListener("keydown", this.up);
    clearTimeout(this.timer);
    setTimeout(() => start.end(window.location.href), LEFT_MS);
  }

  // Before everybody else.
  first(event) {
    if (AGAIN.has(event)) return;
    if (this.black.open || this.legend.open) return this.within(event);
    const inner = event.composedPath()[0];
    const found = meaning(event, place(inner, document.body));
    if (!found) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    if (found.again) this.again(event);
    else if (!event.repeat) this.act(found.act);
  }

  // While something lies over the page its keys are for that alone.
  within(event) {
    if (/^(Shift|Control|Alt|Meta)/.test(event.key)) return;
    const tab = event.key === "Tab" || event.key === "Enter" || event.key === " ";
    if (this.legend.open && tab) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    if (this.black.open) this.black.close();
    else if (["Escape", "?"].includes(event.key)) this.legend.close();
  }

  // After everybody else.
  last(event) {
    const found = leftOver(event, place(event.composedPath()[0], document.body));
    if (!found) return;
    event.preventDefault();
    if (found.act) this.send("leave", true);
    else this.turn(found.turn);
  }

  again(event) {
    let node = document.activeElement;
    while (node?.shadowRoot?.activeElement) node = node.shadowRoot.activeElement;
    node?.blur?.();
    const copy = new KeyboardEvent("keydown", { key: event.key, code: event.code, bubbles: true, cancelable: true, composed: true });
    AGAIN.add(copy);
    document.body.dispatchEvent(copy);
  }

  turn(by) {
    const main = document.querySelector('[data-testid="stMain"]');
    main?.scrollBy({ top: by * 0.9 * main.clientHeight });
  }

  act(what) {
    if (what === "black") this.black.showModal();
    else if (what === "legend") this.legend.showModal();
    else if (what === "reset") this.reset();
    else this.recorded();
  }

  // The address anew, and with it a session that remembers nothing.
  reset() {
    const to = start.read() ?? window.location.href;
    if (to === window.location.href) window.location.reload();
    else window.location.assign(to);
  }

  recorded() {
    if (this.play()) return;
    this.say("To the recorded run …");
    window[WANTED] = performance.now() + LOOK_FOR_MS;
    this.send("go", true);
    this.lookForRun();
  }

  // Whether somebody on the page has begun to play.
  play() {
    return !document.dispatchEvent(new CustomEvent(PLAY, { cancelable: true }));
  }

  lookForRun() {
    if (!(performance.now() < window[WANTED])) return;
    if (this.play()) window[WANTED] = 0;
    else this.timer = setTimeout(() => this.lookForRun(), LOOK_MS);
  }

  say(text) {
    this.said.textContent = text;
    clearTimeout(this.quiet);
    this.quiet = setTimeout(() => (this.said.textContent = ""), 4000);
  }
}

const kept = new WeakMap();

export default function presenter({ parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".presenter");
  let shown = kept.get(parentElement);
  if (!shown || shown.root !== root) {
    shown?.dispose();
    shown = new Presenter(root);
    kept.set(parentElement, shown);
    start.begin(window.location.href);
  }
  shown.send = setTriggerValue;
  return () => {
    shown.dispose();
    kept.delete(parentElement);
  };
}
