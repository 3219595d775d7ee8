// The answer as it comes, token by token, and the five stages under it.
import { icon } from "../../run_player/js/icons.js";
import { button, el, num } from "../../run_player/js/util.js";
import { STAGES, stages, stepOf } from "./walk.js";

const MOST = 400; // tokens drawn one by one; what lies before them is one piece of text

export function shown(text) {
  return text === undefined ? "·" : text;
}

export class Answer {
  constructor(bench) {
    this.bench = bench;
    this.root = el("div", "out");
    this.root.onclick = (e) => {
      const k = e.target.closest?.("[data-k]")?.dataset.k;
      if (k !== undefined) this.bench.go(Number(k), true);
    };
    this.drawn = 0;
  }

  reset() {
    this.drawn = 0;
    this.root.replaceChildren(el("span", "p", ""));
    this.caret = null;
  }

  draw() {
    const { run, story: s, k, running } = this.bench;
    const texts = run.header.token_text ?? {};
    const asked = this.root.firstChild ?? this.root.appendChild(el("span", "p", ""));
    asked.textContent = s.tokens.length ? "The model answers: " : running ? "Waiting for the first token … " : "No token yet. ";
    const ended = s.finished?.reason === "stop_token" ? s.tokens.length - 1 : s.tokens.length; // the end token has no text to show
    this.caret?.remove();
    for (let i = Math.max(this.drawn, ended - MOST); i < ended; i++) {
      const t = s.tokens[i];
      const span = el("span", "t", shown(texts[t.token]));
      span.dataset.k = String(t.k);
      span.title = `token ${t.token === null ? "" : num(t.token)}, step ${num(run.steps[t.k].step)}`;
      this.root.append(span);
    }
    this.drawn = ended;
    for (const span of this.root.querySelectorAll(".t")) {
      const at = Number(span.dataset.k);
      span.classList.toggle("now", at === k);
      span.classList.toggle("later", at > k);
    }
    if (running) this.root.append((this.caret ??= el("span", "caret")));
  }
}

export class Walk {
  constructor(bench) {
    this.bench = bench;
    this.tabs = STAGES.map((name, i) => {
      const n = el("span", "n", String(i + 1));
      const line = el("span", "line");
      const b = button("", null, n, el("b", "", name), line);
      b.onclick = () => bench.walkTo(i);
      return { b, n, line };
    });
    this.bar = el("div", "walk", ...this.tabs.map((t) => t.b));
    this.bar.setAttribute("role", "group");
    this.bar.setAttribute("aria-label", "Walkthrough in five steps");
    this.stage = el("div", "stagebox");
    this.holds = el("p", "inv");
    this.root = el("section", "panel walkbox", this.bar, this.stage, this.holds);
    this.root.setAttribute("aria-label", "Walkthrough");
  }

  draw() {
    const { run, story: s, k, stage } = this.bench;
    const told = stages(run, s, k);
    told.forEach((t, i) => {
      const tab = this.tabs[i];
      tab.line.textContent = t.line;
      tab.b.toggleAttribute("aria-current", i === stage);
      if (i === stage) tab.b.setAttribute("aria-current", "step");
      const done = t.of > 0 && t.ok === t.of;
      tab.b.classList.toggle("done", done);
      if (tab.done !== done) tab.n.replaceChildren(String(i + 1), ...(done ? [icon("check")] : []));
      tab.done = done;
    });
    const t = told[stage];
    const count = t.of ? `Checked: ${num(t.ok)} of ${num(t.of)} ${t.unit}${t.of === 1 ? "" : "s"}.` : "Not checked in this run.";
    this.holds.replaceChildren(el("b", "", "Holds here"), el("span", "", t.holds), el("span", t.of && t.ok < t.of ? "broken" : "muted", count));
    this.stage.replaceChildren(...this.picture(stage));
  }

  picture(stage) {
    const { run, story: s, k } = this.bench;
    const texts = run.header.token_text ?? {};
    const chip = (id, cls, label) => {
      const c = el("span", `tok ${cls}`, el("span", "w", shown(texts[id]).replaceAll("\n", "⏎").replace(/^ /, "␣")), el("span", "id", id === null ? "" : num(id)));
      if (label) c.title = label;
      return c;
    };
    const ids = run.header.prompts?.[s.request] ?? [];
    if (stage === 0) {
      const some = ids.slice(0, 48);
      const out = some.map((id) => chip(id, ""));
      if (ids.length > some.length) out.push(el("span", "muted small", `and ${num(ids.length - some.length)} more`));
      return out;
    }
    if (stage === 1) return this.lanes(s.prefill, s.promptTokens, s.cached);
    if (stage === 2) return this.bytes(run, s, k);
    const done = s.tokens.filter((t) => t.k <= k);
    if (stage === 3) {
      const at = done.findIndex((t) => t.k === k);
      const now = done.at(-1);
      const before = done.at(-2);
      if (!now || !before) return [el("span", "muted small", "The first token came from the prefill. The next step computes it, and samples the second.")];
      return [
        chip(before.token, "in"), el("span", "muted small", `sampled in step ${num(run.steps[before.k].step)}, computed in step ${num(run.steps[now.k].step)}, gives`),
        chip(now.token, "fresh"), el("span", "muted small", at < 0 ? "" : `the ${num(done.length)}${["th", "st", "nd", "rd"][done.length % 100 > 10 && done.length % 100 < 14 ? 0 : done.length % 10] ?? "th"} token of the answer`),
      ];
    }
    return [...done.slice(-12).map((t, i, a) => chip(t.token, i === a.length - 1 && s.finished ? "fresh" : "")), el("span", "muted small", s.finished && s.finished.k <= k ? s.finished.reason.replaceAll("_", " ") : "goes on")];
  }

  // The prompt as one bar, a piece for each step that computed some of it.
  lanes(prefill, total, cached) {
    const bar = el("div", "chunks");
    const piece = (n, cls, words) => {
      const p = el("span", cls, words);
      p.style.flexGrow = String(n);
      bar.append(p);
    };
    if (cached) piece(cached, "found", `${num(cached)} found in the cache`);
    for (const x of prefill) piece(x.n, "chunk", `step ${num(this.bench.run.steps[x.k].step)}: ${num(x.n)}`);
    const left = total - cached - prefill.reduce((a, x) => a + x.n, 0);
    if (left > 0) piece(left, "todo", `${num(left)} to do`);
    return [bar];
  }

  bytes(run, s, k) {
    const per = run.header.kv_bytes_per_token ?? 0;
    const keeps = run.header.scenario?.engine?.kv_cache !== false;
    if (!keeps || !s.shares.length) return [el("span", "muted small", keeps ? "Nothing is computed yet." : "There is no KV cache in this run: nothing is kept from step to step.")];
    const last = s.shares.at(-1);
    const most = last.before + last.n;
    const bars = el("div", "grow");
    for (const x of s.shares.slice(-160)) {
      const b = el("i", x.k === k ? "now" : x.k > k ? "later" : "");
      b.style.height = `${(100 * (x.before + x.n)) / most}%`;
      bars.append(b);
    }
    const part = s.shares.filter((x) => x.k <= k).at(-1);
    const words = part ? `after step ${num(run.steps[part.k].step)}: ${num(part.before + part.n)} tokens × ${num(per)} B = ${num((part.before + part.n) * per)} B; the step wrote ${num(part.n * per)} B` : "";
    return [bars, el("span", "small", words)];
  }
}

// The step to stand on for a stage.
export const standFor = stepOf;
