// The state of the engine as the events tell it. Nothing here sorts, searches or chooses: an event
// carries the ids and positions, and applying it is all there is to do. The only order in which
// `toJSON` lists things is the one the contract fixes.
import { FreeList } from "./freelist.js";

export const GIVEN_BACK = -1; // a table entry that names no block: the sliding window has passed it

export class Sequence {
  constructor(id, request, prompt) {
    this.id = id;
    this.request = request;
    this.prompt = prompt;
    this.outputs = [];
    this.computed = 0; // tokens whose keys and values exist after the step
    this.status = "waiting"; // waiting | running | held (ended, still holds blocks) | ended | rejected
    this.endStep = -1;
    this.endReason = null;
    this.reason = null; // why it waits: the event that said so
    this.reasonStep = -1; // and when: its numbers are those of that step
    this.preempted = false;
    this.lastTable = null; // the table it gave back, and when, to show it for that one step
    this.lastTableStep = -1;
    this.hit = 0; // tokens found in the cache at its last admission
    this.hitStep = -1;
  }

  get numTokens() {
    return this.prompt.length + this.outputs.length;
  }

  token(p) {
    return p < this.prompt.length ? this.prompt[p] : this.outputs[p - this.prompt.length];
  }

  tokens(from, to) {
    const out = [];
    for (let p = from; p < to; p++) out.push(this.token(p));
    return out;
  }

  clone() {
    const c = Object.assign(Object.create(Sequence.prototype), this);
    c.outputs = this.outputs.slice();
    return c;
  }
}

export class State {
  constructor(header) {
    const engine = header.scenario.engine;
    this.header = header;
    this.prompts = header.prompts ?? {}; // token ids by request; a live run's later ones come with a step
    this.n = engine.num_blocks;
    this.bs = engine.block_size;
    this.keepsKV = engine.kv_cache ?? true; // else every step computes all tokens again
    this.step = -1;
    this.ref = new Int32Array(this.n);
    this.hits = new Int32Array(this.n);
    this.lastRelease = new Int32Array(this.n).fill(-1);
    this.entry = new Array(this.n).fill(null); // cached: {tokens, key, parent_key}, never changed in place
    this.nodeOf = new Int32Array(this.n).fill(-1);
    this.free = new FreeList(this.n);
    this.tables = new Map(); // sequence → [block ids, or GIVEN_BACK]
    this.seqs = new Map(); // sequence → Sequence
    this.units = new Map(); // queue entry → all its sequence ids
    this.nodes = new Map(); // radix: id → {id, parent, blocks, tokens}
    this.waiting = []; // queue entries
    this.running = [];
    this.scheduled = new Map(); // this step: sequence → {n, from, hit}
    this.inUse = 0; // kept while applying, so that nobody has to count the pool
    this.numCached = 0;
    this.idleCached = 0;
    if (header.initial_state) this.begin(header.initial_state);
  }

  // A run that begins in the middle of an engine's life starts from its state then.
  begin(state) {
    this.free.replace(state.free_order);
    for (const [b, refs] of Object.entries(state.ref_counts)) {
      this.ref[b] = refs;
      if (refs) this.inUse++;
    }
    for (const [b, { tokens, key, parent_key, last_used, hits }] of Object.entries(state.cached)) {
      this.setEntry(Number(b), { tokens, key, parent_key });
      this.hits[b] = hits;
      this.lastRelease[b] = last_used;
    }
    for (const { id, parent, blocks } of state.tree) {
      this.nodes.set(id, { id, parent, blocks: blocks.slice(), tokens: blocks.flatMap((b) => this.entry[b].tokens) });
      for (const b of blocks) this.nodeOf[b] = id;
    }
    this.tables = new Map(Object.entries(state.block_tables).map(([id, table]) => [id, table.slice()]));
    const stoodFor = new Set();
    for (const [entry, known] of Object.entries(state.sequences)) {
      this.units.set(entry, known.stands_for);
      for (const id of known.stands_for) {
        const seq = new Sequence(id, known.request, this.prompts[known.request] ?? []);
        seq.outputs = (state.outputs[id] ?? []).slice();
        seq.computed = known.num_computed_tokens;
        if (known.ended) seq.status = state.running.includes(id) ? "held" : "ended";
        else seq.status = state.running.includes(id) ? "running" : "waiting";
        this.seqs.set(id, seq);
        if (id !== entry) stoodFor.add(id);
      }
    }
    this.waiting = state.waiting.filter((id) => !stoodFor.has(id));
    this.running = state.running.filter((id) => !stoodFor.has(id));
  }

