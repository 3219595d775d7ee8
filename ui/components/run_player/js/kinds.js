// The kinds of event one can jump to: which steps of a run hold them.
import { isNotable } from "./events.js";

const is = (...types) => (e) => types.includes(e.type);

// key → [name, icon, which events]
export const KINDS = {
  copy: ["Copy-on-write", "copy", is("block_copied")],
  fork: ["Fork", "fork", is("forked")],
  preemption: ["Preemption", "warn", is("preempted")],
  eviction: ["Eviction", "evict", is("block_evicted")],
  admission: ["Admission", "in", is("admitted", "resumed")],
  wait: ["Wait", "wait", is("waiting")],
  finish: ["Finish", "flag", is("finished")],
  hit: ["Cache hit", "branch", (e) => e.type === "block_shared" && e.cause === "hit"],
  same: ["Same block found", "branch", (e) => e.type === "block_shared" && e.cause !== "hit"],
  split: ["Node split", "split", is("node_split")],
  refusal: ["Refusal", "stop", is("request_rejected")],
  cancel: ["Cancellation", "close", is("cancelled")],
  pruning: ["Pruned beam", "close", is("pruned")],
  arrival: ["Arrival", "dot", is("request_arrived")],
};

export const ANY = "notable";

// Map: kind → the steps that hold it, ascending; first what is notable of whatever kind.
export function kindsOf(runs) {
  const found = new Map([[ANY, new Set()], ...Object.keys(KINDS).map((k) => [k, new Set()])]);
  const tests = Object.entries(KINDS).map(([key, [, , test]]) => [found.get(key), test]);
  for (const { steps } of runs) {
    steps.forEach((step, k) => {
      if (isNotable(step)) found.get(ANY).add(k);
      for (const e of step.events) for (const [set, test] of tests) if (test(e)) set.add(k);
    });
  }
  return new Map([...found].filter(([, steps]) => steps.size).map(([key, steps]) => [key, [...steps].sort((a, b) => a - b)]));
}

// The next such step after k, or the one before it (by = -1); null: there is none.
export function neighbour(steps, k, by) {
  const hit = by > 0 ? steps.find((s) => s > k) : steps.findLast((s) => s < k);
  return hit ?? null;
}
