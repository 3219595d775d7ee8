// A button by the selected text that makes a note of it. It is drawn above everything, and only
// while something is selected; Tab reaches it from the selection, Escape puts it away.
import { clean, headingOf, isField, queryAt, rangeIn, rootsOf, textOf } from "./selection.js";

const quoters = new WeakMap();
const WAIT_MS = 120;
const SELECTS = /^(Shift|Arrow\w+|Home|End|PageUp|PageDown|a|A)$/;
const DONE_MS = 4000;

class Quoter {
  constructor(parent) {
    this.box = parent.querySelector(".quote");
    [this.button, this.link] = this.box.children;
    this.said = parent.querySelector("[role=status]");
    this.pressed = false;
    this.roots = [];
    this.button.textContent = "Quote in notebook";
    this.button.onpointerdown = (event) => event.preventDefault(); // the selection stays
    this.button.onclick = () => this.take();
    this.listeners = {
      pointerdown: (event) => this.press(event),
      pointerup: (event) => this.release(event),
      pointercancel: () => (this.pressed = false),
      keyup: (event) => SELECTS.test(event.key) && this.release(event),
      keydown: (event) => this.key(event),
      selectionchange: () => this.change(),
    };
    for (const [name, listener] of Object.entries(this.listeners)) document.addEventListener(name, listener, true);
    this.onScroll = () => this.place();
    document.addEventListener("scroll", this.onScroll, true);
  }

  dispose() {
    clearTimeout(this.timer);
    for (const [name, listener] of Object.entries(this.listeners)) document.removeEventListener(name, listener, true);
    document.removeEventListener("scroll", this.onScroll, true);
    this.hide();
  }

  get open() {
    return this.box.dataset.open === "1";
  }

  press(event) {
    if (event.composedPath().includes(this.box)) return;
    this.pressed = true;
    this.roots = rootsOf(event);
    this.hide();
  }

  release(event) {
    this.pressed = false;
    if (event.composedPath().includes(this.box)) return;
    this.soon(rootsOf(event));
  }

  // A finger drags the ends of a selection without any other event.
  change() {
    if (!this.pressed && !document.getSelection()?.isCollapsed) this.soon(this.roots);
  }

  soon(roots) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.look(roots), WAIT_MS);
  }

  look(roots) {
    this.roots = roots;
    let active = document.activeElement;
    while (active?.shadowRoot?.activeElement) active = active.shadowRoot.activeElement;
    const range = rangeIn(roots);
    const text = range ? clean(textOf(range, `${document.getSelection()}`), this.most) : "";
    const host = roots[0]?.host ?? range?.commonAncestorContainer;
    const element = host?.nodeType === 1 ? host : host?.parentElement;
    const inPage = element?.closest('[data-testid="stMain"]') || element?.contains(document.querySelector('[data-testid="stMain"]'));
    if (text.length < 2 || !inPage || isField(active) || isField(range.startContainer) || isField(range.endContainer)) {
      this.hide();
      return;
    }
    this.range = range;
    this.text = text;
    this.show();
  }

  show() {
    clearTimeout(this.done);
    this.link.hidden = true;
    this.button.hidden = false;
    this.box.dataset.open = "1";
    if (this.box.showPopover && !this.box.matches(":popover-open")) this.box.showPopover();
    this.place();
    this.said.textContent = "Press Tab to quote the selected text in your notebook.";
  }

  // By the end of the selection, below it, and inside the window.
  place() {
    if (!this.open || !this.range) return;
    const lines = this.range.getClientRects();
    const at = lines[lines.length - 1] ?? this.range.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = this.box;
    const below = at.bottom + 6 + height < window.innerHeight ? at.bottom + 6 : at.top - height - 6;
    this.box.style.left = `${Math.max(8, Math.min(at.right - width / 2, window.innerWidth - width - 8))}px`;
    this.box.style.top = `${Math.max(8, Math.min(below, window.innerHeight - height - 8))}px`;
  }

  hide() {
    clearTimeout(this.timer);
    clearTimeout(this.done);
    if (!this.open) return;
    delete this.box.dataset.open;
    if (this.box.hidePopover && this.box.matches(":popover-open")) this.box.hidePopover();
    this.range = null;
    this.said.textContent = "";
  }

  key(event) {
    if (!this.open) return;
    const inside = event.composedPath().includes(this.box);
    if (event.key === "Escape") {
      event.stopPropagation();
      this.hide();
    } else if (event.key === "Tab" && !event.shiftKey && !inside) {
      event.preventDefault();
      (this.link.hidden ? this.button : this.link).focus();
    } else if (event.key === "Tab") {
      this.hide();
    }
  }

  take() {
    if (!this.full) this.give();
    const focused = this.box.getRootNode().activeElement === this.button;
    this.button.hidden = true;
    this.link.hidden = false;
    this.link.textContent = this.full ? "The notebook is full: open it" : "Kept. Open the notebook";
    this.said.textContent = this.full ? "The notebook is full." : "It is in your notebook.";
    if (focused) this.link.focus();
    this.place();
    this.done = setTimeout(() => this.hide(), DONE_MS);
  }

  give() {
    const heading = headingOf(this.range.startContainer);
    const anchored = heading?.id || heading?.querySelector("[id]")?.id || "";
    this.send({
      text: this.text,
      section: clean(heading?.textContent ?? "", 160),
      anchor: heading && heading.getRootNode() === document ? anchored : "",
      query: queryAt(this.range.startContainer, window.location.search),
    });
  }
}

export default function ({ parentElement, data, setTriggerValue }) {
  let quoter = quoters.get(parentElement);
  if (!quoter || quoter.box !== parentElement.querySelector(".quote")) {
    quoter?.dispose();
    quoter = new Quoter(parentElement);
    quoters.set(parentElement, quoter);
  }
  quoter.most = data.most;
  quoter.full = data.full;
  quoter.send = (found) => setTriggerValue("quote", found);
  return () => {
    quoter.dispose();
    quoters.delete(parentElement);
  };
}
