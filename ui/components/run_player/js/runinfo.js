// What can be known of a run before it is played: names, colours, token texts, the height its
// lanes will need, and which events each step holds.
import { Cursor } from "./reducer.js";
import { num, plural, range } from "./util.js";

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const PALETTE = 10;

export const requestOf = (seq) => (seq.includes("#") ? seq.slice(0, seq.lastIndexOf("#")) : seq);

// 0 → A, 25 → Z, 26 → AA
export function letterOf(i) {
  let s = "";
  for (let n = i; n >= 0; n = Math.floor(n / 26) - 1) s = String.fromCharCode(65 + (n % 26)) + s;
  return s;
}

const middle = (id, max) => (id.length <= max ? id : `${id.slice(0, Math.ceil((max - 1) / 2))}…${id.slice(-Math.floor((max - 1) / 2))}`);

export function dateOf(iso) {
  const d = new Date(iso);
  return Number.isNaN(d.getTime()) ? null : `${d.getUTCDate()} ${MONTHS[d.getUTCMonth()]} ${d.getUTCFullYear()}`;
}

// Milliseconds of a step; null where no model ran.
export function msOf(timing) {
  const us = (timing?.forward_us ?? 0) + (timing?.sample_us ?? 0);
  return us > 0 ? (us + (timing.schedule_us ?? 0)) / 1000 : null;
}

export class RunInfo {
  constructor(run) {
    const { header, steps } = run;
    this.run = run;
    this.header = header;
    this.engine = header.scenario.engine;
    this.keepsKV = this.engine.kv_cache ?? true;
    this.bs = this.engine.block_size;
    this.n = this.engine.num_blocks;
    this.name = header.scenario.name || "A run";
    this.tokenText = header.token_text || {};
    this.bytesPerToken = header.kv_bytes_per_token ?? null;
    this.window = header.sliding_window ?? null;
    this.contiguous = this.engine.allocator === "contiguous";
    this.cacheOn = this.engine.prefix_cache !== "off";
    this.radix = this.engine.prefix_cache === "radix" && !this.contiguous;
    this.index = new Map(header.scenario.requests.map((r, i) => [r.id, i]));
    this.shortIds = header.scenario.requests.every((r) => r.id.length <= 2);
    this.scan(run, steps);
  }

  // One pass over the whole run, so that nothing on the page has to grow while it plays.
  scan(run, steps) {
    const cursor = (this.cursor = new Cursor(run)); // it has been everywhere, so it knows its way back
    this.maxLanes = 1;
    this.maxBlocks = 1;
    this.maxTokens = 1;
    this.maxNodes = 0;
    this.tokens = [];
    this.running = []; // by step, without those that have ended and only hold their blocks
    this.waiting = [];
    for (let k = 0; k < steps.length; k++) {
      const st = cursor.seek(k);
      let ended = 0;
      for (const e of steps[k].events) if ((e.type === "finished" && !e.holds) || e.type === "request_rejected") ended++;
      this.maxLanes = Math.max(this.maxLanes, st.running.length + st.waiting.length + ended);
      this.maxNodes = Math.max(this.maxNodes, st.nodes.size);
      for (const [id, t] of st.tables) {
        this.maxBlocks = Math.max(this.maxBlocks, t.length);
        this.maxTokens = Math.max(this.maxTokens, st.seqs.get(id).numTokens);
      }
      let total = 0;
      for (const s of st.scheduled.values()) total += s.n;
      this.tokens.push(total);
      this.running.push(st.running.reduce((a, id) => a + (st.seqs.get(id).status === "held" ? 0 : 1), 0));
      this.waiting.push(st.waiting.length);
    }
    this.maxStepTokens = this.tokens.reduce((a, b) => Math.max(a, b), 1);
  }

  requestIndex(seq) {
    return this.index.get(requestOf(seq)) ?? 0;
  }

  color(seq) {
    return this.requestIndex(seq) % PALETTE;
  }

  // Why an entry of a block table names no block.
  passed(id, entry) {
    const from = entry * this.bs;
    return `Entry ${num(entry)} of ${id} names no block: the model sees only the last ${plural(this.window, "token")}, and tokens ${range(from, from + this.bs - 1)} lie before them.`;
  }

  // One or two letters for small cells: the id itself where all ids are that short.
  letter(seq) {
    return this.shortIds ? requestOf(seq) : letterOf(this.requestIndex(seq));
  }

  // The id as a badge shows it; the full id is in the tooltip.
  short(seq) {
    const r = requestOf(seq);
    return middle(r, 7) + seq.slice(r.length);
  }

  // `header.token_text` where there is any. A scripted output token of the default script
  // (10⁶·(request + 1) + 10⁴·sequence + j) is written "+j"; anything else is its number.
  word(token) {
    if (token === null || token === undefined) return "·";
    const t = this.tokenText[token];
    if (t !== undefined) return t;
    return token >= 1e6 && this.header.source?.model === "none" ? `+${token % 1e4}` : String(token);
  }

  // The same where words are joined: one without a text, a scripted "+j" or a number, stands apart.
  joint(token) {
    const bare = token !== null && token !== undefined && this.tokenText[token] === undefined;
    return bare ? ` ${this.word(token)}` : this.word(token);
  }

  // White space made visible, for places where a word stands alone.
  show(token) {
    const w = this.word(token);
    return w.trim() === "" ? w.replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/ /g, "␣") || "␣" : w.replace(/\n/g, "⏎").replace(/\t/g, "⇥");
  }

  // The name inside a control token such as <|im_start|>, which stands for no text; else null.
  special(token) {
    return /^<\|([^<>|]+)\|>$/.exec(this.word(token))?.[1] ?? null;
  }

  // A model's tokens carry their own spaces; scripted words and numbers have none.
  quote(tokens) {
    const spaced = this.header.source?.model && this.header.source.model !== "none";
    const words = spaced && tokens.length > 1 ? tokens.map((t) => this.joint(t).replace(/\n/g, "⏎").replace(/\t/g, "⇥")).join("") : tokens.map((t) => this.show(t).trim()).join(" ");
    return `“${words.trim()}”`;
  }
}
