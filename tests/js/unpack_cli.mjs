// Reads runs as Python packs them, one a line, on standard input and prints each as the browser
// unpacks it, for the test that both sides mean the same run.
import { readFileSync } from "node:fs";
import { openRun } from "../../ui/components/run_player/js/packing.js";

for (const line of readFileSync(0, "utf8").split("\n").filter(Boolean)) console.log(JSON.stringify(await openRun(line)));
