// Quotes: what text is taken, and under which heading it stands.
import assert from "node:assert/strict";
import test from "node:test";
import { clean, headingOf, isField, joined, lastBefore, queryAt, rootsOf } from "../../ui/components/quote/selection.js";

const text = (data) => ({ nodeType: 3, data, nodeName: "#text", childNodes: [] });
const node = (name, ...childNodes) => ({ nodeType: 1, nodeName: name, childNodes });

test("a quote is one line a paragraph, and no longer than it may be", () => {
  assert.equal(clean("  a \n\n\t b  c \n", 99), "a\nb c");
  assert.equal(clean("x".repeat(20), 10), `${"x".repeat(9)}…`);
  assert.equal(clean(" \n ", 10), "");
});

test("blocks are lines, and what runs on stays on its line", () => {
  const piece = node("#document-fragment", node("P", text("one "), node("B", text("bold"))), node("LI", text("two")));
  assert.equal(clean(joined(piece), 99), "one bold\ntwo");
  assert.equal(clean(joined(node("P", text("a"), node("BR"), text("b"))), 99), "a\nb");
});

test("a quote from a lesson leads back to its part, from anywhere else to the page as it stands", () => {
  const part = { className: "stVerticalBlock st-key-kv-sec-two-halves st-emotion-x" };
  const inLesson = { nodeType: 1, closest: () => part };
  assert.equal(queryAt(inLesson, "?level=In+full"), "level=In+full&at=two-halves");
  assert.equal(queryAt({ nodeType: 3, parentElement: inLesson }, "?at=before"), "at=two-halves");
  const inChart = { nodeType: 1, closest: () => null, getRootNode: () => ({ host: inLesson }) };
  assert.equal(queryAt(inChart, ""), "at=two-halves");
  assert.equal(queryAt({ nodeType: 1, closest: () => null, getRootNode: () => ({}) }, "?step=2"), "step=2");
});

// A page in document order: positions stand for nodes.
const at = (position, heading = false) => ({
  position,
  textContent: `at ${position}`,
  heading,
  compareDocumentPosition: (other) => (other.position > position ? 4 : other.position < position ? 2 : 0),
  contains: () => false,
});

test("the heading above a selection is the last one before it", () => {
  const headings = [at(1), at(5), at(9)];
  assert.equal(lastBefore(headings, at(7)).position, 5);
  assert.equal(lastBefore(headings, headings[1]).position, 5);
  assert.equal(lastBefore(headings, at(0)), null);
});

test("in a component without a heading it is the one above the component", () => {
  const page = { host: undefined, querySelectorAll: () => [at(1), at(4)] };
  const host = { ...at(6), getRootNode: () => page };
  const shadow = { host, querySelectorAll: () => [] };
  const inside = { ...at(2), getRootNode: () => shadow };
  assert.equal(headingOf(inside).position, 4);
  shadow.querySelectorAll = () => [at(1)];
  assert.equal(headingOf(inside).position, 1);
});

test("a selection in a field is none", () => {
  const field = { nodeType: 1, closest: (names) => (names.includes("textarea") ? {} : null) };
  assert.equal(isField(field), true);
  assert.equal(isField({ nodeType: 3, parentElement: field }), true);
  assert.equal(isField({ nodeType: 1, closest: () => null }), false);
  assert.equal(isField(null), false);
});

test("roots come from the outermost in", () => {
  const [inner, outer] = [{ nodeType: 11, host: {} }, { nodeType: 11, host: {} }];
  const path = [{ nodeType: 1 }, inner, { nodeType: 1 }, outer, { nodeType: 9 }];
  assert.deepEqual(rootsOf({ composedPath: () => path }), [outer, inner]);
});
