// Why a sequence waits or was refused, in plain words, for its lane.
import { context } from "./events.js";
import { WAITING, sentence } from "./sentences.js";
import { cap, num } from "./util.js";

const COUNTED = new Set(["no_free_blocks", "no_contiguous_run", "watermark"]);

export function waitingText(s, sv) {
  const e = s.reason;
  if (!e) return s.preempted ? "It gave its blocks away in this step and will be tried again in the next." : "It has just arrived.";
  const f = WAITING[e.reason];
  if (!f) return e.reason;
  const why = f(e, context(e, {}, sv.info));
  // An event is sent when the reason changes, so its counts may be those of an earlier step.
  return COUNTED.has(e.reason) && s.reasonStep < sv.k ? `As of step ${num(s.reasonStep)}, ${why}` : cap(why);
}

export function refusedText(e, info) {
  if (!e) return "Refused.";
  return sentence(e, context(e, {}, info));
}
