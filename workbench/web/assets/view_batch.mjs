/* V1, the batch strip: who is in each step, and how many tokens each one gets.
 *
 * Small budgets have one linear scale with decodes at the bottom. Larger ones are split: a lane for prefill,
 * linear up to the budget, and under it a lane in which one row is one token of one request: decodes would be
 * hairlines on the scale of a prompt. Rows stand in the engine's order.
 */

import * as paint from './paint.mjs';
import { GUTTER } from './scale.mjs';
import { t } from './words.mjs';

const LANE = 72, GAP = 6, PLAIN = 80;

export class BatchView {
  constructor(run) {
    this.run = run;
    this.name = 'batch';
    this.top = 8;
    this.arrange();
  }

  /** Most requests in one step so far: a live run may outgrow its picture. */
  most() { return this.run.coarse.reduce((most, bin) => Math.max(most, bin.running || 0, bin.decode || 0), 1); }
  isOutgrown() { return this.most() > this.rows; }

  arrange() {
    const budget = this.run.budget || 1;
    this.isLinear = budget * 3 <= 120;
    // While it grows, it gets some room to grow into.
    this.rows = this.run.live ? Math.max(this.most(), Math.min(this.run.maxSeqs || 16, 16)) : this.most();
    this.pitch = this.rows <= 16 ? 4 : this.rows <= 24 ? 3 : this.rows <= 40 ? 2 : 0;
    const decode = this.pitch ? this.rows * this.pitch : PLAIN;
    this.lane = this.isLinear ? Math.max(88, budget * 3) : LANE;
    this.height = this.top + this.lane + (this.isLinear ? 2 : GAP * 2 + decode + 2);
    this.bottom = this.top + this.lane;
    this.decodeBottom = this.isLinear ? this.bottom : this.height - 2;
    this.decodeHeight = decode;
  }

  /** The neutral ground under the marks: unused budget. */
  paper() { return { top: this.top, height: this.lane }; }

  tokens(n) { return Math.max(1, Math.round((n / (this.run.budget || 1)) * this.lane)); }

  /** A step's marks as [y, height, row], from the bottom up. */
  marks(step) {
    const marks = [];
    let y = this.bottom, z = this.decodeBottom;
    for (const row of this.isLinear ? [...step.rows].sort((p, q) => p.prefill - q.prefill) : step.rows) {
      if (row.prefill || this.isLinear) {
        const h = row.prefill ? Math.max(2, this.tokens(row.n)) : Math.max(1, this.tokens(row.n));
        y -= h;
        marks.push([y, h, row]);
      } else if (this.pitch) {
        z -= this.pitch;
        marks.push([z + (this.pitch > 2 ? 1 : 0), this.pitch > 2 ? this.pitch - 1 : this.pitch, row]);
      }
    }
    return marks;
  }

  draw(g, scale, state) {
    const p = paint.palette();
    this.axis(g, scale, p);
    if (scale.isWide) { this.drawWide(g, scale, p); return; }
    this.drawWide(g, scale, p, missing(scale));
    const gap = scale.w >= 6 ? 1 : 0;
    for (let n = scale.a; n <= scale.b; n += 1) {
      const step = this.run.step(n);
      if (!step?.done) continue;
      const x = scale.x(n), w = Math.max(1, scale.x2(n) - x - gap);
      if (!this.pitch && !this.isLinear) this.drawPlain(g, step, x, w, p, state);
      for (const [y, h, row] of this.marks(step)) this.drawRow(g, row, x, y, w, h, state);
      if (scale.w < 6 && step.preempted) { g.fillStyle = p.red; g.fillRect(x, 0, Math.max(1, w), 5); }
    }
  }

  drawRow(g, row, x, y, w, h, state) {
    const p = paint.palette();
    g.globalAlpha = state.isDimmed(row.id) ? 0.15 : 1;
    if (!row.prefill) {
      g.fillStyle = paint.hueOf(row.id);
      g.fillRect(x, y, w, h);
    } else {
      const lost = row.recomputed > 0;
      g.fillStyle = lost ? paint.recomputedFill(row.id) : paint.prefillFill(row.id);
      g.fillRect(x, y, w, h);
      g.fillStyle = paint.hueOf(row.id);
      g.fillRect(x, y, w, Math.min(2, h));
      if (w >= 20 && h >= 17) this.plate(g, paint.shortName(row.id), x + w / 2, y + h / 2, p);
    }
    g.globalAlpha = 1;
  }

  plate(g, text, x, y, p) {
    g.font = `600 11px ${p.font}`;
    const w = Math.ceil(g.measureText(text).width) + 8;
    g.fillStyle = p.s1;
    g.beginPath(); g.roundRect(Math.round(x - w / 2), Math.round(y - 7), w, 14, 3); g.fill();
    paint.label(g, text, x, y + 0.5, { align: 'center', colour: p.ink, bold: true });
  }

