// Wheel, pinch and drag on the map of a large pool, and on its overview.
const WHEEL = 0.0022; // a notch of a mouse's wheel is about 100: a quarter nearer
const CLICK = 5; // pixels a press may move and still be a click
const SCROLLED = 400; // milliseconds after the page has scrolled in which the wheel is still the page's

export class MapGestures {
  constructor(map) {
    this.map = map;
    this.held = new Map(); // pointers that are down: id → [x, y]
    this.scrolled = -SCROLLED;
    this.onScroll = (e) => {
      if (e.target?.contains?.(map.canvas.getRootNode().host ?? map.canvas)) this.scrolled = e.timeStamp;
    };
    document.addEventListener("scroll", this.onScroll, { capture: true, passive: true });
    const { canvas, overview } = map;
    canvas.onwheel = (e) => this.onWheel(e);
    canvas.onpointerdown = (e) => this.down(e);
    canvas.onpointermove = (e) => this.move(e);
    canvas.onpointerup = (e) => this.up(e);
    canvas.onpointercancel = (e) => this.held.delete(e.pointerId);
    overview.onpointerdown = (e) => {
      overview.setPointerCapture(e.pointerId);
      this.centre(e);
    };
    overview.onpointermove = (e) => e.buttons && this.centre(e);
  }

  dispose() {
    document.removeEventListener("scroll", this.onScroll, { capture: true });
  }

  // The wheel zooms, unless the page is being scrolled and the map has only slid under the pointer,
  // or there is nothing further away to see. A pinch on a touchpad comes as a wheel with Ctrl.
  onWheel(e) {
    const { view } = this.map;
    if (!e.ctrlKey && (e.timeStamp - this.scrolled < SCROLLED || (e.deltaY > 0 && !view.zoomed))) return;
    e.preventDefault();
    const lines = e.deltaMode === 1 ? 33 : 1;
    const r = this.map.canvas.getBoundingClientRect();
    this.map.zoom(Math.exp(-e.deltaY * lines * WHEEL * (e.ctrlKey ? 4 : 1)), e.clientX - r.left, e.clientY - r.top);
  }

  down(e) {
    if (e.button > 0) return;
    this.held.set(e.pointerId, [e.clientX, e.clientY]);
    this.began = [e.clientX, e.clientY];
    this.moved = this.held.size > 1;
    if (this.map.view.zoomed || this.held.size > 1) this.map.canvas.setPointerCapture(e.pointerId);
  }

  move(e) {
    const before = this.held.get(e.pointerId);
    if (!before) return;
    const now = [e.clientX, e.clientY];
    if (Math.hypot(now[0] - this.began[0], now[1] - this.began[1]) > CLICK) this.moved = true;
    if (!this.moved) return;
    this.held.set(e.pointerId, now);
    const others = [...this.held].filter(([id]) => id !== e.pointerId);
    if (!others.length) {
      if (this.map.view.zoomed) this.map.pan(before[0] - now[0], before[1] - now[1]);
      return;
    }
    const [, fixed] = others[0];
    const apart = (p) => Math.max(8, Math.hypot(p[0] - fixed[0], p[1] - fixed[1]));
    const r = this.map.canvas.getBoundingClientRect();
    this.map.zoom(apart(now) / apart(before), (now[0] + fixed[0]) / 2 - r.left, (now[1] + fixed[1]) / 2 - r.top);
  }

  up(e) {
    if (!this.held.delete(e.pointerId) || this.moved) return;
    const b = this.map.blockAt(e);
    if (b !== null) this.map.choose(b);
  }

  centre(e) {
    const r = this.map.overview.getBoundingClientRect();
    this.map.view.centre((e.clientX - r.left) / r.width, (e.clientY - r.top) / r.height);
    this.map.again();
  }
}
