/* The whole run in one strip, and the handle by which to move through it. The scrubber is data: waiting behind
 * running, red ticks for preemptions, a box for the window, a knob for the cursor.
 */

import * as paint from './paint.mjs';

const HEIGHT = 34, EDGE = 6;

export class Scrubber {
  constructor(root, run, state, go) {
    Object.assign(this, { root, run, state, go });
    this.canvas = root.querySelector('canvas');
    this.bound = new AbortController();
    const on = (name, use) => this.canvas.addEventListener(name, use, { signal: this.bound.signal });
    on('pointerdown', (event) => this.grab(event));
    on('pointermove', (event) => this.drag(event));
    on('pointerup', () => { this.grabbed = null; });
    on('pointercancel', () => { this.grabbed = null; });
  }

  stop() { this.bound.abort(); }

  get span() { return Math.max(1, this.run.last - this.run.first + 1); }
  x(n) { return ((n - this.run.first) / this.span) * this.width; }
  at(px) { return Math.max(this.run.first, Math.min(this.run.last, this.run.first + Math.floor((px / this.width) * this.span))); }

  draw() {
    this.width = this.root.clientWidth;
    const g = paint.fit(this.canvas, this.width, HEIGHT), p = paint.palette();
    if (!g) return;
    g.fillStyle = p.s2; g.fillRect(0, 0, this.width, HEIGHT);
    this.silhouette(g, p);
    this.knob(g, p);
  }

  silhouette(g, p) {
    const most = Math.max(1, ...this.run.coarse.map((bin) => (bin.running || 0) + (bin.waiting || 0)));
    const scale = (HEIGHT - 14) / most;
    for (const bin of this.run.coarse) {
      const x = Math.floor(this.x(bin.step)), w = Math.max(1, Math.ceil(this.x(bin.last_step + 1)) - x);
      const running = Math.max(bin.running ? 1 : 0, (bin.running || 0) * scale), waiting = (bin.waiting || 0) * scale;
      g.fillStyle = p.line2; g.fillRect(x, HEIGHT - running - waiting, w, waiting);
      g.fillStyle = p.ink3; g.fillRect(x, HEIGHT - running, w, running);
    }
    g.fillStyle = p.red;
    let last = -2;
    for (const bin of this.run.coarse) {
      const x = Math.round(this.x(bin.step));
      if (bin.preempted && x > last + 1) { g.fillRect(x, 1, 1, 8); last = x; }
    }
  }

  knob(g, p) {
    const a = Math.round(this.x(this.state.get('a'))), b = Math.max(a + 6, Math.round(this.x(this.state.get('b') + 1)));
    g.strokeStyle = p.ink2; g.lineWidth = 1.5;
    g.beginPath(); g.roundRect(a + 0.75, 0.75, b - a - 1.5, HEIGHT - 1.5, 2); g.stroke();
    const x = Math.round(this.x(this.state.get('step') + 0.5));
    g.fillStyle = p.ink;
    g.fillRect(x - 1, 0, 2, HEIGHT);
    g.beginPath(); g.arc(x, HEIGHT - 5, 4.5, 0, 7); g.fill();
  }

  // -- dragging ----------------------------------------------------------------------------------------

  grab(event) {
    this.canvas.setPointerCapture(event.pointerId);
    const px = event.offsetX, a = this.x(this.state.get('a')), b = this.x(this.state.get('b') + 1);
    const near = (edge) => Math.abs(px - edge) <= EDGE && Math.abs(px - this.x(this.state.get('step'))) > EDGE;
    this.grabbed = near(a) ? 'a' : near(b) ? 'b' : 'step';
    this.drag(event);
  }

  drag(event) {
    const n = this.at(event.offsetX);
    if (!this.grabbed) { this.cursor(event.offsetX); return; }
    const { a, b } = this.state.values;
    // An edge that is dragged over the cursor pushes the cursor along.
    if (this.grabbed === 'a' && n < b - 3) this.go.window(n, b);
    else if (this.grabbed === 'b' && n > a + 3) this.go.window(a, n);
    else if (this.grabbed === 'step') this.go.step(n, { keep: false });
  }

  cursor(px) {
    const a = this.x(this.state.get('a')), b = this.x(this.state.get('b') + 1);
    this.canvas.style.cursor = Math.min(Math.abs(px - a), Math.abs(px - b)) <= EDGE ? 'ew-resize' : 'pointer';
  }
}
