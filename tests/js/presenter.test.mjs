// The presenter's keys and the address at which presenting began.
import assert from "node:assert/strict";
import test from "node:test";
import { LEGEND, leftOver, meaning, place } from "../../ui/components/presenter/js/keys.js";
import { KEY, Start } from "../../ui/components/presenter/js/start.js";

const NOWHERE = { field: false, range: false, choice: false, nowhere: true };
const BUTTON = { ...NOWHERE, nowhere: false };
const FIELD = { ...BUTTON, field: true };
const RANGE = { ...BUTTON, range: true };
const RADIO = { ...BUTTON, choice: true };
const key = (name, more = {}) => ({ key: name, ...more });

test("each act has its key, wherever the focus is, but never in a field or with a modifier", () => {
  for (const [name, act] of [[".", "black"], ["b", "black"], ["B", "black"], ["v", "recorded"], ["V", "recorded"], ["0", "reset"], ["?", "legend"]]) {
    assert.deepEqual(meaning(key(name), NOWHERE), { act });
    assert.deepEqual(meaning(key(name), BUTTON), { act });
    assert.equal(meaning(key(name), FIELD), null);
    for (const modifier of ["ctrlKey", "metaKey", "altKey"]) assert.equal(meaning(key(name, { [modifier]: true }), NOWHERE), null);
  }
  // Streamlit's own keys, the players' and the letters of options are left alone.
  for (const name of ["c", "r", " ", "n", "e", "p", "a", "f", "d", "x", "z", "t", "Enter", "Tab", "Home", "End"]) assert.equal(meaning(key(name), NOWHERE), null);
  assert.equal(meaning(key("b"), RADIO), null);
  assert.deepEqual(meaning(key("."), RADIO), { act: "black" });
});

test("a clicker's keys come through whatever was clicked last", () => {
  assert.deepEqual(meaning(key("PageDown"), BUTTON), { again: true });
  assert.deepEqual(meaning(key("PageUp"), RADIO), { again: true });
  assert.equal(meaning(key("PageDown"), NOWHERE), null, "the instrument hears it as it is");
  assert.equal(meaning(key("PageDown"), RANGE), null, "a slider moves by it");
  assert.equal(meaning(key("PageDown"), FIELD), null);
  assert.equal(meaning(key("ArrowRight"), BUTTON), null, "arrows move within what has the focus");
});

test("what nobody takes turns the page or leaves", () => {
  assert.deepEqual(leftOver(key("PageDown"), NOWHERE), { turn: 1 });
  assert.deepEqual(leftOver(key("ArrowLeft"), NOWHERE), { turn: -1 });
  assert.deepEqual(leftOver(key("ArrowDown"), NOWHERE), { turn: 1 });
  assert.equal(leftOver(key("ArrowDown"), BUTTON), null);
  assert.equal(leftOver(key("PageDown", { defaultPrevented: true }), NOWHERE), null);
  assert.deepEqual(leftOver(key("Escape"), BUTTON), { act: "leave" });
  assert.equal(leftOver(key("Escape"), FIELD), null);
  assert.equal(leftOver(key("Escape", { defaultPrevented: true }), NOWHERE), null);
});

test("what has the focus is told apart", () => {
  const node = (tagName, more = {}) => ({ tagName, getAttribute: () => null, matches: () => false, ...more });
  const body = node("BODY");
  assert.deepEqual(place(body, body), NOWHERE);
  assert.deepEqual(place(node("SECTION", { matches: () => true }), body), NOWHERE);
  assert.deepEqual(place(node("BUTTON"), body), BUTTON);
  assert.deepEqual(place(node("INPUT", { type: "text" }), body), FIELD);
  assert.deepEqual(place(node("INPUT", { type: "search" }), body), FIELD);
  assert.deepEqual(place(node("TEXTAREA"), body), FIELD);
  assert.deepEqual(place(node("SELECT"), body), FIELD);
  assert.deepEqual(place(node("DIV", { isContentEditable: true }), body), FIELD);
  assert.deepEqual(place(node("INPUT", { type: "range" }), body), RANGE);
  assert.deepEqual(place(node("INPUT", { type: "radio" }), body), RADIO);
  assert.deepEqual(place(node("INPUT", { type: "checkbox" }), body), BUTTON);
});

test("every key of the legend does something", () => {
  const said = LEGEND.map(([keys]) => keys).join(" ");
  for (const name of ["Page Down", "Page Up", "Space", "V", "0", ".", "B", "?", "Esc"]) assert.ok(said.includes(name), name);
});

const shelf = () => {
  const held = new Map();
  return { getItem: (k) => held.get(k) ?? null, setItem: (k, v) => held.set(k, v), removeItem: (k) => held.delete(k) };
};
const AT = "http://x/block_pool?present=1&step=2";

test("the start is where presenting began, through other pages and reloads", () => {
  const store = shelf();
  const first = new Start(store, true);
  assert.equal(first.begin(AT), AT);
  assert.equal(first.begin("http://x/batching?present=1"), AT, "another page of the same presentation");
  const reloaded = new Start(store, false);
  assert.equal(reloaded.begin("http://x/batching?present=1&step=9"), AT);
  const opened = new Start(store, true);
  assert.equal(opened.begin("http://x/quiz?present=1"), "http://x/quiz?present=1", "an address was opened anew");
});

test("leaving forgets it, going to another page does not", () => {
  const store = shelf();
  const start = new Start(store, true);
  start.begin(AT);
  start.end("http://x/batching?present=1");
  assert.equal(store.getItem(KEY), AT);
  start.end("http://x/block_pool?step=2");
  assert.equal(store.getItem(KEY), null);
  assert.equal(start.begin("http://x/quiz?present=1"), "http://x/quiz?present=1");
});

test("a browser that keeps nothing still knows it until the document is left", () => {
  const fails = () => {
    throw new Error("denied");
  };
  for (const store of [null, { getItem: fails, setItem: fails, removeItem: fails }]) {
    const start = new Start(store, true);
    assert.equal(start.begin(AT), AT);
    assert.equal(start.begin("http://x/quiz?present=1"), AT);
    start.end("http://x/quiz");
    assert.equal(start.read(), null);
  }
});
