// Why a sequence waits or was refused, in plain words, for its lane.
import { context } from "./events.js";
import { WAITING, sentence } from "./sentences.js";
import { cap } from "./util.js";

export function waitingText(s, sv) {
  const e = s.reason;
  if (!e) return s.preempted ? "It gave its blocks away in this step and will be tried again in the next." : "It has just arrived.";
  const f = WAITING[e.reason];
  return f ? cap(f(e, context(e, {}, sv.info))) : e.reason;
}

export function refusedText(e, info) {
  if (!e) return "Refused.";
  return sentence(e, context(e, {}, info));
}
