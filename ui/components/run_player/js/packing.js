// A run as it travels (packing.py says how it is made), and the run that it stands for.
import { requestOf } from "./runinfo.js";

const SCHEDULED = -1;
const SAMPLED = -2;
const NAME_FIELDS = new Set(["request", "sequence"]);

class Unpacker {
  constructor({ names, shapes }) {
    this.names = names;
    this.shapes = shapes;
    this.requests = names.map(requestOf);
    // By the number of a sequence: tokens known after its last turn, and what it sampled last; by
    // its name: the key of its last block that became matchable.
    this.end = new Array(names.length).fill(0);
    this.token = new Array(names.length).fill(0);
    this.key = new Map();
  }

  step(k, short) {
    const events = [];
    const shares = {};
    for (const row of short.events) {
      if (row[0] === SCHEDULED) for (let i = 1; i < row.length; i++) events.push(this.scheduled(row[i], shares));
      else if (row[0] === SAMPLED) for (let i = 1; i < row.length; i++) events.push(this.sampled(row[i]));
      else events.push(this.event(row, shares));
    }
    const out = { step: k, scheduled: shares, ...short, events };
    if (Array.isArray(out.usage)) {
      const [free, cached, in_use] = out.usage;
      out.usage = { free, cached, in_use };
    }
    return out;
  }

  scheduled(entry, shares) {
    const goesOn = typeof entry === "number";
    const i = goesOn ? entry : entry[0];
    const num_scheduled_tokens = goesOn ? 1 : entry[1];
    const num_computed_tokens = goesOn ? this.end[i] : entry[2];
    const num_cached_tokens = goesOn ? 0 : entry[3];
    this.end[i] = num_scheduled_tokens + num_computed_tokens + num_cached_tokens;
    const sequence = this.names[i];
    shares[sequence] = { num_scheduled_tokens, num_computed_tokens, num_cached_tokens };
    return { type: "scheduled", request: this.requests[i], sequence, num_scheduled_tokens, num_computed_tokens, num_cached_tokens };
  }

  sampled(entry) {
    const oneMore = typeof entry === "number";
    const i = oneMore ? entry : entry[0];
    this.token[i] = oneMore ? this.token[i] + 1 : entry[1];
    return { type: "token_sampled", request: this.requests[i], sequence: this.names[i], token: this.token[i] };
  }

  event(row, shares) {
    const e = { type: row[1] };
    const shape = this.shapes[row[0]];
    for (let i = 0; i < shape.length; i++) {
      const field = shape[i];
      const v = row[i + 2];
      if (NAME_FIELDS.has(field)) e[field] = this.names[v];
      else if (field === "sequences") e[field] = v.map((n) => this.names[n]);
      else e[field] = field === "parent_key" && v === 1 ? this.key.get(e.sequence) : v;
    }
    if (e.type === "block_cached" && e.keys.length) this.key.set(e.sequence, e.keys[e.keys.length - 1]);
    if (e.type === "scheduled") {
      const { num_scheduled_tokens, num_computed_tokens, num_cached_tokens } = e;
      shares[e.sequence] = { num_scheduled_tokens, num_computed_tokens, num_cached_tokens };
    }
    return e;
  }
}

export function unpack(short) {
  if (!short.packed) return short;
  const { packed, names, shapes, header, ...rest } = short;
  const unpacker = new Unpacker(short);
  const requests = header.scenario.requests.map((r) => (r.prompt_tokens === 1 ? { ...r, prompt_tokens: header.prompts[r.id] } : r));
  return { ...rest, header: { ...header, scenario: { ...header.scenario, requests } }, steps: short.steps.map((s, k) => unpacker.step(k, s)) };
}

function bytesOf(base64) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
  const text = atob(base64);
  const out = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) out[i] = text.charCodeAt(i);
  return out;
}

const inflate = (base64) => new Response(new Blob([bytesOf(base64)]).stream().pipeThrough(new DecompressionStream("gzip"))).text();

// A run from what `PackedRun.plain` gives.
export const readRun = (text) => unpack(JSON.parse(text));

// A run from what `PackedRun.text` gives: at once where it can be, else as a promise.
export function openRun(given) {
  return given.startsWith("H4sI") ? inflate(given).then(readRun) : readRun(given);
}
