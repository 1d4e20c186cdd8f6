/* V5, interleave and stall: what a step costs, and what that does to everybody's next token.
 *
 *   mix         share of decode and prefill tokens in each step, grey on purpose
 *   step time   one bar per step; a dashed top says that the time was modelled, not measured
 *   gaps        between tokens, logarithmic; all requests with the same gap are one grey dot, and a request that
 *               fell behind gets its hue: a line from its last token to this one
 */

import * as paint from './paint.mjs';
import { binsOf, extent, missing } from './view_batch.mjs';
import { GUTTER, duration, niceAbove } from './scale.mjs';
import { t } from './words.mjs';

const MIX = [4, 12], TIME = [26, 36], GAPS = 76;

export class StallView {
  constructor(run) {
    this.run = run;
    this.name = 'stall';
    this.height = 148;
    this.isModelled = run.config.clock === 'modelled';
  }

  draw(g, scale, state) {
    const p = paint.palette();
    const wide = (scale.isWide ? binsOf(scale) : missing(scale)).map((bin) => ({
      x: extent(bin, scale)[0], x2: extent(bin, scale)[1], cost: bin.slowest,
      prefill: bin.tokens ? bin.prefill_tokens / bin.tokens : 0 }));
    const columns = scale.isWide ? wide : [...wide, ...this.columns(scale)];
    this.most = niceAbove(Math.max(1e-6, ...columns.map((c) => c.cost)) * 1.02);
    const gap = scale.w >= 6 ? 1 : 0;
    for (const c of columns) this.drawColumn(g, c, gap, p);
    this.axis(g, scale, p);
    if (!scale.isWide) this.drawGaps(g, scale, state, p);
    else paint.label(g, t('stall.zoom'), scale.left + scale.width / 2, (GAPS + this.height) / 2, { align: 'center' });
  }

  columns(scale) {
    const columns = [];
    for (let n = scale.a; n <= scale.b; n += 1) {
      const step = this.run.step(n);
      if (!step?.done) continue;
      columns.push({ x: scale.x(n), x2: scale.x2(n), cost: step.end - step.start,
        prefill: step.num ? step.prefill / step.num : 0 });
    }
    return columns;
  }

  drawColumn(g, c, gap, p) {
    const w = Math.max(1, c.x2 - c.x - gap);
    const split = Math.round(MIX[1] * c.prefill);
    g.fillStyle = p.line2; g.fillRect(c.x, MIX[0], w, split);
    g.fillStyle = p.ink2; g.fillRect(c.x, MIX[0] + split, w, MIX[1] - split);
    const h = Math.max(1, Math.round((c.cost / this.most) * TIME[1])), y = TIME[0] + TIME[1] - h;
    g.fillStyle = p.s3; g.fillRect(c.x, y, w, h);
    g.fillStyle = p.ink2;
    if (!this.isModelled) g.fillRect(c.x, y, w, 1);
    else for (let x = c.x; x < c.x + w; x += 5) g.fillRect(x, y, Math.min(3, c.x + w - x), 1);
  }

  axis(g, scale, p) {
    const right = scale.left - 8, bottom = TIME[0] + TIME[1];
    g.fillStyle = p.line; g.fillRect(scale.left - 4, TIME[0], scale.width + 4, 1);
    g.fillStyle = p.line2; g.fillRect(scale.left - 4, bottom, scale.width + 4, 1);
    paint.label(g, t('stall.mix'), right, MIX[0] + 6, { align: 'right' });
    paint.label(g, duration(this.most), right, TIME[0] + 2, { align: 'right' });
    paint.label(g, t('stall.time'), right, TIME[0] + 19, { align: 'right' });
    paint.label(g, '0', right, bottom - 3, { align: 'right' });
  }

  // -- gaps between tokens -----------------------------------------------------------------------------

  /** Dots of a window: {step, gap, ids} for what is common, {step, gap, id, from} for who fell behind. */
  gaps(scale) {
    const common = [], behind = [];
    for (let n = scale.a; n <= scale.b; n += 1) {
      const step = this.run.step(n);
      const told = (step?.tokens || []).filter((token) => token.gap !== null);
      if (!told.length) continue;
      const sorted = told.map((token) => token.gap).sort((x, y) => x - y);
      const median = sorted[sorted.length >> 1], groups = new Map();
      for (const token of told) {
        const from = this.run.stepAt(step.collected - token.gap - 1e-4);
        if (from < n - 1 && token.gap > 1.5 * Math.min(median, this.costOf(n))) {
          behind.push({ step: n, gap: token.gap, id: token.id, from });
          continue;
        }
        const key = token.gap.toPrecision(3);
        if (!groups.has(key)) groups.set(key, { step: n, gap: token.gap, ids: [] });
        groups.get(key).ids.push(token.id);
      }
      common.push(...groups.values());
    }
    return { common, behind };
  }

  costOf(n) { const step = this.run.step(n); return step ? step.end - step.start : Infinity; }

