// How the page ranks and names the kinds of event.
import { sentence } from "./sentences.js";
import { list, num, plural } from "./util.js";

// What a sentence may look up beside the event itself.
export const context = (e, note, info) => ({ engine: info.engine, info, note, prompt: info.header.prompts?.[e.request]?.length });

// type → [short title, icon]
export const KIND = {
  block_copied: ["Copy-on-write", "copy"],
  request_rejected: ["Refused", "stop"],
  preempted: ["Preempted", "warn"],
  forked: ["Fork", "fork"],
  pruned: ["Pruned", "close"],
  cancelled: ["Cancelled", "close"],
  node_split: ["Node split", "split"],
  block_evicted: ["Evicted", "evict"],
  waiting: ["Waits", "wait"],
  finished: ["Finished", "flag"],
  resumed: ["Resumed", "in"],
  admitted: ["Admitted", "in"],
  block_shared: ["Shared", "branch"],
  blocks_freed: ["Given back", "out"],
  blocks_allocated: ["New block", "plus"],
  block_uncached: ["No longer cached", "key"],
  block_cached: ["Block full", "key"],
  request_arrived: ["Arrives", "dot"],
  scheduled: ["Computes", "pen"],
  token_sampled: ["Samples", "token"],
};

// The most telling first; the first one found in a step is its headline.
export const RANK = Object.keys(KIND);
const NOTABLE = new Set(["block_copied", "request_rejected", "preempted", "forked", "node_split", "block_evicted", "waiting"]);
const MARKS = RANK.slice(0, RANK.indexOf("resumed") + 1).concat("request_arrived");

export const rankOf = (e) => {
  const i = RANK.indexOf(e.type);
  return i < 0 ? RANK.length : i;
};

export function topEvent(events) {
  let best = null;
  for (const e of events) if (!best || rankOf(e) < rankOf(best)) best = e;
  return best && rankOf(best) <= RANK.indexOf("block_cached") ? best : null;
}

export const isNotable = (step) => step.events.some((e) => NOTABLE.has(e.type));

export function marksOf(step) {
  const seen = new Set(step.events.map((e) => e.type));
  return MARKS.filter((t) => seen.has(t));
}

export function headline(step, notes, info) {
  const e = topEvent(step.events);
  if (!e) {
    const n = Object.keys(step.scheduled).length;
    if (n && !info.keepsKV) {
      const who = n === 1 ? "The running sequence computes all of its tokens" : `Each of ${num(n)} sequences computes all of its tokens`;
      return { event: null, title: "Computed again", icon: "dot", text: `${who} again to sample one more. Nothing is kept, so no block is taken.` };
    }
    return {
      event: null,
      title: n ? "Decode" : "Idle",
      icon: "dot",
      text: n
        ? `${n === 1 ? "The running sequence computes" : `Each of ${num(n)} sequences computes`} what it sampled last and samples the next. No block changes hands.`
        : "Nothing runs in this step; the next request is still to arrive.",
    };
  }
  const i = step.events.indexOf(e);
  const more = step.events.filter((x) => x.type === e.type).length - 1;
  const [title, icon] = KIND[e.type];
  return { event: e, title, icon, more, text: sentence(e, context(e, notes[i], info)) };
}

// Events that every step has are told in one line for all sequences.
export function routine(type, events, info) {
  const one = events.length === 1;
  if (type === "scheduled") {
    const total = events.reduce((a, e) => a + e.num_scheduled_tokens, 0);
    return `${plural(events.length, "sequence")} ${one ? "computes" : "compute"} ${plural(total, "token")}: ${list(events.map((e) => `${e.sequence} ${num(e.num_scheduled_tokens)}`))}.`;
  }
  return `${plural(events.length, "sequence")} ${one ? "samples one token" : "sample one token each"}: ${list(events.map((e) => `${e.sequence} ${info.quote([e.token])}`), 5)}.`;
}
