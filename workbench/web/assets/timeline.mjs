/* The timeline card: three views on one x-axis, with one cursor through all of them.
 *
 *   paper < cursor band < base canvas < cursor edges < over canvas
 *
 * Only the base canvases are expensive, and they change only when the window, the rows or the selection do. The
 * cursor is two plain boxes that move, so playing costs next to nothing.
 *
 * Invariant: every plot gets the same Scale, so marks of one step stand under each other to the pixel.
 */

import { BatchView } from './view_batch.mjs';
import { LivesView } from './view_lives.mjs';
import { StallView } from './view_stall.mjs';
import { GUTTER, MARGIN, Scale } from './scale.mjs';
import * as paint from './paint.mjs';
import { t } from './words.mjs';

const AXIS = 28, TITLE = 30, MIN_LIVES = 150;

export class Timeline {
  constructor(root, run, state) {
    Object.assign(this, { root, run, state });
    // A page may lay out fewer views than there are.
    this.views = [new BatchView(run), new LivesView(run), new StallView(run)]
      .filter((view) => root.querySelector(`[data-plot=${view.name}]`));
    this.axis = root.querySelector('[data-layer=axis]');
    this.least = root.dataset.least ? Number(root.dataset.least) : MIN_LIVES;
    for (const view of this.views) {
      const plot = root.querySelector(`[data-plot=${view.name}]`);
      Object.assign(view, {
        plot, base: plot.querySelector('.base'), over: plot.querySelector('.over'),
        band: plot.querySelector('.band'), edges: plot.querySelector('.edges'), paperBox: plot.querySelector('.paper') });
    }
    this.batch = this.views.find((view) => view.name === 'batch');
    this.lives = this.views.find((view) => view.name === 'lives');
  }

  /** Fit the views into the card; returns whether anything changed. */
  measure(available) {
    const width = this.root.clientWidth;
    this.available = available;
    const others = this.views.filter((view) => view !== this.lives).reduce((sum, view) => sum + view.height, 0);
    const fixed = AXIS + this.views.length * TITLE + others + 6;
    const lives = Math.max(this.least, Math.round(available - fixed));
    if (width === this.width && lives === this.lives.height) return false;
    this.width = width;
    this.lives.height = lives;
    for (const view of this.views) view.plot.style.height = `${view.height}px`;
    const paper = this.batch.paper();
    Object.assign(this.batch.paperBox.style, {
      left: `${GUTTER}px`, right: `${MARGIN}px`, top: `${paper.top}px`, height: `${paper.height}px` });
    return true;
  }

  /** Where steps are, for the state's window. */
  makeScale() {
    const { state } = this;
    this.scale = new Scale(this.run, state.get('a'), state.get('b'), state.get('axis'), GUTTER,
      Math.max(1, this.width - GUTTER - MARGIN));
    if (this.scale.isWide) this.findBins();
    else this.run.ensure(this.scale.a - 1, this.scale.b + 1);
  }

  /** Finer columns than the coarse ones, if the window is wide but not the whole run. */
  findBins() {
    const { scale } = this, key = `${scale.a}-${scale.b}`;
    if (this.bins?.key === key) { scale.bins = this.bins.rows; return; }
    if (scale.b - scale.a + 1 > (this.run.last - this.run.first) * 0.7 || this.binning === key) return;
    this.binning = key;
    this.run.bins(scale.a, scale.b, Math.round(scale.width)).then((rows) => {
      this.bins = { key, rows };
      this.binning = null;
      this.state.touch('rows');
    }, () => { this.binning = null; });
  }

  draw() {
    if (this.batch?.isOutgrown()) {
      this.batch.arrange();
      this.width = null;
      this.measure(this.available);
    }
    this.makeScale();
    for (const view of this.views) {
      const g = paint.fit(view.base, this.width, view.height);
      if (g) view.draw(g, this.scale, this.state);
    }
    this.drawGaps();
    this.tellNobody();
  }

  /** A filter hides everybody in this window: say so, and where the nearest one is. */
  tellNobody() {
    const box = this.lives?.plot.querySelector('.emptybox');
    if (!box) return;
    const { state } = this;
    const isFiltered = state.get('only') !== 'all' || state.get('from') !== null;
    box.hidden = !isFiltered || this.lives.rows.length > 0 || this.lives.waiting.length > 0;
    if (box.hidden) return;
    const near = this.nearest(), button = box.querySelector('button');
    button.hidden = near === null;
    box.querySelector('p').textContent = near === null ? t('lives.nowhere') : t('lives.nearest', { n: near });
    button.dataset.step = near;
    button.textContent = t('lives.goto', { n: near });
  }

  /** The step nearest to the window in which the filter leaves somebody; null: there is none. */
  nearest() {
    const { state, scale } = this;
    const steps = state.get('only') === 'preempted' ? this.run.lives.flatMap((life) => life.preempted) : [state.get('from')];
    const far = (n) => Math.max(scale.a - n, n - scale.b);
    return steps.length ? steps.reduce((best, n) => (far(n) < far(best) ? n : best)) : null;
  }

