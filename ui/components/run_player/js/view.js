// What the pictures need to know of one step, gathered once and shared by all of them: for each
// block who holds it, how far it is filled and what was written in this step.
export class StepView {
  constructor(info, state, step) {
    this.info = info;
    this.state = state;
    this.step = step;
    this.k = state.step;
    this.events = step.events;
    const { n, bs } = info;
    this.holder = new Array(n).fill(null); // the first sequence that holds it
    this.entry = new Int32Array(n).fill(-1); // where in that sequence's table
    this.fill = new Int32Array(n);
    this.tint = new Int16Array(n).fill(-1); // twice the holder's colour, and 1 if it is filled in part
    this.wrote = new Map(); // block → [first slot, last slot + 1] written in this step
    this.slotsHeld = 0;
    this.slotsFilled = 0;
    for (const [id, table] of state.tables) {
      const computed = state.seqs.get(id).computed;
      const color = 2 * info.color(id);
      for (let l = 0; l < table.length; l++) {
        const b = table[l];
        if (b < 0) continue;
        const fill = Math.max(0, Math.min(bs, computed - l * bs));
        if (this.holder[b] === null) {
          this.holder[b] = id;
          this.entry[b] = l;
          this.slotsHeld += bs;
        }
        if (fill > this.fill[b]) {
          this.slotsFilled += fill - this.fill[b];
          this.fill[b] = fill;
        }
        this.tint[b] = (this.tint[b] < 0 ? color : this.tint[b] & ~1) | (this.fill[b] < bs ? 1 : 0);
      }
    }
    let budget = 0;
    for (const [id, s] of state.scheduled) {
      budget += s.n;
      const table = state.tables.get(id);
      if (!table) continue;
      for (let p = s.from; p < s.from + s.n; ) {
        const l = Math.floor(p / bs);
        const end = Math.min((l + 1) * bs, s.from + s.n);
        if (table[l] >= 0) this.wrote.set(table[l], [p - l * bs, end - l * bs]);
        p = end;
      }
    }
    this.tokensInStep = budget;
    this.copies = step.events.filter((e) => e.type === "block_copied");
    this.copy = this.copies[0] ?? null;
    this.order = new Map(state.free.first(Math.min(n, 64)).map((b, i) => [b, i]));
  }

  kind(b) {
    return this.state.ref[b] > 0 ? "used" : this.state.entry[b] ? "idle" : "free";
  }

  // Every sequence that names the block: [[sequence, entry], …]. Only asked for single blocks or
  // small pools.
  holders(b) {
    const out = [];
    if (!this.state.ref[b]) return out;
    for (const [id, table] of this.state.tables) {
      const l = table.indexOf(b);
      if (l >= 0) out.push([id, l]);
    }
    return out;
  }

  // The tokens in its slots, as far as they are filled.
  tokens(b) {
    const id = this.holder[b];
    if (id !== null) {
      const from = this.entry[b] * this.info.bs;
      return this.state.seqs.get(id).tokens(from, from + this.fill[b]);
    }
    return this.state.entry[b] ? this.state.entry[b].tokens : [];
  }

  // The place in the free order; beyond the first few it is counted only when asked for.
  place(b) {
    if (this.order.has(b)) return this.order.get(b);
    if (this.state.ref[b] > 0) return -1;
    const f = this.state.free;
    let i = 0;
    for (let x = f.next[f.n]; x !== f.n; x = f.next[x], i++) if (x === b) return i;
    return -1;
  }
}
