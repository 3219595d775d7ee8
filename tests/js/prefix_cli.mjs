// Reads a run as JSON on standard input and prints how the prefix cache's instrument lays it out after
// each step, for the test that compares it with the engine's own snapshots.
import { readFileSync } from "node:fs";
import { chainLayout, evictionOrder, keyOrder, treeLayout } from "../../ui/components/prefix_view/js/layout.js";
import { Cursor } from "../../ui/components/run_player/js/reducer.js";

const run = JSON.parse(readFileSync(0, "utf8"));
const cursor = new Cursor(run);
const order = keyOrder(run);
const out = run.steps.map((_, k) => {
  const state = cursor.seek(k);
  return { chain: chainLayout(state, order).cells, tree: treeLayout(state, order).nodes, ...evictionOrder(state) };
});
process.stdout.write(JSON.stringify(out));