  // --- reference counts, with the three totals of the pool kept in step -------------------------
  gain(b) {
    if (this.ref[b]++ === 0) {
      this.free.remove(b);
      this.inUse++;
      if (this.entry[b]) this.idleCached--;
    }
  }

  drop(b) {
    if (--this.ref[b] === 0) {
      this.inUse--;
      this.lastRelease[b] = this.step;
      if (this.entry[b]) this.idleCached++;
    }
  }

  setEntry(b, entry) {
    const had = this.entry[b] !== null;
    const has = entry !== null;
    this.entry[b] = entry;
    if (had === has) return;
    this.numCached += has ? 1 : -1;
    if (this.ref[b] === 0) this.idleCached += has ? 1 : -1;
  }

  forget(b) {
    this.setEntry(b, null);
    this.hits[b] = 0;
    const node = this.nodes.get(this.nodeOf[b]);
    this.nodeOf[b] = -1;
    if (!node) return;
    node.blocks = node.blocks.slice(0, -1);
    node.tokens = node.tokens.slice(0, -this.bs);
    if (!node.blocks.length) this.nodes.delete(node.id);
  }

  dropTable(id) {
    const table = this.tables.get(id);
    if (!table) return;
    const seq = this.seqs.get(id);
    seq.lastTable = table;
    seq.lastTableStep = this.step;
    this.tables.delete(id);
  }

  get usage() {
    return { free: this.n - this.inUse - this.idleCached, cached: this.idleCached, in_use: this.inUse };
  }

  // --- the contract's JSON ----------------------------------------------------------------------
  toJSON() {
    const ref_counts = {};
    const cached = {};
    for (let b = 0; b < this.n; b++) {
      if (this.ref[b] > 0) ref_counts[b] = this.ref[b];
      if (this.entry[b]) cached[b] = { ...this.entry[b], last_used: this.lastUsed(b), lock_ref: this.ref[b], hits: this.hits[b] };
    }
    const tree = [...this.nodes.values()]
      .sort((a, b) => a.id - b.id)
      .map((node) => ({
        id: node.id,
        parent: node.parent,
        tokens: node.tokens.slice(),
        blocks: node.blocks.slice(),
        lock_ref: this.nodeLock(node),
        last_used: this.nodeUsed(node),
      }));
    const accepted = [...this.seqs.values()].filter((s) => s.status !== "rejected");
    const expand = (list) => list.flatMap((id) => this.units.get(id) || [id]);
    return {
      block_tables: Object.fromEntries([...this.tables].filter(([, t]) => t.length).map(([id, t]) => [id, t.slice()])),
      ref_counts,
      free_order: this.free.first(),
      cached,
      tree,
      waiting: expand(this.waiting),
      running: expand(this.running),
      outputs: Object.fromEntries(accepted.map((s) => [s.id, s.outputs.slice()])),
    };
  }

  lastUsed(b) {
    return this.ref[b] > 0 ? this.step : this.lastRelease[b];
  }

  // A sequence that holds a block of a node holds every block before it, so the first block's
  // count and time are the largest of the node.
  nodeLock(node) {
    return this.ref[node.blocks[0]];
  }

  nodeUsed(node) {
    return this.lastUsed(node.blocks[0]);
  }

  snapshot() {
    const s = { step: this.step, free: this.free.snapshot() };
    for (const k of ["ref", "hits", "lastRelease", "entry", "nodeOf", "waiting", "running"]) s[k] = this[k].slice();
    for (const k of ["inUse", "numCached", "idleCached"]) s[k] = this[k];
    s.tables = [...this.tables].map(([k, t]) => [k, t.slice()]);
    s.seqs = [...this.seqs].map(([k, q]) => [k, q.clone()]);
    s.units = [...this.units];
    s.nodes = [...this.nodes].map(([k, node]) => [k, { ...node }]);
    return s;
  }

  restore(s) {
    this.step = s.step;
    this.free.restore(s.free);
    for (const k of ["ref", "hits", "lastRelease", "nodeOf"]) this[k].set(s[k]);
    for (const k of ["entry", "waiting", "running"]) this[k] = s[k].slice();
    for (const k of ["inUse", "numCached", "idleCached"]) this[k] = s[k];
    this.tables = new Map(s.tables.map(([k, t]) => [k, t.slice()]));
    this.seqs = new Map(s.seqs.map(([k, q]) => [k, q.clone()]));
    this.units = new Map(s.units);
    this.nodes = new Map(s.nodes.map(([k, node]) => [k, { ...node }]));
    this.scheduled = new Map();
  }
}
