// Reads {run, machine} as JSON on standard input and prints what the browser makes of it, for the
// tests that compare it with Python.
import { readFileSync } from "node:fs";
import { gapsUs, median, modelledSeconds, ttftUs } from "../../ui/components/live_run/js/metrics.js";
import { requestsOf, story } from "../../ui/components/live_run/js/trace.js";
import { stages } from "../../ui/components/live_run/js/walk.js";

const { run, machine } = JSON.parse(readFileSync(0, "utf8"));
const out = { times: {}, stages: {}, modelled: run.steps.map((s) => (s.work ? modelledSeconds(s.work, machine) : null)) };
for (const request of requestsOf(run)) {
  const s = story(run, request);
  out.times[request] = { tokens: s.promptTokens, ttft_us: ttftUs(run, s), gap_us: median(gapsUs(run, s)) };
  out.stages[request] = stages(run, s, run.steps.length - 1).map(({ ok, of }) => [ok, of]);
}
process.stdout.write(JSON.stringify(out));
