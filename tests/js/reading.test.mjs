// Pages that are read: turning parts, links within the course, axes of charts, search, arcs.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import test from "node:test";
import { before } from "../../ui/components/course_map/js/arcs.js";
import { excerpt, folded, found, marked, prepared, wordsOf } from "../../ui/components/course_map/js/find.js";
import { apart, between, broken, freePlace, logTicks, reading, three } from "../../ui/components/lesson_chart/js/axes.js";
import { asCsv } from "../../ui/components/lesson_chart/js/table.js";
import { current, inside, turned } from "../../ui/components/reader/js/turning.js";

const view = { part: 1, parts: 3, top: 0, height: 900, length: 900 };
const press = (key, more = {}, at = {}) => turned({ key, ...more }, { ...view, ...at });

test("keys turn to the next part and back, and stay within the text", () => {
  assert.equal(press("ArrowRight").part, 2);
  assert.equal(press("PageDown").part, 2);
  assert.equal(press(" ").part, 2);
  assert.equal(press("ArrowLeft").part, 0);
  assert.equal(press("PageUp").part, 0);
  assert.equal(press("ArrowRight", {}, { part: 2 }).part, 2);
  assert.equal(press("ArrowLeft", {}, { part: 0 }).part, 0);
  assert.equal(press("End").part, 2);
  assert.equal(press("Home").part, 0);
  assert.equal(press("x"), null);
  assert.equal(press("PageDown", { ctrlKey: true }), null);
});

test("down and up read a long part before they leave it, across leaves it at once", () => {
  const long = { length: 2000 };
  assert.deepEqual(press("PageDown", {}, long), { scroll: 0.85 * 900 });
  assert.deepEqual(press("PageDown", {}, { ...long, top: 1000 }), { scroll: 100 });
  assert.equal(press("PageDown", {}, { ...long, top: 1100 }).part, 2);
  assert.equal(press("ArrowRight", {}, long).part, 2);
  assert.deepEqual(press("ArrowUp", {}, { ...long, top: 50 }), { scroll: -50 });
  assert.equal(press("ArrowUp", {}, long).end, true);
});

test("only addresses of the course's own pages are followed within the app", () => {
  const pages = ["tiers", "claims_ledger"];
  const to = (href) => inside(href, "http://here:1", pages);
  assert.equal(to("http://here:1/tiers?at=reload"), "tiers?at=reload");
  assert.equal(to("http://here:1/base/claims_ledger?claim=B100"), "claims_ledger?claim=B100");
  assert.equal(to("http://there/tiers"), null);
  assert.equal(to("http://here:1/api/words"), null);
  assert.equal(to("javascript:alert(1)"), null);
  assert.equal(to("not an address"), null);
});

test("the part that is read is the last one whose head is above the line", () => {
  assert.equal(current([10, 400, 900], 300), 0);
  assert.equal(current([-900, -10, 500], 300), 1);
  assert.equal(current([500, 900], 300), 0);
});

test("a logarithmic axis has ticks of two for powers of two, and few round ones else", () => {
  assert.deepEqual(logTicks(512, 4096, [512, 1024, 2048, 4096]), [512, 1024, 2048, 4096]);
  const many = Array.from({ length: 12 }, (_, i) => 2 ** i);
  const two = logTicks(1, 2048, many, 5);
  assert.ok(two.length <= 5 && two.at(-1) === 2048);
  assert.deepEqual(logTicks(0.002, 20), [0.001, 0.01, 0.1, 1, 10, 100]);
  assert.deepEqual(logTicks(3, 40), [2, 5, 10, 20, 50]);
});

test("names are broken into lines of about the same length, and no word is cut", () => {
  assert.deepEqual(broken("host memory"), ["host memory"]);
  assert.deepEqual(broken("70B with one KV head, BF16"), ["70B with one", "KV head, BF16"]);
  assert.deepEqual(broken("a-very-long-word-without-any-space"), ["a-very-long-word-without-any-space"]);
  assert.equal(broken("one two three four five six seven eight nine").join(" "), "one two three four five six seven eight nine");
});

test("a name breaks behind a comma rather than within a name", () => {
  assert.deepEqual(broken("Llama 3.1 70B, GQA, FP8"), ["Llama 3.1 70B,", "GQA, FP8"]);
  assert.deepEqual(broken("compute again, two H100"), ["compute again,", "two H100"]);
});

test("an axis begins and ends where the values do", () => {
  assert.deepEqual(between(0, 16, [0, 5, 10, 15, 20]), [0, 5, 10, 15, 16]);
  assert.deepEqual(between(512, 4096, [512, 1024, 2048, 4096]), [512, 1024, 2048, 4096]);
});

test("a rule's name goes where no line is", () => {
  const box = { x0: 0, x1: 400 };
  const crowded = freePlace(100, 60, box, (x) => (x < 200 ? [96] : [20]), 1);
  assert.ok(crowded.x > 140);
  const free = freePlace(100, 60, box, () => [300], 1);
  assert.deepEqual([free.x, free.y], [6, 95]);
});

