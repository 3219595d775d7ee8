// The one document in the browser: asked for first, written once it is known, never written over
// what another tab has written in the meantime.
import assert from "node:assert/strict";
import test from "node:test";
import mount from "../../ui/components/browser_store/index.js";

const KEY = "doc";

class Storage {
  constructor(text = null) {
    this.kept = new Map(text === null ? [] : [[KEY, text]]);
    this.writes = 0;
    this.broken = false;
    this.room = Infinity; // characters, over all keys
  }
  get text() {
    return this.getItem(KEY);
  }
  set text(text) {
    this.kept.set(KEY, text);
  }
  get length() {
    if (this.broken) throw new Error("off");
    return this.kept.size;
  }
  key(i) {
    return [...this.kept.keys()][i];
  }
  getItem(key) {
    if (this.broken) throw new Error("off");
    return this.kept.get(key) ?? null;
  }
  removeItem(key) {
    if (this.broken) throw new Error("off");
    this.kept.delete(key);
  }
  setItem(key, text) {
    const others = [...this.kept].filter(([name]) => name !== key);
    const taken = others.reduce((sum, [, kept]) => sum + kept.length, 0);
    if (this.broken || taken + text.length > this.room) throw new Error("full");
    this.kept.set(key, text);
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
  full.room = 0;
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

test("what fits again is kept again, and that is said", () => {
  const storage = new Storage();
  const t = tab(storage);
  t.call();
  t.take("short");
  storage.room = 8;
  t.call({ text: "much too long" });
  assert.equal(t.last().ok, false);
  t.take("much too long, still");
  assert.equal(storage.text, "short");
  t.call({ text: "shorter" });
  assert.equal(storage.text, "shorter");
  assert.deepEqual([t.last().ok, t.last().text], [true, "shorter"]);
});

const TO = `${KEY}.damaged.2026-11-30T12:00:00Z`;

test("what cannot be read is moved aside with its time, and a fresh document takes its place", () => {
  const storage = new Storage("{damaged");
  const t = tab(storage);
  t.call();
  t.call({ text: "fresh", seen: t.last().id, move: { to: TO, text: "{damaged" } });
  assert.deepEqual([...storage.kept], [[TO, "{damaged"]]);
  assert.deepEqual([t.last().text, t.last().ok], [null, true]);
  assert.deepEqual(t.last().copies, [{ key: TO, text: "{damaged" }]);
  t.take("fresh");
  assert.deepEqual([storage.text, storage.getItem(TO)], ["fresh", "{damaged"]);
  t.call({ drop: [TO] });
  assert.deepEqual([...storage.kept], [[KEY, "fresh"]]);
});

test("it is moved only while it is what was said to be unreadable", () => {
  const storage = new Storage("{damaged");
  const t = tab(storage);
  t.call();
  storage.text = "theirs"; // another tab has mended it in the meantime
  t.call({ text: "fresh", seen: t.last().id, move: { to: TO, text: "{damaged" } });
  assert.deepEqual([...storage.kept], [[KEY, "theirs"]]);
  assert.equal(t.last().text, "theirs");
});

test("two of them need no room at once", () => {
  const storage = new Storage("{damaged");
  storage.room = 10;
  const t = tab(storage);
  t.call();
  t.call({ text: "fresh", seen: t.last().id, move: { to: TO, text: "{damaged" } });
  assert.deepEqual([...storage.kept], [[TO, "{damaged"]]);
});

test("what finds no room aside stays, is not written over, and nothing goes round in circles", () => {
  const storage = new Storage("{damaged");
  const t = tab(storage);
  t.call();
  const set = storage.setItem.bind(storage);
  storage.setItem = (key, text) => {
    if (key !== KEY || text !== "{damaged") throw new Error("full");
    set(key, text);
  };
  const move = { to: TO, text: "{damaged" };
  t.call({ text: "fresh", seen: t.last().id, move });
  assert.deepEqual([t.last().text, t.last().ok], ["{damaged", false]);
  const said = t.reports.length;
  t.take("fresh");
  t.call({ text: "fresh, changed" });
  assert.deepEqual([[...storage.kept], t.reports.length], [[[KEY, "{damaged"]], said]);
  storage.setItem = set;
  t.call({ drop: [KEY] });
  assert.deepEqual([t.last().text, t.last().ok], [null, true]);
  t.take("fresh, changed");
  assert.equal(storage.text, "fresh, changed");
});

test("where nothing can be written, nothing is taken out", () => {
  const storage = new Storage("{damaged");
  storage.room = 0;
  const t = tab(storage);
  t.call();
  t.call({ text: "fresh", seen: t.last().id, move: { to: TO, text: "{damaged" } });
  assert.deepEqual([...storage.kept], [[KEY, "{damaged"]]);
  assert.equal(t.last().ok, false);
});

test("only copies of this document can be dropped", () => {
  const storage = new Storage("mine");
  storage.kept.set("other", "x");
  const t = tab(storage);
  t.call();
  t.take("mine");
  t.call({ drop: ["other", KEY] });
  assert.deepEqual([...storage.kept.keys()], [KEY, "other"]);
});
