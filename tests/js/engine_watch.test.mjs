// One question to the engine's status serves all that show it.
import assert from "node:assert/strict";
import test from "node:test";
import { watchEngine } from "../../ui/components/engine_panel/watch.js";

const settled = () => new Promise((done) => setTimeout(done, 5));
let asked = 0;
let listeners = 0;
let answer = { state: "ready" };
globalThis.window = { location: { href: "http://here/page" } };
globalThis.document = { hidden: false, addEventListener: () => listeners++, removeEventListener: () => listeners-- };
globalThis.fetch = async (url) => {
  asked++;
  assert.equal(String(url), "http://here/engine/status");
  if (answer instanceof Error) throw answer;
  return { ok: true, json: async () => answer };
};

test("two watchers share what was asked once, and the last to leave ends it", async () => {
  const heard = [[], []];
  const one = watchEngine((status) => heard[0].push(status.state));
  await settled();
  const two = watchEngine((status) => heard[1].push(status.state));
  await settled();
  assert.deepEqual([asked, listeners, heard], [1, 1, [["ready"], ["ready"]]]);
  answer = { state: "busy" };
  two.ask();
  await settled();
  assert.deepEqual([asked, heard], [2, [["ready", "busy"], ["ready", "busy"]]]);
  one.stop();
  answer = new Error("no server");
  two.ask();
  await settled();
  assert.deepEqual([asked, heard[0].length, heard[1].at(-1)], [3, 2, "absent"]);
  two.stop();
  two.ask();
  await settled();
  assert.deepEqual([asked, listeners], [3, 0]);
});

test("what is asked while an answer is on its way is asked once more after it", async () => {
  asked = 0;
  answer = { state: "ready" };
  const heard = [];
  const watch = watchEngine((status) => heard.push(status.state));
  watch.ask();
  watch.ask();
  await settled();
  assert.deepEqual([asked, heard], [2, ["ready", "ready"]]);
  document.hidden = true;
  watch.ask();
  await settled();
  assert.equal(asked, 2, "nobody looks");
  watch.stop();
});
