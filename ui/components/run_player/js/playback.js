// Where a player stands in its run, and how it gets elsewhere: step by step, to an event, by playing.
import { neighbour } from "./kinds.js";
import { clamp } from "./util.js";

const FRAME = 1100; // milliseconds a step stays at speed 1
const COMMIT_AFTER = 500;

export class Playback {
  k = 0;
  speed = 1;
  stop = null; // ends the playing, while there is any

  go(k) {
    const to = clamp(k, 0, Math.max(0, this.last));
    if (to === this.k && this.sv) return;
    this.k = to;
    for (const p of this.shown) p.follow(to);
    this.draw();
    if (!this.stop) this.say(this.headlineText);
  }

  jumpTo(k) {
    this.pause();
    this.go(k);
    this.commit();
  }

  toggle() {
    if (this.stop) {
      this.pause();
      this.commit();
    } else this.play();
  }

  play() {
    if (this.empty) return;
    if (this.k >= this.last) this.go(0);
    const tick = () => {
      if (this.k >= this.last) {
        this.pause();
        this.commit();
        return;
      }
      this.go(this.k + 1);
      this.later(tick, FRAME / this.speed);
    };
    this.later(tick, FRAME / this.speed / 2);
    this.controls.playing(true);
  }

  // At the greatest speed, a step a frame of the screen.
  later(tick, wait) {
    if (wait) {
      const timer = setTimeout(tick, wait);
      this.stop = () => clearTimeout(timer);
    } else {
      const frame = requestAnimationFrame(tick);
      this.stop = () => cancelAnimationFrame(frame);
    }
  }

  pause() {
    if (!this.stop) return;
    this.stop();
    this.stop = null;
    this.controls.playing(false);
  }

  setSpeed(v) {
    this.speed = v;
  }

  // Tells Python where the reader has stopped, once they have.
  commit() {
    clearTimeout(this.commitTimer);
    this.commitTimer = setTimeout(() => {
      if (this.stop || this.committedStep === this.k) return;
      this.committedStep = this.k;
      this.setStateValue?.("step", this.k);
    }, COMMIT_AFTER);
  }

  jump(by = 1) {
    const k = neighbour(this.kinds.get(this.kind) ?? [], this.k, by);
    if (k === null) this.say(`There is no such event ${by > 0 ? "after" : "before"} this step.`);
    else this.go(k);
  }
}
