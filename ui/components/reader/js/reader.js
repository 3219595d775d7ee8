// A text that is read: contents beside it, one part at a time on a projector, links within the app.
import { current, inside, turned } from "./turning.js";

const REST_MS = 500; // how long a part stays before the address says so

const make = (tag, cls, words) => {
  const node = document.createElement(tag);
  if (cls) node.className = cls;
  if (words !== undefined) node.textContent = words;
  return node;
};

export class Reader {
  constructor(host) {
    this.host = host;
    this.at = null;
    this.asked = null;
    this.page = null;
    this.stop = new AbortController();
    const { signal } = this.stop;
    window.addEventListener("keydown", (event) => this.key(event), { capture: true, signal });
    document.addEventListener("click", (event) => this.click(event), { capture: true, signal });
    document.addEventListener("scroll", () => this.scrolled(), { capture: true, passive: true, signal });
    // On a projector only the marked part is there. The text may be drawn after this, or drawn anew.
    this.seen = new MutationObserver(() => {
      const there = this.data?.present ? this.section(this.at) : null;
      if (there && !there.hasAttribute("data-kv-on")) this.show();
    });
    this.seen.observe(document.body, { childList: true, subtree: true });
  }

  dispose() {
    this.stop.abort();
    this.seen.disconnect();
    clearTimeout(this.timer);
    clearTimeout(this.late);
  }

  update(data, send) {
    this.send = send;
    const fresh = this.page !== data.page;
    const same = this.data && JSON.stringify([data.parts, data.present, data.page]) === this.drawn;
    this.data = data;
    if (fresh) {
      this.page = data.page;
      this.asked = null;
      this.at = 0;
      this.ended = false;
    }
    if (!same) {
      this.drawn = JSON.stringify([data.parts, data.present, data.page]);
      this.draw();
    }
    if (data.at !== this.asked) {
      this.asked = data.at;
      const index = data.parts.findIndex((part) => part.name === data.at);
      if (index >= 0) this.arrive(index);
    }
    this.show();
  }

  section(index) {
    const part = this.data.parts[index];
    return part ? document.querySelector(`.st-key-kv-sec-${part.name}`) : null;
  }

  get main() {
    return document.querySelector('[data-testid="stMain"]');
  }

  // The text is drawn after this component: wait for the part, and for what stands above it.
  arrive(index, tries = 0) {
    clearTimeout(this.late);
    this.at = index;
    const there = this.section(index);
    if (there && !this.data.present) there.scrollIntoView({ block: "start" });
    this.show();
    if (tries < 12) this.late = setTimeout(() => this.arrive(index, tries + 1), tries < 4 ? 80 : 200);
  }

  draw() {
    const { data } = this;
    this.host.dataset.scale = data.present ? "present" : "";
    this.links = data.parts.map((part, index) => {
      const link = make("a", "", part.title);
      link.href = `?at=${encodeURIComponent(part.name)}`;
      link.onclick = (event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        this.go(index, true);
      };
      return link;
    });
    if (data.present) {
      const step = (by, name, sign) => {
        const button = make("button", "", sign);
        button.type = "button";
        button.setAttribute("aria-label", name);
        button.onclick = () => this.go(this.at + by);
        return button;
      };
      this.where = make("span", "where");
      this.where.setAttribute("role", "status");
      this.before = step(-1, "Previous part", "←");
      this.after = step(1, "Next part", "→");
      const bar = make("div", "turn");
      bar.append(this.before, this.where, this.after);
      this.host.replaceChildren(bar);
      return;
    }
    const list = make("ol");
    for (const link of this.links) {
      const item = make("li");
      item.append(link);
      list.append(item);
    }
    const nav = make("nav");
    nav.setAttribute("aria-label", "On this page");
    nav.append(make("p", "head", "On this page"), list);
    const fold = make("details");
    fold.append(make("summary", "", "On this page"), list.cloneNode(true));
    [...fold.querySelectorAll("a")].forEach((link, index) => {
      link.onclick = (event) => {
        event.preventDefault();
        fold.open = false;
        this.go(index, true);
      };
    });
    this.host.replaceChildren(nav, fold);
  }

