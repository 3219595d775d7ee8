// Where the blocks of a large pool lie on the screen: whole, or a window of it. Lengths are CSS pixels.
import { clamp } from "./util.js";

const LARGEST = 44; // a block's side, zoomed in as far as it goes
const WHOLE = 16; // and when the whole pool is seen, at most

export class MapView {
  constructor(n, largest = WHOLE) {
    this.n = n;
    this.largest = largest;
    this.zoom = 1;
    this.x = 0; // of the window's corner in the picture of the whole at this size
    this.y = 0;
  }

  // The whole pool in `width`, about `tall` high: squares of whole pixels as long as there is room.
  fit(width, tall, scale = 1) {
    const { n } = this;
    const rows = (size) => Math.ceil(n / Math.floor(width / size));
    let size = this.largest;
    while (size > 1 && rows(size) * size > (size > 2 ? tall : 1.5 * tall)) size--;
    if (rows(size) * size > 1.5 * tall) size = Math.sqrt((width * 1.5 * tall) / n);
    const key = `${size}|${width}|${scale}`;
    if (this.key === key) return;
    this.key = key;
    this.least = size;
    this.columns = Math.max(1, Math.min(n, Math.floor(width / size)));
    this.rows = Math.ceil(n / this.columns);
    this.width = this.columns * size;
    this.height = this.rows * size;
    this.most = Math.max(size, LARGEST * scale);
    this.place(this.zoom, this.x, this.y);
  }

  get zoomed() {
    return this.size > this.least;
  }

  place(zoom, x, y) {
    this.zoom = clamp(zoom, 1, this.most / this.least);
    const size = this.least * this.zoom;
    this.size = this.zoom > 1 && size >= 3 ? Math.round(size) : size;
    this.x = clamp(Math.round(x), 0, Math.max(0, Math.floor(this.columns * this.size - this.width)));
    this.y = clamp(Math.round(y), 0, Math.max(0, Math.floor(this.rows * this.size - this.height)));
  }

  // What lies at (px, py) on the screen stays there.
  zoomAt(factor, px, py) {
    const before = this.size;
    const [x, y] = [this.x, this.y];
    this.place(this.zoom * factor, x, y);
    const grown = this.size / before;
    this.place(this.zoom, (x + px) * grown - px, (y + py) * grown - py);
  }

  whole() {
    this.place(1, 0, 0);
  }

  pan(dx, dy) {
    this.place(this.zoom, this.x + dx, this.y + dy);
  }

  // The window's middle over a share of the whole.
  centre(fx, fy) {
    this.place(this.zoom, fx * this.columns * this.size - this.width / 2, fy * this.rows * this.size - this.height / 2);
  }

  // The block's corner on the screen.
  xy(b) {
    return [(b % this.columns) * this.size - this.x, Math.floor(b / this.columns) * this.size - this.y];
  }

  reveal(b) {
    const [x, y] = this.xy(b);
    const out = (at, room) => (at < 0 ? at : at + this.size > room ? at + this.size - room : 0);
    this.pan(out(x, this.width), out(y, this.height));
  }

  blockAt(px, py) {
    if (px < 0 || py < 0 || px >= this.width || py >= this.height) return null;
    const column = Math.floor((px + this.x) / this.size);
    const b = Math.floor((py + this.y) / this.size) * this.columns + column;
    return column < this.columns && b < this.n ? b : null;
  }

  // [first column, end), [first row, end) of what is in the window, in part or whole.
  get window() {
    const to = (at, room, most) => Math.min(most, Math.ceil((at + room) / this.size));
    return [Math.floor(this.x / this.size), to(this.x, this.width, this.columns), Math.floor(this.y / this.size), to(this.y, this.height, this.rows)];
  }
}
