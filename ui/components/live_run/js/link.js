// Everything that can be set, as the query of a link; and the place told to Python once one has
// stopped changing it.
const COMMIT_MS = 600;

export class Link {
  constructor(bench) {
    this.bench = bench;
  }

  dispose() {
    clearTimeout(this.timer);
    clearTimeout(this.word);
  }

  place() {
    const b = this.bench;
    const example = b.data.examples.findIndex((x) => x.text === b.ask.prompt.value);
    const out = { step: String(b.k) };
    if (b.exp) out.exp = b.exp.id;
    else if (b.recordedName) out.run = b.recordedName;
    if (example !== 0) out.prompt = b.ask.prompt.value;
    if (!b.ask.chat.checked) out.chat = "0";
    if (b.ask.tokens.defaultValue !== "48") out.max = b.ask.tokens.defaultValue;
    if (b.gapTarget !== 50) out.gap = String(b.gapTarget);
    if (b.ttftTarget !== 500) out.ttft = String(b.ttftTarget);
    if (b.machineId !== "own") out.machine = b.machineId;
    if (b.followable?.length > 1 && b.story.request) out.follow = b.story.request;
    return out;
  }

  // Where one arrives is not told: the address says it already.
  arrive() {
    this.committed = JSON.stringify(this.place());
  }

  commit() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      const b = this.bench;
      if (!b.data || b.busy || !b.run.steps.length) return;
      const place = this.place();
      const text = JSON.stringify(place);
      if (text === this.committed) return;
      this.committed = text;
      b.setStateValue?.("place", place);
    }, COMMIT_MS);
  }

  url() {
    const base = new URL(window.location.href);
    base.search = new URLSearchParams({ ...this.place(), ...(this.bench.present ? { present: "1" } : {}) }).toString();
    base.hash = "";
    return base.toString();
  }

  async copy() {
    const { ask } = this.bench;
    const url = this.url();
    try {
      await navigator.clipboard.writeText(url);
      ask.linkField.hidden = true;
      ask.copyWord.textContent = "Copied";
      clearTimeout(this.word);
      this.word = setTimeout(() => (ask.copyWord.textContent = "Copy link"), 1600);
    } catch {
      // Without permission the link is shown, selected, to be copied by hand.
      ask.linkField.hidden = false;
      ask.linkField.value = url;
      ask.linkField.focus();
      ask.linkField.select();
    }
  }
}
