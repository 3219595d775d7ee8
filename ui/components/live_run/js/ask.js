// What is asked: the prompt, how it is sent, the run button; the answer and its times beneath.
import { icon } from "../../run_player/js/icons.js";
import { button, el, ms, num, text } from "../../run_player/js/util.js";
import { Answer, shown } from "./answer.js";
import { gapsUs, isMeasured, median, numSequences, ttftUs } from "./metrics.js";

const field = (label, input, unit) => el("label", "f", el("span", "", label), input, unit ? el("span", "u", unit) : null);

function number(min, max, value, label) {
  const i = el("input", "num");
  Object.assign(i, { type: "number", min: String(min), max: String(max), value: String(value), inputMode: "numeric" });
  i.setAttribute("aria-label", label);
  return i;
}

// A number that is left becomes one that the page's link can carry; what is none goes back.
// The default is the last number that held.
export function settle(input) {
  const v = Math.round(Number(input.value));
  if (input.value.trim() !== "" && Number.isFinite(v)) input.defaultValue = String(Math.min(Math.max(v, Number(input.min)), Number(input.max)));
  input.value = input.defaultValue;
}

export class Ask {
  constructor(bench) {
    this.bench = bench;
    this.prompt = el("textarea", "");
    this.prompt.setAttribute("aria-label", "Prompt");
    this.prompt.maxLength = 4000;
    this.prompt.spellcheck = false;
    this.prompt.oninput = () => bench.changed();
    this.prompt.onkeydown = (e) => {
      if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) bench.toggleRun();
    };
    this.run = button("btn primary", null, icon("play"), this.runWord = el("span", "", "Run"));
    this.run.onclick = () => bench.toggleRun();
    this.examples = el("select", "btn");
    this.examples.setAttribute("aria-label", "Example prompts");
    this.examples.onchange = () => this.pickExample();
    this.recorded = el("select", "btn");
    this.recorded.setAttribute("aria-label", "Recorded runs");
    this.recorded.onchange = () => this.recorded.value && bench.showRecorded(this.recorded.value);
    this.tokens = number(1, 256, 48, "Tokens to answer with, at most");
    this.chat = el("input", "");
    this.chat.type = "checkbox";
    this.chat.checked = true;
    this.ttft = number(1, 60000, 500, "Target for the first token, milliseconds");
    this.gap = number(1, 60000, 50, "Target for each gap, milliseconds");
    this.chat.onchange = () => bench.changed();
    for (const i of [this.tokens, this.ttft, this.gap]) {
      i.onchange = () => {
        settle(i);
        bench.changed();
      };
    }
    this.follow = el("select", "btn");
    this.follow.setAttribute("aria-label", "Request to follow");
    this.follow.onchange = () => bench.followRequest(this.follow.value);
    this.answer = new Answer(bench);
    this.answer.root.setAttribute("aria-label", "Answer");
    this.kpis = [
      new Kpi("ms", "time to first token", this.ttft),
      new Kpi("ms", "gap between tokens, median", this.gap),
      new Kpi("tokens/s", "decode"),
      new Kpi("tokens", "prompt + output"),
    ];
    this.asked = el("p", "asked");
    this.prov = el("span", "prov");
    this.notice = el("p", "notice");
    this.notice.setAttribute("role", "status");
    this.copy = button("btn quiet", "Copy link", icon("link"), this.copyWord = el("span", "w", "Copy link"));
    this.save = button("btn quiet", "Run file, download as JSON", icon("save"), el("span", "w", "Run file"));
    this.present = button("btn quiet", "Present", icon("present"), this.presentWord = el("span", "w", "Present"));
    this.copy.title = "A link to this picture, with every control in it";
    this.copy.onclick = () => bench.copyLink();
    this.save.title = "Download the run as JSON: it plays on the block pool page";
    this.save.onclick = () => bench.download();
    this.present.title = "Large type for a projector";
    this.present.onclick = () => bench.togglePresent();
    this.linkField = el("input", "linkfield");
    Object.assign(this.linkField, { readOnly: true, hidden: true });
    this.linkField.setAttribute("aria-label", "Link to this picture");
    this.state = el("span", "engine");
    this.root = el(
      "section",
      "panel",
      el("header", "bar", this.prov, this.state, el("span", "actions", this.copy, this.save, this.present)),
      this.linkField,
      el(
        "div",
        "pad",
        el("div", "prompt", this.prompt, el("div", "go", this.run, this.examples)),
        el("div", "opts", field("Answer with at most", this.tokens, "tokens"), field("As a chat message", this.chat), this.recorded, this.follow),
        this.notice,
        this.asked,
        this.answer.root,
        el("div", "kpis", ...this.kpis.map((kpi) => kpi.root)),
      ),
    );
    this.root.setAttribute("aria-label", "Prompt and answer");
  }

  load(data) {
    this.examples.replaceChildren(option("", "Examples"), ...data.examples.map((x, i) => option(String(i), x.title)));
    this.recorded.replaceChildren(option("", "Recorded runs"), ...data.recorded.map((x) => option(x.name, x.title)));
    const { place } = data;
    this.prompt.value = place.prompt ?? data.examples[0]?.text ?? "";
    this.chat.checked = place.chat !== false;
    for (const [i, v] of [
      [this.tokens, place.max ?? 48],
      [this.ttft, place.ttft ?? 500],
      [this.gap, place.gap ?? 50],
    ])
      i.value = i.defaultValue = String(v);
  }

  pickExample() {
    const x = this.bench.data.examples[Number(this.examples.value)];
    if (this.examples.value !== "" && x) this.prompt.value = x.text;
    this.examples.value = "";
    this.bench.changed();
  }

  draw() {
    const b = this.bench;
    text(this.runWord, b.running ? "Stop" : b.canLive ? "Run" : "Replay");
    if (this.stops !== b.running) {
      this.stops = b.running;
      this.run.replaceChildren(icon(b.running ? "stop" : "play"), this.runWord);
    }
    this.run.disabled = b.busy && !b.running;
    this.recorded.value = b.recordedName ?? "";
    b.label(this.prov, false);
    this.state.textContent = b.engineLine();
    this.state.dataset.state = b.engineState;
    const ids = b.followable;
    this.follow.hidden = ids.length < 2;
    if (this.follow.options.length !== ids.length || ids.some((id, i) => this.follow.options[i].value !== id)) this.follow.replaceChildren(...ids.map((id) => option(id, `Follow ${id}`)));
    this.follow.value = b.story.request ?? "";
    this.drawAsked();
    this.answer.draw();
    this.drawNumbers();
    this.drawNotice();
    this.presentWord.textContent = b.present ? "Leave" : "Present";
    this.present.setAttribute("aria-label", b.present ? "Leave presenter mode" : "Present");
  }

  // The prompt of the run on the page, where it is not the one in the field.
  drawAsked() {
    const { run, story: s } = this.bench;
    const texts = run.header.token_text ?? {};
    const words = (run.header.prompts?.[s.request] ?? []).map((id) => shown(texts[id])).join("");
    const plain = askedOf(words);
    this.asked.hidden = !plain || plain === this.prompt.value.replace(/\s+/g, " ").trim();
    if (!this.asked.hidden) this.asked.replaceChildren(el("b", "", "Asked in this run "), plain);
  }

  drawNumbers() {
    const { run, story: s, gapTarget, ttftTarget, reading } = this.bench;
    const timed = isMeasured(run);
    const ttft = timed ? ttftUs(run, s) : null;
    const gaps = timed ? gapsUs(run, s) : [];
    const gap = median(gaps);
    const within = gaps.filter((us) => us / 1000 <= gapTarget).length;
    const sizes = s.tokens.slice(1).map((t) => numSequences(run.steps[t.k]));
    const batch = median(sizes) ?? 1;
    const [first, each, rate, count] = this.kpis;
    first.draw(ttft === null ? "–" : ms(ttft), { met: ttft === null ? null : ttft / 1000 <= ttftTarget, more: ttft === null ? "" : ttft / 1000 <= ttftTarget ? "met" : "missed" });
    each.draw(gap === null ? "–" : ms(gap), { met: gaps.length ? within === gaps.length : null, more: gaps.length ? `${num(within)} of ${num(gaps.length)}` : "" });
    rate.draw(gap ? num(Math.round(1e6 / gap)) : "–", { label: `decode, batch of ${num(Math.round(batch))}`, more: gap && reading ? `${figure(reading / (gap / 1000))} × reading speed` : "" });
    count.draw(`${num(s.promptTokens)} + ${num(s.tokens.length)}`, { more: s.cached ? `${num(s.cached)} of the prompt were cached` : "" });
  }

  drawNotice() {
    const said = this.bench.notice;
    this.notice.hidden = !said;
    if (!said || this.said === said) return;
    this.said = said;
    this.notice.className = `notice ${said.tone ?? ""}`;
    this.notice.replaceChildren(said.text);
    if (said.action) {
      const b = button("btn small", null, said.action.label);
      b.onclick = said.action.run;
      this.notice.append(" ", b);
    }
  }
}

// One figure: value and unit, what it is, and where there is a target, whether it holds.
class Kpi {
  constructor(unit, label, target = null) {
    this.value = el("span", "");
    this.label = el("div", "l", label);
    this.more = el("span", "");
    this.line = target ? el("div", "l", "target ", target, " ms ", this.more) : el("div", "l", this.more);
    this.root = el("div", "kpi", el("div", "v", this.value, el("small", "", unit)), this.label, this.line);
  }

  draw(value, { label = null, more = "", met = null }) {
    this.value.textContent = value;
    if (label) this.label.textContent = label;
    this.more.textContent = more;
    this.more.className = met === null ? "" : met ? "ok" : "warn";
  }
}

// What a person asked: of a chat the last message of theirs, without the template around it.
export function askedOf(words) {
  const said = [...words.matchAll(/<\|im_start\|>user\s([^]*?)<\|im_end\|>/g)].at(-1)?.[1] ?? words;
  return said.replace(/<\|im_(start|end)\|>/g, " ").replace(/\s+/g, " ").trim();
}

const figure = (x) => (x >= 10 ? num(Math.round(x)) : x.toFixed(1));

function option(value, label) {
  const o = el("option", "", label);
  o.value = value;
  return o;
}