  /** More rows than there is room for: a neutral area, and the followed request in its hue. */
  drawPlain(g, step, x, w, p, state) {
    const decodes = step.rows.filter((row) => !row.prefill);
    const h = Math.round((decodes.length / this.rows) * this.decodeHeight);
    g.fillStyle = paint.mix(p.ink2, p.s1, 0.6);
    g.fillRect(x, this.decodeBottom - h, w, h);
    const at = decodes.findIndex((row) => row.id === state.get('req'));
    if (at >= 0) {
      g.fillStyle = paint.hueOf(decodes[at].id);
      g.fillRect(x, Math.round(this.decodeBottom - ((at + 1) / this.rows) * this.decodeHeight) - 2, w, 3);
    }
  }

  /** Columns of many steps: their largest prefill and decode, in grey. */
  drawWide(g, scale, p, bins = binsOf(scale)) {
    for (const bin of bins) {
      const [x, x2] = extent(bin, scale), w = Math.max(1, x2 - x);
      g.fillStyle = p.line2;
      const h = this.tokens(bin.prefill);
      if (bin.prefill) g.fillRect(x, this.bottom - h, w, h);
      g.fillStyle = p.ink2;
      const rows = this.isLinear ? this.tokens(bin.decode) : Math.round((bin.decode / this.rows) * this.decodeHeight);
      if (bin.decode) g.fillRect(x, this.decodeBottom - rows, w, rows);
      if (bin.preempted) { g.fillStyle = p.red; g.fillRect(x, 0, Math.max(1, Math.min(w, 2)), 5); }
    }
  }

  axis(g, scale, p) {
    const y0 = this.bottom, budget = this.run.budget;
    g.fillStyle = p.line2;
    g.fillRect(scale.left - 4, this.top, scale.width + 4, 1);
    paint.label(g, String(budget), scale.left - 8, this.top + 1, { align: 'right' });
    paint.label(g, '0', scale.left - 8, y0 - 3, { align: 'right' });
    if (this.isLinear) {
      const every = [1, 2, 4, 8, 16, 32].find((v) => budget / v <= 4) || 64;
      for (let v = every; v < budget; v += every) {
        const y = y0 - Math.round((v / budget) * this.lane);
        g.fillStyle = p.line; g.fillRect(scale.left, y, scale.width, 1);
        if (budget - v >= every / 2) paint.label(g, String(v), scale.left - 8, y, { align: 'right' });
      }
    } else {
      paint.label(g, t('batch.prefill'), scale.left - 8, this.top + this.lane / 2, { align: 'right' });
      g.fillStyle = p.line; g.fillRect(scale.left, y0 + GAP, scale.width, 1);
      paint.label(g, t('batch.decode'), scale.left - 8, this.decodeBottom - this.decodeHeight / 2, { align: 'right' });
    }
  }

  hit(x, y, scale) {
    if (x < GUTTER || scale.isWide) return null;
    const n = scale.at(x), step = this.run.step(n);
    if (!step) return null;
    const found = this.marks(step).find(([top, h]) => y >= top - 1 && y <= top + h);
    return found ? { view: 'batch', kind: 'row', step: n, request: found[2].id } : { view: 'batch', kind: 'step', step: n };
  }

  rect(mark, scale) {
    const step = this.run.step(mark.step);
    const found = step && this.marks(step).find(([, , row]) => row.id === mark.request);
    if (!found || scale.isWide) return null;
    const x = scale.x(mark.step);
    return [x, found[0], Math.max(1, scale.x2(mark.step) - x), found[1]];
  }

  marksAt(n) {
    const step = this.run.step(n);
    return step ? this.marks(step).map(([, , row]) => ({ view: 'batch', kind: 'row', step: n, request: row.id })) : [];
  }
}

/** Columns of steps that are on their way: what is known of them until they are here, coarser but true. */
export function missing(scale) {
  const isHere = (bin) => {
    for (let n = Math.max(scale.a, bin.step); n <= Math.min(scale.b, bin.last_step); n += 1) if (!scale.run.step(n)?.done) return false;
    return true;
  };
  return binsOf(scale).filter((bin) => !isHere(bin));
}

/** Where a column begins and ends; it may reach over the edge of the window. */
export function extent(bin, scale) {
  return [Math.max(scale.left, scale.x(bin.step)), Math.min(scale.left + scale.width, scale.x2(bin.last_step))];
}

/** The coarse columns that a wide scale shows. */
export function binsOf(scale) {
  return scale.bins || scale.run.coarse.filter((bin) => bin.last_step >= scale.a && bin.step <= scale.b);
}