  drawGaps(g, scale, state, p) {
    const { common, behind } = this.gaps(scale);
    const all = [...common, ...behind].map((d) => d.gap);
    if (!all.length) { paint.label(g, t('stall.none'), scale.left + scale.width / 2, (GAPS + this.height) / 2, { align: 'center' }); return; }
    const ticks = logTicks(Math.min(...all), Math.max(...all));
    const lo = Math.log10(Math.min(ticks[0], Math.min(...all) * 0.9)), hi = Math.log10(Math.max(...all) * 1.2);
    const y = (gap) => this.height - 8 - ((Math.log10(gap) - lo) / Math.max(0.5, hi - lo)) * (this.height - GAPS - 14);
    this.y = y;
    for (const gap of ticks) {
      g.fillStyle = p.line; g.fillRect(scale.left - 4, Math.round(y(gap)), scale.width + 4, 1);
      paint.label(g, duration(gap), scale.left - 8, Math.round(y(gap)) + 0.5, { align: 'right' });
    }
    const cx = (n) => (scale.x(n) + scale.x2(n)) / 2;
    g.fillStyle = p.ink3;
    for (const dot of common) {
      g.globalAlpha = dot.ids.every((id) => state.isDimmed(id)) ? 0.2 : 1;
      const r = Math.min(Math.max(1.5, scale.w / 2), 1 + 0.6 * Math.sqrt(dot.ids.length));
      g.beginPath(); g.arc(cx(dot.step), y(dot.gap), r, 0, 7); g.fill();
    }
    g.globalAlpha = 1;
    this.drawBehind(g, behind, cx, y, scale, p);
  }

  drawBehind(g, behind, cx, y, scale, p) {
    for (const d of behind) {
      const x = cx(d.step), from = Math.max(scale.left, cx(d.from));
      g.strokeStyle = paint.hueOf(d.id); g.lineWidth = 1.5;
      g.beginPath(); g.moveTo(from, y(d.gap)); g.lineTo(x, y(d.gap)); g.stroke();
      g.fillStyle = p.s1; g.beginPath(); g.arc(x, y(d.gap), 4.5, 0, 7); g.fill();
      g.fillStyle = paint.hueOf(d.id); g.beginPath(); g.arc(x, y(d.gap), 3.5, 0, 7); g.fill();
    }
    const taken = [];
    for (const d of [...behind].sort((m, n) => n.gap - m.gap)) {
      if (taken.length >= 5) break;
      const text = `${paint.nameOf(d.id)}  ${duration(d.gap)}`;
      g.font = `400 11px ${p.font}`;
      const w = g.measureText(text).width, right = cx(d.step) + 8, left = cx(d.from) - 8 - w;
      const fits = right + w < scale.left + scale.width;
      const box = [fits ? right : left, y(d.gap) - 7, w, 14];
      if (taken.some((o) => box[0] < o[0] + o[2] + 4 && o[0] < box[0] + w + 4 && Math.abs(box[1] - o[1]) < 13)) continue;
      taken.push(box);
      g.fillStyle = p.s1; g.globalAlpha = 0.85; g.fillRect(box[0] - 2, box[1] + 1, w + 4, 12); g.globalAlpha = 1;
      paint.label(g, text, box[0], y(d.gap) + 0.5, { colour: p.ink2 });
    }
  }

  // -- pointing --------------------------------------------------------------------------------------

  hit(x, y, scale) {
    if (x < GUTTER || scale.isWide) return null;
    const n = scale.at(x);
    if (y >= GAPS && this.y) {
      const { common, behind } = this.gaps({ a: Math.max(scale.a, n - 1), b: Math.min(scale.b, n + 1), run: this.run });
      const cx = (s) => (scale.x(s) + scale.x2(s)) / 2;
      const near = (d) => Math.hypot(cx(d.step) - x, this.y(d.gap) - y);
      const best = [...behind, ...common].sort((d, e) => near(d) - near(e))[0];
      if (best && near(best) < 9) return { view: 'stall', kind: 'gap', step: best.step, request: best.id ?? best.ids[0] };
    }
    return this.run.step(n) ? { view: 'stall', kind: 'step', step: n } : null;
  }

  rect(mark, scale) {
    if (scale.isWide || mark.step < scale.a || mark.step > scale.b) return null;
    const x = scale.x(mark.step), w = scale.x2(mark.step) - x;
    if (mark.kind === 'gap' && this.y) {
      const token = this.run.step(mark.step)?.tokens.find((found) => found.id === mark.request);
      return token?.gap ? [x + w / 2 - 4, this.y(token.gap) - 4, 8, 8] : null;
    }
    const step = this.run.step(mark.step);
    if (!step) return null;
    const h = Math.max(1, Math.round(((step.end - step.start) / (this.most || 1)) * TIME[1]));
    return [x, TIME[0] + TIME[1] - h, w, h];
  }

  marksAt(n) {
    const step = this.run.step(n);
    if (!step) return [];
    const gaps = step.tokens.filter((token) => token.gap !== null)
      .map((token) => ({ view: 'stall', kind: 'gap', step: n, request: token.id }));
    return [{ view: 'stall', kind: 'step', step: n }, ...gaps];
  }
}

/** 1, 3, 10, 30, ... from the one below the smallest value to the largest; few enough to be read. */
function logTicks(least, most) {
  const ticks = [];
  for (let power = 10 ** Math.floor(Math.log10(least)); power <= most; power *= 10) {
    for (const tick of [power, 3 * power]) if (tick <= most && tick * 3.4 > least) ticks.push(tick);
  }
  return ticks.length > 4 ? ticks.filter((_, i) => i % 2 === 0) : ticks;
}
