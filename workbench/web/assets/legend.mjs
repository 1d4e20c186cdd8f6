/* How to read the pictures: each sample is drawn by the code that draws the real thing. */

import * as paint from './paint.mjs';

const W = 34, H = 14, SAMPLE = 4294967296 + 2, OTHER = 4294967296 + 5;

const DRAW = {
  queue(g, p) { g.fillStyle = paint.mix(paint.hueOf(SAMPLE), p.s1, 0.42); g.fillRect(0, 6, W, 2); },
  prefill(g) { box(g, paint.prefillFill(SAMPLE), 0, W); },
  decode(g) { g.fillStyle = paint.hueOf(SAMPLE); g.fillRect(0, 3, W, 8); },
  waste(g) { g.fillStyle = paint.recomputedFill(SAMPLE); g.fillRect(0, 3, W, 8); },
  preempted(g, p) {
    g.fillStyle = paint.hueOf(SAMPLE); g.fillRect(0, 3, 12, 8);
    paint.triangle(g, 14, 2, 6, 10);
    g.fillStyle = paint.mix(paint.hueOf(SAMPLE), p.s1, 0.42); g.fillRect(22, 6, W - 22, 2);
  },
  first(g, p) {
    box(g, paint.prefillFill(SAMPLE), 0, 15);
    g.fillStyle = paint.hueOf(SAMPLE); g.fillRect(18, 3, W - 18, 8);
    g.fillStyle = p.ink; g.fillRect(16, 1, 1, 12);
  },
  cached(g, p) {
    cell(g, (x, y, s) => {
      g.fillStyle = paint.mix(paint.hueOf(SAMPLE), p.s1, 0.16); g.fillRect(x, y, s, s);
      g.strokeStyle = paint.mix(paint.hueOf(SAMPLE), p.s1, 0.55); g.strokeRect(x + 0.5, y + 0.5, s - 1, s - 1);
      paint.label(g, '1', x + 3, y + 6, { colour: p.ink, bold: true, size: 9 });
    });
  },
  shared(g) { cell(g, (x, y, s) => { g.fillStyle = paint.hueOf(SAMPLE); g.fillRect(x, y, s / 2, s); g.fillStyle = paint.hueOf(OTHER); g.fillRect(x + s / 2, y, s / 2, s); }); },
  lost(g, p) {
    cell(g, (x, y, s) => {
      g.fillStyle = paint.hueOf(SAMPLE); g.fillRect(x, y, s, s);
      g.fillStyle = p.red; g.beginPath(); g.moveTo(x + s - 7, y); g.lineTo(x + s, y); g.lineTo(x + s, y + 7); g.fill();
    });
  },
  written(g, p) {
    cell(g, (x, y, s) => {
      g.fillStyle = paint.hueOf(SAMPLE); g.fillRect(x, y, s, s);
      g.strokeStyle = p.s1; g.strokeRect(x + 1.5, y + 1.5, s - 3, s - 3);
      g.strokeStyle = p.ink; g.lineWidth = 1.5; g.strokeRect(x, y, s, s);
    });
  },
  hues(g, p, width) {
    const w = width / paint.NUM_HUES;
    for (let turn = 0; turn < 3; turn += 1) {
      for (let i = 0; i < paint.NUM_HUES; i += 1) {
        const id = 4294967296 + turn * paint.NUM_HUES + i, x = Math.round(i * w), x2 = Math.round((i + 1) * w) - 2;
        g.fillStyle = paint.hueOf(id); g.fillRect(x, turn * 11, x2 - x, 9);
        paint.stripeBar(g, id, x, turn * 11, x2 - x, 9);
      }
    }
  },
};

function box(g, fill, x, w) {
  g.fillStyle = fill; g.fillRect(x, 3, w, 8);
  g.strokeStyle = paint.hueOf(SAMPLE); g.lineWidth = 1; g.strokeRect(x + 0.5, 3.5, w - 1, 7);
}
function cell(g, paintCell) { g.lineWidth = 1; paintCell(W / 2 - 7, 0, 14); }

export class Legend {
  constructor(root) {
    this.root = root;
    this.bound = new AbortController();
    document.addEventListener('cutaway:theme', () => { paint.repaint(); this.draw(); }, { signal: this.bound.signal });
    this.sizes = new ResizeObserver(() => this.draw());
    this.sizes.observe(root);
    const remembered = () => { try { return localStorage.getItem('cutaway-legend'); } catch { return null; } };
    if (root.tagName === 'DETAILS') {
      root.open = remembered() !== 'closed';
      root.addEventListener('toggle', () => { try { localStorage.setItem('cutaway-legend', root.open ? 'open' : 'closed'); } catch { /* no storage */ } });
    }
    this.draw();
  }

  stop() { this.bound.abort(); this.sizes.disconnect(); }

  draw() {
    for (const canvas of this.root.querySelectorAll('canvas[data-swatch]')) {
      const kind = canvas.dataset.swatch, width = kind === 'hues' ? canvas.parentElement.clientWidth : W;
      const g = paint.fit(canvas, width, kind === 'hues' ? 31 : H);
      if (g) DRAW[kind](g, paint.palette(), width);
    }
  }
}
