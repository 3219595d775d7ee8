// What people and models wrote enters the pages as text only, in every component.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import test from "node:test";
import { turn } from "../../ui/components/page_bar/index.js";

const root = new URL("../../ui/components/", import.meta.url);
const folders = ["browser_store/", "gantt/js/", "ledger/js/", "lesson_chart/js/", "numbers/js/", "page_bar/", "quiz_card/js/", "reader/js/", "series/js/"];
const forbidden =
  /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|createContextualFragment|DOMParser|srcdoc|\bfetch\(|XMLHttpRequest|WebSocket|https?:\/\/(?!www\.w3\.org\/2000\/svg)/;

for (const folder of folders) {
  const at = new URL(folder, root);
  for (const name of readdirSync(at).filter((f) => f.endsWith(".js"))) {
    test(`${folder}${name} makes no markup of strings and asks nothing of the network`, () => {
      assert.doesNotMatch(readFileSync(new URL(name, at), "utf8"), forbidden);
    });
  }
}

test("the page keys scroll the main area where nothing else has taken them or has focus", () => {
  const pressed = (key, more = {}, focused = false) => {
    const did = [];
    turn({ key, preventDefault: () => did.push("kept"), ...more }, { clientHeight: 1000, scrollBy: ({ top }) => did.push(top) }, focused);
    return did;
  };
  assert.deepEqual(pressed("PageDown"), ["kept", 900]);
  assert.deepEqual(pressed("PageUp"), ["kept", -900]);
  assert.deepEqual(pressed("PageDown", { defaultPrevented: true }), []);
  assert.deepEqual(pressed("PageDown", { ctrlKey: true }), []);
  assert.deepEqual(pressed("PageDown", {}, true), []);
  assert.deepEqual(pressed("ArrowDown"), []);
});
