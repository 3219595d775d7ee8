// Applies the events of a run, one step at a time, and goes to any step: forwards by applying,
// backwards from the nearest snapshot. The twin of core/trace/reducer.py; both must give the same
// JSON after every step.
import { GIVEN_BACK, Sequence, State } from "./state.js";

const SNAPSHOT_BYTES = 48e6; // what all snapshots of a run may take together

const take = (list, id) => {
  const i = list.indexOf(id);
  if (i >= 0) list.splice(i, 1);
};

// One function for each event type. `note` is filled with what the event alone does not say and
// its sentence needs: counts as they were at that moment.
export const APPLY = {
  request_arrived(st, e) {
    const prompt = st.prompts[e.request] ?? new Array(e.num_prompt_tokens).fill(null);
    for (const id of e.sequences) st.seqs.set(id, new Sequence(id, e.request, prompt));
    if (e.position === undefined) {
      for (const id of e.sequences) st.seqs.get(id).status = "rejected";
      return;
    }
    const unit = e.sequences[0];
    st.units.set(unit, e.sequences);
    st.waiting.splice(e.position, 0, unit);
  },
  request_rejected(st, e) {
    for (const s of st.seqs.values()) {
      if (s.request === e.request && s.status === "rejected") {
        s.endStep = st.step;
        s.reason = e;
      }
    }
  },
  waiting(st, e) {
    Object.assign(st.seqs.get(e.sequence), { reason: e, reasonStep: st.step });
  },
  admitted(st, e) {
    take(st.waiting, e.sequence);
    st.running.push(e.sequence);
    const s = st.seqs.get(e.sequence);
    for (const id of st.units.get(e.sequence) || []) st.seqs.get(id).status = "running";
    s.status = "running";
    s.reason = null;
    s.preempted = false;
    s.hit = e.num_cached_tokens;
    s.hitStep = st.step;
  },
  scheduled(st, e) {
    const from = e.num_computed_tokens + e.num_cached_tokens;
    st.scheduled.set(e.sequence, { n: e.num_scheduled_tokens, from, hit: e.num_cached_tokens });
    st.seqs.get(e.sequence).computed = st.keepsKV ? from + e.num_scheduled_tokens : 0;
  },
  blocks_allocated(st, e) {
    for (const b of e.blocks) st.gain(b);
    if (e.reason === "copy_on_write") return;
    const table = st.tables.get(e.sequence);
    if (table) table.push(...e.blocks);
    else st.tables.set(e.sequence, e.blocks.slice());
  },
  block_shared(st, e, note) {
    let table = st.tables.get(e.sequence);
    if (!table) st.tables.set(e.sequence, (table = []));
    while (table.length < e.index) table.push(GIVEN_BACK); // the sliding window does not reach them
    e.blocks.forEach((b, i) => {
      st.gain(b);
      if (e.cause === "hit") st.hits[b]++;
      table[e.index + i] = b;
    });
    note.refs = e.blocks.map((b) => st.ref[b]);
  },
  block_copied(st, e, note) {
    note.before = st.ref[e.src];
    st.tables.get(e.sequence)[e.index] = e.dst;
    st.drop(e.src);
    note.after = st.ref[e.src];
  },
  block_cached(st, e) {
    const seq = st.seqs.get(e.sequence);
    let parent_key = e.parent_key ?? null;
    e.blocks.forEach((b, i) => {
      const at = (e.index + i) * st.bs;
      st.setEntry(b, { tokens: seq.tokens(at, at + st.bs), key: e.keys[i], parent_key });
      parent_key = e.keys[i];
    });
    if (e.node === undefined) return;
    if (e.parent !== undefined) st.nodes.set(e.node, { id: e.node, parent: e.parent < 0 ? null : e.parent, blocks: [], tokens: [] });
    const node = st.nodes.get(e.node);
    node.blocks = node.blocks.concat(e.blocks);
    node.tokens = node.tokens.concat(...e.blocks.map((b) => st.entry[b].tokens));
    for (const b of e.blocks) st.nodeOf[b] = e.node;
  },
  block_uncached(st, e) {
    st.forget(e.block);
  },
  block_evicted(st, e) {
    for (const b of e.blocks) st.forget(b);
  },
  blocks_freed(st, e, note) {
    e.blocks.forEach((b, i) => {
      st.drop(b);
      if (e.to === "front") st.free.pushFront(b);
      else if (e.to === "back") st.free.pushBack(b);
      else if (e.to === "before") st.free.insertBefore(b, e.before[i] < 0 ? st.n : e.before[i]);
    });
    note.refs = e.blocks.map((b) => st.ref[b]);
    note.matchable = e.blocks.map((b) => st.entry[b] !== null);
    if (e.reason === "duplicate") return;
    if (e.reason === "window") {
      const table = st.tables.get(e.sequence);
      for (const l of e.entries) table[l] = GIVEN_BACK;
      return;
    }
    st.dropTable(e.sequence);
    const s = st.seqs.get(e.sequence);
    if (s.status === "held") {
      s.status = "ended";
      s.endStep = st.step;
      take(st.running, e.sequence);
    }
  },
  forked(st, e, note) {
    const unit = e.sequence ?? e.sequences[0];
    const table = st.tables.get(unit) || [];
    const first = st.seqs.get(unit);
    const arrives = e.position !== undefined; // a request that forks off a sequence of another
    if (arrives) st.running.splice(e.position, 0, ...e.sequences.slice(1));
    else st.running.splice(st.running.indexOf(unit), 1, ...e.sequences);
    for (const id of e.sequences) {
      st.units.set(id, [id]);
      if (id === unit) continue;
      // A beam that ends its text gets an id of its own; one that was pruned leaves its id to another.
      if (!st.seqs.has(id)) st.seqs.set(id, new Sequence(id, e.request, first.prompt));
      const twin = st.seqs.get(id);
      Object.assign(twin, { computed: first.computed, status: "running", endStep: -1, endReason: null });
      if (!arrives) Object.assign(twin, { hit: first.hit, hitStep: first.hitStep });
      if (e.copies_outputs) twin.outputs = first.outputs.slice();
      if (table.length) st.tables.set(id, table.slice());
      for (const b of table) if (b >= 0) st.gain(b);
    }
    note.refs = table.filter((b) => b >= 0).map((b) => st.ref[b]);
  },
  node_split(st, e) {
    const node = st.nodes.get(e.node);
    const head = node.blocks.slice(0, e.num_blocks);
    const cut = e.num_blocks * st.bs;
    st.nodes.set(e.new_parent, { id: e.new_parent, parent: node.parent, blocks: head, tokens: node.tokens.slice(0, cut) });
    for (const b of head) st.nodeOf[b] = e.new_parent;
    node.blocks = node.blocks.slice(e.num_blocks);
    node.tokens = node.tokens.slice(cut);
    node.parent = e.new_parent;
  },
  preempted(st, e) {
    if (e.sequences) st.units.set(e.sequence, e.sequences); // beams leave together, and wait as one
    st.waiting.splice(e.position, 0, e.sequence);
    for (const id of st.units.get(e.sequence) || [e.sequence]) {
      take(st.running, id);
      st.scheduled.delete(id);
      Object.assign(st.seqs.get(id), { status: "waiting", computed: 0, preempted: true, reason: null });
    }
  },
  token_sampled(st, e) {
    st.seqs.get(e.sequence).outputs.push(e.token);
  },
  pruned(st, e) {
    take(st.running, e.sequence);
    take(st.waiting, e.sequence);
    Object.assign(st.seqs.get(e.sequence), { status: "ended", endStep: st.step, endReason: "pruned" });
  },
  cancelled() {},
  finished(st, e) {
    const s = st.seqs.get(e.sequence);
    s.endReason = e.reason;
    s.endStep = st.step;
    s.reason = null;
    if (e.holds) {
      s.status = "held";
      return;
    }
    s.status = "ended";
    take(st.waiting, e.sequence);
    take(st.running, e.sequence);
  },
};
APPLY.resumed = APPLY.admitted;

