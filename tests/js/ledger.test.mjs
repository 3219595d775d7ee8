// Which claims are listed, what may be seen of them, and what is said after a vote.
import assert from "node:assert/strict";
import test from "node:test";
import { claimAddress } from "../../ui/components/ledger/js/claimlink.js";
import { NO_ANSWERS, isOpen, listed, matches, pages, sees, span, tallyWords, verdictWords, votedWord } from "../../ui/components/ledger/js/rows.js";
import { coverWords, groupOf, shownGroups } from "../../ui/components/numbers/js/place.js";

const row = (id, more = {}) => ({ id, source: "chapter", section: "Figure 11.2", topic: "paging", says: "A budget of 40 GB serves 62 users", lost: false, ...more });
const rows = [row("B041"), row("L014", { source: "lesson", topic: "roofline", lost: true, says: "The number is missing" }), row("B007", { topic: "kv_bytes" })];
const voted = { ...NO_ANSWERS, votes: { B041: "true", L014: "look" }, verdicts: { B041: "wrong", L014: "stripped" }, agree: { B041: false } };
const ids = (place, answers = voted) => listed(rows, place, answers).map((r) => r.id);

test("filters work together, and a search takes every word", () => {
  assert.deepEqual(ids({}), ["B041", "L014", "B007"]);
  assert.deepEqual(ids({ topic: "paging" }), ["B041"]);
  assert.deepEqual(ids({ source: "lesson" }), ["L014"]);
  assert.deepEqual(ids({ q: "62  budget" }), ["B041", "B007"]);
  assert.deepEqual(ids({ q: "b007" }), ["B007"]);
  assert.deepEqual(ids({ q: "figure", topic: "kv_bytes" }), ["B007"]);
  assert.deepEqual(ids({ q: "(.*" }), []);
});

test("by one's own votes: a lost number is none", () => {
  assert.deepEqual(ids({ mine: "open" }), ["B007"]);
  assert.deepEqual(ids({ mine: "voted" }), ["B041"]);
  assert.deepEqual(ids({ mine: "differ" }), ["B041"]);
  assert.deepEqual(ids({ mine: "agree" }), []);
});

test("a verdict lists nothing apart until all are shown", () => {
  assert.deepEqual(ids({ verdict: "wrong" }), ["B041", "L014", "B007"]);
  assert.deepEqual(ids({ verdict: "wrong" }, { ...voted, all: true }), ["B041"]);
});

test("who sees what", () => {
  assert.equal(isOpen(rows[2], voted), true);
  assert.equal(isOpen(rows[0], voted), false);
  assert.equal(isOpen(rows[1], voted), false);
  assert.equal(sees(rows[2], voted), false);
  assert.equal(sees(rows[2], { ...voted, all: true }), true);
  assert.equal(sees({ id: "constructor" }, voted), false);
  assert.equal(votedWord(rows[0], voted), "true");
  assert.equal(votedWord(rows[1], voted), "");
  assert.equal(matches(row("toString"), { mine: "voted" }, voted), false);
});

test("the words of count, tally and verdict", () => {
  assert.equal(span(297, 1), "26–50 of 297 claims");
  assert.equal(span(297, 11), "276–297 of 297 claims");
  assert.equal(span(1, 0), "1 claim");
  assert.equal(span(0, 0), "No claim");
  assert.deepEqual([0, 25, 26, 297].map(pages), [1, 1, 2, 12]);
  assert.equal(tallyWords({ of: 241, votes: 0, agree: 0 }), "No vote yet: 241 claims can be voted on");
  assert.equal(tallyWords({ of: 241, votes: 3, agree: 2 }), "3 of 241 voted on, 2 as the ledger has it");
  assert.equal(verdictWords({ id: "B041", verdict: "wrong" }, voted), "wrong. You said true.");
  const right = { ...voted, votes: { B041: "false" }, agree: { B041: true } };
  assert.equal(verdictWords({ id: "B041", verdict: "wrong" }, right), "wrong. You said false, and the ledger agrees.");
  assert.equal(verdictWords({ id: "L014", verdict: "stripped" }, voted), "number lost");
});

test("the link to one claim holds nothing else", () => {
  assert.equal(claimAddress("B041", "http://localhost:1/claims_ledger?show=all&verdict=wrong#x"), "http://localhost:1/claims_ledger?claim=B041");
});

test("the sheet: one group alone, where a number is, what was looked at", () => {
  const groups = [{ id: "a", numbers: [{ id: "x" }, { id: "y" }] }, { id: "b", numbers: [{ id: "z" }] }];
  assert.deepEqual(shownGroups(groups, { group: "b" }).map((g) => g.id), ["b"]);
  assert.equal(shownGroups(groups, {}).length, 2);
  assert.equal(groupOf(groups, "z"), "b");
  assert.equal(groupOf(groups, "no"), null);
  assert.equal(coverWords(new Set(["x", "z"]), [groups[0]]), "1 of 2 looked at");
});
