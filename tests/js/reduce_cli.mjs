// Reads a run as JSON on standard input and prints the list of states after each step, for the
// test that the browser's reducer and Python's agree.
import { readFileSync } from "node:fs";
import { reduce } from "../../ui/components/run_player/js/reducer.js";

const cursor = reduce(JSON.parse(readFileSync(0, "utf8")));
const states = [];
for (let k = 0; k < cursor.length; k++) states.push(cursor.stateAt(k));
process.stdout.write(JSON.stringify(states));