  /** Steps that are not here yet, as flat boxes where nothing coarser is known. Never a made-up picture. */
  drawGaps() {
    const missing = [];
    if (!this.scale.isWide) {
      for (let n = this.scale.a; n <= this.scale.b; n += 1) {
        if (this.run.step(n)?.done || n > this.run.last) continue;
        if (missing.length && missing.at(-1)[1] === n - 1) missing.at(-1)[1] = n; else missing.push([n, n]);
      }
    }
    const chunkFailed = [...this.run.chunks.values()].find((chunk) => chunk.failed);
    for (const view of this.views) {
      const g = view.base.getContext('2d'), p = paint.palette();
      for (const [a, b] of missing) {
        const x = this.scale.x(a), w = this.scale.x2(b) - x;
        if (view === this.lives || !this.run.coarse.length) { g.fillStyle = p.s2; g.fillRect(x, 4, w, view.height - 8); }
        if (!chunkFailed || w < 60) continue;
        g.setLineDash([3, 2]); g.strokeStyle = p.line2; g.strokeRect(x + 0.5, 4.5, w - 1, view.height - 9); g.setLineDash([]);
        paint.label(g, t('state.steps', { n: b - a + 1 }), x + w / 2, view.height / 2, { align: 'center' });
      }
    }
    this.missing = missing;
  }

  drawAxis() {
    const g = paint.fit(this.axis, this.width, AXIS), p = paint.palette(), { scale } = this;
    if (!g) return;
    const n = this.state.get('step'), x = Math.round((scale.x(n) + scale.x2(n)) / 2);
    const text = t('axis.step', { n });
    g.font = `600 11px ${p.font}`;
    const w = Math.ceil(g.measureText(text).width) + 14;
    const left = Math.max(2, Math.min(this.width - w - 2, x - w / 2));
    paint.label(g, scale.axis === 'step' ? t('axis.steps') : t('axis.time'), GUTTER - 8, AXIS / 2, { align: 'right' });
    for (const [px, label] of scale.ticks()) {
      g.fillStyle = p.line2; g.fillRect(Math.round(px), AXIS - 5, 1, 5);
      const isClear = Math.abs(px - (left + w / 2)) > w / 2 + 18 && px > GUTTER + 14;
      if (isClear) paint.label(g, label, px, AXIS / 2, { align: 'center' });
    }
    if (n < scale.a || n > scale.b) return;
    g.fillStyle = p.ink;
    g.beginPath(); g.roundRect(left, 5, w, 19, 4); g.fill();
    paint.label(g, text, left + w / 2, AXIS / 2 + 0.5, { align: 'center', colour: p.s1, bold: true });
  }

  moveCursor() {
    const n = this.state.get('step'), { scale } = this;
    const isHere = n >= scale.a && n <= scale.b;
    const x = scale.x(n), w = Math.max(2, scale.x2(n) - x);
    for (const { band, edges } of this.views) {
      for (const box of [band, edges]) {
        box.hidden = !isHere;
        box.style.transform = `translateX(${x}px)`;
        box.style.width = `${w}px`;
      }
    }
    this.drawAxis();
  }

  /** Outlines of what is pointed at and what is selected. */
  drawOver() {
    const hover = this.state.get('hover'), mark = this.state.get('card');
    for (const view of this.views) {
      const g = paint.fit(view.over, this.width, view.height), p = paint.palette();
      if (!g) continue;
      this.drawBrush(g, view, p);
      if (hover?.view === view.name) outline(g, view.rect(hover, this.scale), p.ink, 1, 1, null);
      const chosen = mark && ((mark.view || 'lives') === view.name || (view.name === 'lives' && mark.request));
      if (chosen) outline(g, view.rect(mark, this.scale), p.ink, 2, 3, p.s1);
    }
  }

  drawBrush(g, view, p) {
    const [from, to] = [this.state.get('from'), this.state.get('to')];
    if (from === null || to === null || to < this.scale.a || from > this.scale.b) return;
    const x = this.scale.x(Math.max(from, this.scale.a)), x2 = this.scale.x2(Math.min(to, this.scale.b));
    g.fillStyle = p.ink2; g.globalAlpha = 0.07; g.fillRect(x, 0, x2 - x, view.height); g.globalAlpha = 1;
    g.fillStyle = p.ink2; g.fillRect(x, 0, 1, view.height); g.fillRect(x2 - 1, 0, 1, view.height);
  }
}

/** An outline around a mark, `off` px outside it; `halo` paints the ground under it. */
export function outline(g, rect, colour, width, off, halo) {
  if (!rect) return;
  const [x, y, w, h] = rect;
  const path = () => { g.beginPath(); g.roundRect(x - off, y - off, w + 2 * off, h + 2 * off, 4); };
  if (halo) { g.strokeStyle = halo; g.lineWidth = width + 2; path(); g.stroke(); }
  g.strokeStyle = colour; g.lineWidth = width; path(); g.stroke();
}