test("labels of different heights never lie on each other", () => {
  const heights = [18, 33, 18, 33];
  const middles = apart([50, 52, 54, 300], heights, 0, 320);
  const order = middles.map((y, i) => [y, heights[i]]).sort((a, b) => a[0] - b[0]);
  for (let i = 1; i < order.length; i++) assert.ok(order[i][0] - order[i - 1][0] >= (order[i][1] + order[i - 1][1]) / 2 - 1e-9);
  for (const [y, h] of order) assert.ok(y - h / 2 >= -1e-9 && y + h / 2 <= 320 + 1e-9);
});

const chart = {
  x: { label: "Context", unit: "tokens", values: [1024, 2048] },
  unit: "s",
  lines: [{ name: "compute, again", values: [0.5, null] }, { name: "=drive", values: [0.0366, 1234.5] }],
};

test("a place of a chart is read out, and all of it goes into a file", () => {
  assert.equal(reading(chart, 1), "Context 2,048 tokens: compute, again –, =drive 1,235 s");
  assert.equal(three(0.03664), "0.0366");
  assert.equal(asCsv(chart), "Context (tokens),\"compute, again (s)\",'=drive (s)\r\n1024,0.5,0.0366\r\n2048,,1234.5\r\n");
});

const entry = (kind, title, head, text, to) => ({ kind, title, head, text, to });
const rows = prepared([
  entry("Lesson", "Offloading and tiers", "Reload, or compute again?", "Reloading moves the bytes of every token. There is no crossover.", "tiers?at=reload"),
  entry("Lesson, in full", "Offloading and tiers", "Reload, or compute again?", "The crossover follows from two rates; a crossover exists for small models.", "tiers?at=reload&level=In+full"),
  entry("Lesson", "Quantisation", "Two things", "Quantising makes the copy-on-write of blocks no dearer. A token more.", "quantisation?at=what"),
  entry("Term", "token, tokens", "", "A piece of text that the model knows as a number.", "course?term=token"),
  entry("Claim", "B100", "Offloading", "The crossover lies at six hundred tokens.", "claims_ledger?claim=B100"),
]);
const to = (query) => found(rows, query).map((one) => one.entry.to);

test("a part comes once, in full only where that alone says it, and claims after lessons", () => {
  assert.deepEqual(to("crossover"), ["tiers?at=reload", "claims_ledger?claim=B100"]);
  assert.deepEqual(to("small crossover"), ["tiers?at=reload&level=In+full"]);
  assert.deepEqual(to("no crossover"), ["tiers?at=reload"]);
});

test("a term by its own name comes first, and all words must be there", () => {
  assert.equal(to("token")[0], "course?term=token");
  assert.deepEqual(to("token zebra"), []);
  assert.deepEqual(to("copy on write"), ["quantisation?at=what"]);
  assert.deepEqual(to("QUANTIZATION"), ["quantisation?at=what"]);
  assert.deepEqual(to("éxists"), ["tiers?at=reload&level=In+full"]);
});

test("short words count where a word begins, and nothing finds nothing", () => {
  assert.deepEqual(to("ken"), []);
  assert.deepEqual(to("   "), []);
  assert.deepEqual(to("<script>alert(1)</script>"), []);
  assert.deepEqual(to("(((*+?[\\"), []);
  assert.equal(wordsOf("a b c d e f g h i j").length, 8);
});

test("comparing changes no length, so that marks stand where the words do", () => {
  for (const said of ["Größe, naïve İstanbul", "key–value · ﬁt", "quantization"]) assert.equal(folded(said).length, said.length);
  const pieces = marked("A crossover, Crossover!", "crossover");
  assert.deepEqual(pieces.filter(([, on]) => on).map(([words]) => words), ["crossover", "Crossover"]);
  assert.equal(pieces.map(([words]) => words).join(""), "A crossover, Crossover!");
});

test("an excerpt is cut between words around what was found", () => {
  const text = `${"word ".repeat(60)}needle ${"more ".repeat(60)}`;
  const said = excerpt(text, "needle", text.indexOf("needle")).map(([words]) => words).join("");
  assert.ok(said.startsWith("… ") && said.endsWith(" …") && said.includes("needle"));
  assert.ok(said.length < 240);
  assert.match(said, /^… (word|needle) /);
});

test("what a place builds on is followed all the way back, round a circle too", () => {
  const edges = [["a", "b"], ["b", "c"], ["x", "c"], ["c", "d"], ["c", "a"]];
  assert.deepEqual([...before(edges, "b")].sort(), ["a", "b", "c", "x"]);
  assert.deepEqual([...before([["a", "b"]], "a")], []);
});

test("the map makes no markup of strings and asks for the course's words alone", () => {
  const folder = new URL("../../ui/components/course_map/js/", import.meta.url);
  const forbidden = /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|createContextualFragment|DOMParser|srcdoc|XMLHttpRequest|WebSocket|https?:\/\//;
  for (const name of readdirSync(folder).filter((f) => f.endsWith(".js"))) {
    const text = readFileSync(new URL(name, folder), "utf8");
    assert.doesNotMatch(text, forbidden, name);
    for (const [, asked] of text.matchAll(/\bfetch\((.*?), window/g)) assert.equal(asked, 'new URL("api/words"');
  }
});
