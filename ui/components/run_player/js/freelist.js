// The free order as a doubly linked list over block ids: every removal and insertion an event
// asks for costs the same whatever the size of the pool. Index n is the sentinel that closes the
// ring: next[n] is the front, prev[n] the back.

const OUT = -1;

export class FreeList {
  constructor(n) {
    this.n = n;
    this.next = new Int32Array(n + 1);
    this.prev = new Int32Array(n + 1);
    for (let i = 0; i <= n; i++) {
      this.next[i] = i === n ? 0 : i + 1;
      this.prev[i] = i === 0 ? n : i - 1;
    }
    this.size = n;
  }

  // Start again with these blocks, in this order.
  replace(order) {
    for (let b = 0; b < this.n; b++) this.remove(b);
    for (const b of order) this.pushBack(b);
  }

  has(b) {
    return this.next[b] !== OUT;
  }

  remove(b) {
    if (this.next[b] === OUT) return false;
    this.next[this.prev[b]] = this.next[b];
    this.prev[this.next[b]] = this.prev[b];
    this.next[b] = this.prev[b] = OUT;
    this.size--;
    return true;
  }

  insertBefore(b, where) {
    const before = this.prev[where];
    this.next[before] = b;
    this.prev[b] = before;
    this.next[b] = where;
    this.prev[where] = b;
    this.size++;
  }

  pushFront(b) {
    this.insertBefore(b, this.next[this.n]);
  }

  pushBack(b) {
    this.insertBefore(b, this.n);
  }

  // The first `limit` ids in the order in which they would be taken.
  first(limit = this.size) {
    const out = [];
    for (let b = this.next[this.n]; b !== this.n && out.length < limit; b = this.next[b]) out.push(b);
    return out;
  }

  snapshot() {
    return { next: this.next.slice(), prev: this.prev.slice(), size: this.size };
  }

  restore(s) {
    this.next.set(s.next);
    this.prev.set(s.prev);
    this.size = s.size;
  }
}
