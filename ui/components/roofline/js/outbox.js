// What the reader changed, on its way to Python: one change in flight at a time, and the newest waits
// for the answer to the one before.
const PAUSE_MS = 8; // half a frame: movements within it go together
const PATIENCE_MS = 1500; // an answer that has not come by then is waited for no longer

export class Outbox {
  constructor(send) {
    this.deliver = send;
    this.seq = 0; // of the last change that went
    this.waits = null; // {seq, at} of one whose answer has not come
    this.pending = null; // what goes next
  }

  dispose() {
    clearTimeout(this.timer);
  }

  // Whether something is on its way, or about to go.
  get busy() {
    return this.pending !== null || this.waits !== null;
  }

  // An answer has come. Whether the reader has moved on since it was asked for.
  answered(seq) {
    if (this.waits && seq >= this.waits.seq) this.waits = null;
    const newer = this.pending !== null || seq < this.seq;
    this.seq = Math.max(this.seq, seq);
    if (this.pending && !this.waits) this.send();
    return newer;
  }

  // pause: how long to wait for more of the same, in milliseconds
  put(change, pause = PAUSE_MS) {
    this.pending = { ...this.pending, ...change };
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.send(), pause);
  }

  send() {
    if (!this.pending) return;
    clearTimeout(this.timer);
    if (this.waits && performance.now() - this.waits.at < PATIENCE_MS) {
      this.timer = setTimeout(() => this.send(), PATIENCE_MS);
      return;
    }
    const place = this.pending;
    this.pending = null;
    this.seq += 1;
    this.waits = { seq: this.seq, at: performance.now() };
    this.deliver({ seq: this.seq, place });
  }
}