  // Go to a part. focus: its heading gets the focus too, as with any link within a page.
  go(index, focus = false) {
    const { parts, present } = this.data;
    if (index < 0 || index >= parts.length) return;
    clearTimeout(this.late);
    this.at = index;
    this.show();
    const there = this.section(index);
    if (present) this.main?.scrollTo({ top: 0 });
    else there?.scrollIntoView({ block: "start", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
    const head = focus ? there?.querySelector("h2") : null;
    if (head) {
      head.tabIndex = -1;
      head.focus({ preventScroll: true });
    }
    this.tell();
  }

  tell() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.asked = this.data.parts[this.at].name;
      this.send("at", this.asked);
    }, REST_MS);
  }

  show() {
    const { parts, present } = this.data;
    parts.forEach((_, index) => {
      const there = this.section(index);
      if (there) there.toggleAttribute("data-kv-on", index === this.at);
    });
    this.links.forEach((link, index) => {
      if (index === this.at) link.setAttribute("aria-current", "location");
      else link.removeAttribute("aria-current");
    });
    if (present) {
      this.where.textContent = `${this.at + 1} of ${parts.length} · ${parts[this.at].title}`;
      this.before.disabled = this.at === 0;
      this.after.disabled = this.at === parts.length - 1;
    }
    if (this.at === parts.length - 1 && (present || this.read)) this.end();
  }

  scrolled() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => {
      if (!this.data || this.data.present) return;
      const { main } = this;
      if (!main) return;
      const tops = this.data.parts.map((_, i) => this.section(i)?.getBoundingClientRect().top ?? Infinity);
      const line = main.getBoundingClientRect().top + 0.3 * main.clientHeight;
      const last = this.section(tops.length - 1)?.getBoundingClientRect();
      this.read = Boolean(last) && last.bottom < main.getBoundingClientRect().bottom + 40;
      const at = this.read && main.scrollTop + main.clientHeight > main.scrollHeight - 8 ? tops.length - 1 : current(tops, line);
      if (at !== this.at || this.read) {
        this.at = at;
        this.show();
      }
    });
  }

  // The last part was reached: told once.
  end() {
    if (this.ended) return;
    this.ended = true;
    this.send("end", true);
  }

  key(event) {
    if (!this.data || event.defaultPrevented) return;
    const inner = event.composedPath()[0];
    if (event.key === "Escape") {
      // A definition that is open closes first; only then does Escape leave the projector's view.
      const open = document.querySelector(":is(.kv-term, .kv-value):is(:hover, :focus):not([data-shut])");
      if (!open) return;
      open.setAttribute("data-shut", "");
      for (const gone of ["pointerleave", "blur"]) open.addEventListener(gone, () => open.removeAttribute("data-shut"), { once: true });
      event.preventDefault();
      event.stopPropagation();
      return;
    }
    if (!this.data.present || inner.closest?.("input, textarea, select, [role=slider], [contenteditable]")) return;
    if (event.key === " " && inner.closest?.("button, summary, a")) return;
    const { main } = this;
    if (!main) return;
    const view = { part: this.at, parts: this.data.parts.length, top: main.scrollTop, height: main.clientHeight, length: main.scrollHeight };
    const to = turned(event, view);
    if (!to) return;
    event.preventDefault();
    if (to.scroll) main.scrollBy({ top: to.scroll });
    else if (to.part !== this.at) {
      this.go(to.part);
      if (to.end) requestAnimationFrame(() => main.scrollTo({ top: main.scrollHeight }));
    }
  }

  click(event) {
    if (!this.data || event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    const path = event.composedPath();
    const link = path.find((node) => node instanceof HTMLAnchorElement);
    if (!link || link.hasAttribute("download") || !path.some((node) => node.matches?.('[class*="st-key-kv-reading"]'))) return;
    if (path.includes(this.host)) return; // the contents see to themselves
    const to = inside(link.href, window.location.origin, this.data.pages);
    if (!to) return;
    event.preventDefault();
    event.stopPropagation();
    const [name, query] = to.split("?");
    const part = name === this.data.page ? new URLSearchParams(query).get("at") : null;
    const here = this.data.parts.findIndex((one) => one.name === part);
    if (here >= 0) this.go(here, true);
    else this.send("go", to);
  }
}
