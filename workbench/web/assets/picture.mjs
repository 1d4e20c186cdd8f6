/* A run's small picture: waiting as a silhouette with red ticks above, and one lane per running slot below. */

import { ask } from './fetch.mjs';
import * as paint from './paint.mjs';

const HEIGHT = 96, TICKS = 8, HILL = 24;

export class RunPicture {
  constructor(root) {
    this.root = root;
    this.canvas = root.querySelector('canvas');
    this.bound = new AbortController();
    document.addEventListener('cutaway:theme', () => { paint.repaint(); this.draw(); }, { signal: this.bound.signal });
    this.sizes = new ResizeObserver(() => this.draw());
    this.sizes.observe(root);
    // Cards below the fold ask for their picture when they come into view.
    this.seen = new IntersectionObserver((entries) => { if (entries.some((e) => e.isIntersecting)) this.load(); });
    this.seen.observe(root);
  }

  stop() { this.bound.abort(); this.sizes.disconnect(); this.seen.disconnect(); }

  async load() {
    this.seen.disconnect();
    try {
      this.data = await ask(`/data/runs/${encodeURIComponent(this.root.dataset.run)}/picture`);
    } catch { this.root.classList.add('failed'); return; }
    const card = this.root.closest('.runcard');
    for (const node of card?.querySelectorAll('[data-number]') || []) this.number(node, this.data.numbers[node.dataset.number]);
    this.draw();
  }

  number(node, value) {
    const isShare = node.dataset.share !== undefined;
    if (value === null || value === undefined) node.textContent = '–';
    else node.textContent = isShare ? `${Math.round(value * 100)} %` : value.toLocaleString('en-US');
    node.classList.toggle('alarm', node.dataset.number === 'preemptions' && value > 0);
  }

  draw() {
    const width = this.root.clientWidth;
    if (!this.data || !width) return;
    const g = paint.fit(this.canvas, width, HEIGHT), p = paint.palette();
    const { first, last, columns, rows, lanes } = this.data;
    const at = Object.fromEntries(columns.map((name, i) => [name, i]));
    const x = (n) => ((n - first) / Math.max(1, last - first + 1)) * width;
    const bins = rows.map((row) => ({ x: x(row[at.step]), x2: x(row[at.last_step] + 1), waiting: row[at.waiting] || 0, running: row[at.running] || 0, preempted: row[at.preempted] }));
    this.hill(g, bins, 'waiting', TICKS + HILL, HILL, p.line2);
    g.fillStyle = p.line2; g.fillRect(0, TICKS + HILL, width, 1);
    g.fillStyle = p.red;
    for (const bin of bins) if (bin.preempted) g.fillRect(Math.round(bin.x), 0, 1, 6);
    if (lanes === null) this.hill(g, bins, 'running', HEIGHT, HEIGHT - TICKS - HILL - 6, p.ink3);
    else this.lanes(g, lanes, x, p);
    this.canvas.dataset.drawn = 'true';
  }

  hill(g, bins, name, base, height, colour) {
    const most = Math.max(1, ...bins.map((bin) => bin[name]));
    g.fillStyle = colour;
    for (const bin of bins) {
      const h = Math.round((bin[name] / most) * height);
      g.fillRect(Math.floor(bin.x), base - h, Math.max(1, Math.ceil(bin.x2) - Math.floor(bin.x)), h);
    }
  }

  lanes(g, lanes, x, p) {
    const num = Math.max(1, ...lanes.map(([lane]) => lane + 1)), room = HEIGHT - TICKS - HILL - 6;
    const pitch = Math.max(1, Math.min(9, room / num)), h = Math.max(1, Math.floor(pitch) - (pitch >= 3 ? 1 : 0));
    for (const [lane, id, from, decodes, to] of lanes) {
      const y = Math.round(HEIGHT - (lane + 1) * pitch), hue = paint.hueOf(id);
      const a = Math.round(x(from)), m = Math.round(x(decodes)), b = Math.max(m, Math.round(x(to + 1)));
      g.fillStyle = paint.mix(hue, p.s1, 0.45); g.fillRect(a, y, Math.max(1, m - a), h);
      g.fillStyle = hue; g.fillRect(m, y, Math.max(0, b - m - (b - a > 4 ? 1 : 0)), h);
    }
  }
}
