// The one document in the browser: asked for first, written once it is known, never written over
// what another tab has written in the meantime.
import assert from "node:assert/strict";
import test from "node:test";
import mount from "../../ui/components/browser_store/index.js";

const KEY = "doc";

class Storage {
  constructor(text = null) {
    this.text = text;
    this.writes = 0;
    this.broken = false;
    this.full = false;
  }
  getItem() {
    if (this.broken) throw new Error("off");
    return this.text;
  }
  setItem(key, text) {
    if (this.broken || this.full) throw new Error("full");
    this.text = text;
    this.writes++;
  }
}

function tab(storage) {
  const listeners = new Set();
  const parentElement = {};
  const reports = [];
  let data = { key: KEY, text: null, seen: null };
  const call = (changes = {}) => {
    data = { ...data, ...changes };
    globalThis.window = {
      localStorage: storage,
      addEventListener: (type, f) => listeners.add(f),
      removeEventListener: (type, f) => listeners.delete(f),
    };
    return mount({ parentElement, data, setStateValue: (name, value) => reports.push(value) });
  };
  return {
    call,
    reports,
    listeners,
    last: () => reports[reports.length - 1],
    // What the page does with a report: takes it in, and has a document from then on.
    take: (text) => call({ text, seen: reports[reports.length - 1].id }),
    hear: (text) => [...listeners].forEach((f) => f({ key: KEY, newValue: text })),
  };
}

test("it asks first, and writes what the page makes of the answer", () => {
  const storage = new Storage("old");
  const t = tab(storage);
  t.call();
  assert.deepEqual([t.reports.length, t.last().text, t.last().ok], [1, "old", true]);
  assert.equal(storage.writes, 0);
  t.take("new");
  assert.equal(storage.text, "new");
  t.call();
  t.call({ text: "newer" });
  assert.equal(storage.text, "newer");
  assert.equal(t.reports.length, 1);
});

test("an unchanged document is neither written nor reported again", () => {
  const storage = new Storage("same");
  const t = tab(storage);
  t.call();
  t.take("same");
  t.call();
  assert.deepEqual([storage.writes, t.reports.length], [0, 1]);
});

test("nothing is written over a report that the page has not taken in", () => {
  const storage = new Storage("mine");
  const t = tab(storage);
  t.call();
  t.take("mine");
  storage.text = "theirs";
  t.hear("theirs");
  t.call({ text: "mine, changed" }); // a rerun that had begun before
  assert.equal(storage.text, "theirs");
  t.take("both");
  assert.equal(storage.text, "both");
});

test("a change that no event told of is seen before writing", () => {
  const storage = new Storage("mine");
  const t = tab(storage);
  t.call();
  t.take("mine");
  storage.text = "theirs";
  t.call({ text: "mine, changed" });
  assert.equal(storage.text, "theirs");
  assert.equal(t.last().text, "theirs");
  t.take("both");
  assert.equal(storage.text, "both");
});

test("a page one comes back to reports what differs from its session, and else writes", () => {
  const storage = new Storage("theirs");
  const t = tab(storage);
  t.call({ text: "session" });
  assert.equal(t.last().text, "theirs");
  assert.equal(storage.writes, 0);
  const empty = new Storage();
  const u = tab(empty);
  u.call({ text: "session" });
  assert.equal(empty.text, "session");
});

test("storage that is off or full is said once, and the page goes on", () => {
  const off = new Storage();
  off.broken = true;
  const t = tab(off);
  t.call();
  assert.deepEqual([t.last().text, t.last().ok], [null, false]);
  const full = new Storage();
  full.full = true;
  const u = tab(full);
  u.call();
  u.take("x");
  assert.equal(u.last().ok, false);
  u.take("xy");
  u.call();
  assert.equal(u.reports.length, 2);
});

test("there is one listener at a time, and none after the component is gone", () => {
  const t = tab(new Storage());
  t.call();
  const gone = t.call();
  assert.equal(t.listeners.size, 1);
  gone();
  assert.equal(t.listeners.size, 0);
});