export class Cursor {
  constructor(run) {
    this.run = run;
    this.length = run.steps.length;
    this.state = new State(run.header);
    this.notes = [];
    const bytes = 4 * 8 * this.state.n + 4096;
    this.every = Math.max(16, Math.ceil((this.length * bytes) / SNAPSHOT_BYTES));
    this.snapshots = [this.state.snapshot()]; // [i] is the state before step i · every
  }

  get step() {
    return this.state.step;
  }

  forward() {
    const st = this.state;
    const k = st.step + 1;
    if (k % this.every === 0 && !this.snapshots[k / this.every]) this.snapshots[k / this.every] = st.snapshot();
    st.step = k;
    st.scheduled = new Map();
    const { prompts } = this.run.steps[k];
    if (prompts) st.prompts = { ...st.prompts, ...prompts };
    this.notes = this.run.steps[k].events.map((e) => {
      const note = {};
      const apply = APPLY[e.type];
      if (apply) apply(st, e, note);
      return note;
    });
  }

  // To the state after step k. The step itself is always applied, so its notes are always there.
  seek(k) {
    if (k === this.state.step) return this.state;
    const near = Math.floor(k / this.every);
    let known = Math.min(near, this.snapshots.length - 1);
    while (known > 0 && !this.snapshots[known]) known--;
    const behind = k < this.state.step;
    if (behind || known * this.every - 1 > this.state.step) this.state.restore(this.snapshots[known]);
    while (this.state.step < k) this.forward();
    return this.state;
  }

  stateAt(k) {
    return this.seek(k).toJSON();
  }
}

export function reduce(run) {
  return new Cursor(run);
}
