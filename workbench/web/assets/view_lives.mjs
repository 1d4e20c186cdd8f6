/* V2, request lives: one row per request, from its arrival to its end.
 *
 *   queue     a thin line        prefill   dotted boxes, one per chunk      decode   a full bar
 *   preempted a red triangle, and a line until it is back; work done again is hatched
 *
 * Height, texture and lightness say the same thing, so that no single one of them has to be seen.
 * Requests that only wait in this window are drawn as hairlines under the rows: their number is the picture.
 */

import * as paint from './paint.mjs';
import { GUTTER } from './scale.mjs';
import { t, count } from './words.mjs';

const PITCHES = [[6, 24], [16, 13], [30, 10]];  // up to so many rows, so many px each
const TOP = 4, WAITING = 48, LEAST_WAITING = 16;

export class LivesView {
  constructor(run) {
    this.run = run;
    this.name = 'lives';
    this.scroll = 0;
    this.height = 200;
    this.rows = [];
    this.waiting = [];
  }

  /** Choose rows and their pitch for a window. */
  arrange(scale, state) {
    const { a, b } = scale;
    const near = this.run.lives.filter((life) => {
      const [from, to] = this.run.span(life);
      return from <= b && to >= a && !state.isDimmed(life.id)
        && (state.get('only') !== 'preempted' || life.preempted.some((s) => s >= a && s <= b));
    });
    const isActive = (life) => life.firstRow !== null && life.firstRow <= b;
    this.waiting = near.filter((life) => !isActive(life));
    const active = near.filter(isActive);
    if (state.get('sort') === 'ttft') active.sort((x, y) => ttft(y) - ttft(x));
    if (state.get('sort') === 'waste') active.sort((x, y) => y.recomputed - x.recomputed);
    this.total = active.length;
    const room = this.height - TOP - (this.waiting.length ? LEAST_WAITING : 4);
    this.pitch = this.choosePitch(active.length, room);
    const fits = Math.max(1, Math.floor(room / this.pitch));
    this.scroll = Math.max(0, Math.min(this.scroll, active.length - fits));
    this.active = active;
    this.fits = fits;
    if (!state.get('scrolled') && this.isAway(state)) {
      this.scroll = Math.max(0, Math.min(this.wanted(state) - Math.floor(fits / 4), active.length - fits));
    }
    this.rows = active.slice(this.scroll, this.scroll + fits);
  }

  /** The row that should be seen: of the followed request, else of the first one that runs under the cursor. */
  wanted(state) {
    const step = state.get('step'), followed = this.active.findIndex((life) => life.id === state.get('req'));
    return followed >= 0 ? followed : this.active.findIndex((life) => life.firstRow <= step && life.lastRow >= step);
  }

  /** Whether that row is scrolled out of sight. */
  isAway(state) {
    if (!this.active || this.active.length <= this.fits) return false;
    const at = this.wanted(state);
    return at >= 0 && (at < this.scroll || at >= this.scroll + this.fits * 0.7);
  }

  choosePitch(n, room) {
    const fitting = [...PITCHES.map(([most, px]) => (n <= most ? px : 0)), 6, 3].filter(Boolean);
    return fitting.find((px) => px * n <= room) || 3;
  }

  yOf(i) { return TOP + i * this.pitch; }
  barHeight() { return this.pitch >= 10 ? this.pitch - 2 : this.pitch >= 6 ? 4 : 2; }

  draw(g, scale, state) {
    const p = paint.palette();
    this.arrange(scale, state);
    const parts = scale.isWide ? null : this.collect(scale);
    const named = state.named();
    this.rows.forEach((life, i) => {
      const y = this.yOf(i), h = this.barHeight();
      if (this.pitch >= 10) this.name_(g, life, y, h, named.has(life.id), p);
      if (parts) this.drawSteps(g, life, parts.get(life.id) || [], y, h, scale);
      else this.drawWide(g, life, y, h, scale);
    });
    this.drawWaiting(g, scale, p);
    if (this.total > this.rows.length) {
      const more = t('lives.scroll', { shown: this.rows.length, total: this.total });
      paint.label(g, more, scale.left + scale.width, this.height - 5, { align: 'right', size: 10 });
    }
  }

  name_(g, life, y, h, isNamed, p) {
    if (isNamed) { g.fillStyle = p.s2; g.fillRect(0, y - 1, GUTTER - 2, this.pitch); }
    const size = this.pitch >= 13 ? 11 : 10;
    paint.label(g, paint.nameOf(life.id), GUTTER - 8, y + h / 2 + 0.5,
      { align: 'right', size, bold: isNamed, colour: isNamed ? p.ink : p.ink3 });
  }

  /** The window's rows by request: [step, row] in order. */
  collect(scale) {
    const parts = new Map();
    for (let n = scale.a; n <= scale.b; n += 1) {
      for (const row of this.run.step(n)?.rows || []) {
        if (!parts.has(row.id)) parts.set(row.id, []);
        parts.get(row.id).push([n, row]);
      }
    }
    return parts;
  }

  line(g, life, x, x2, y, h) {
    if (x2 <= x) return;
    g.fillStyle = paint.mix(paint.hueOf(life.id), paint.palette().s1, 0.42);
    g.fillRect(x, Math.round(y + h / 2) - 1, x2 - x, h > 4 ? 2 : 1);
  }

  drawSteps(g, life, parts, y, h, scale) {
    const [from, to] = this.run.span(life);
    const hue = paint.hueOf(life.id);
    let at = Math.max(from, scale.a), run = null;
    const flush = () => {
      if (!run) return;
      const x = scale.x(run[0]), w = Math.max(1, scale.x2(run[1]) - x);
      g.fillStyle = hue; g.fillRect(x, y, w, h);
      paint.stripeBar(g, life.id, x, y, w, h);
      if (scale.w >= 24 && h >= 9) this.drawTokens(g, life, run, y, h, scale);
      run = null;
    };
    for (const [n, row] of parts) {
      if (n > at) { flush(); this.line(g, life, scale.x(at), scale.x(n), y, h); }
      if (row.prefill) { flush(); this.box(g, life, row, scale.x(n), scale.x2(n), y, h); }
      else if (run) run[1] = n;
      else run = [n, n];
      at = n + 1;
    }
    flush();
    const last = Math.min(to, scale.b);
    if (at <= last && this.run.step(last)) this.line(g, life, scale.x(at), scale.x2(last), y, h);
    this.drawMoments(g, life, y, h, scale);
  }

  box(g, life, row, x, x2, y, h) {
    const w = Math.max(1, x2 - x - (x2 - x > 6 ? 1 : 0));
    g.fillStyle = row.recomputed > 0 ? paint.recomputedFill(life.id) : paint.prefillFill(life.id);
    g.fillRect(x, y, w, h);
    if (h < 6 || w < 4) return;
    g.strokeStyle = paint.hueOf(life.id); g.lineWidth = 1;
    g.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
  }

  /** Zoomed in: one dot per token, fainter where it kept its reader waiting. */
  drawTokens(g, life, [first, last], y, h, scale) {
    const ink = paint.inkOn(paint.hueOf(life.id));
    for (let n = first; n <= last; n += 1) {
      const token = this.run.step(n)?.tokens.find((found) => found.id === life.id);
      if (!token) continue;
      const slow = token.gap !== null && token.gap > 2 * this.medianGap();
      g.globalAlpha = slow ? 0.95 : 0.4;
      g.fillStyle = ink;
      g.beginPath(); g.arc(scale.x2(n) - 4, y + h / 2, slow ? 2.5 : 1.5, 0, 7); g.fill();
      g.globalAlpha = 1;
    }
  }

  medianGap() {
    if (this.gapVersion !== this.run.version) {
      const gaps = [];
      for (const step of this.run.steps.values()) for (const { gap } of step.tokens) if (gap !== null) gaps.push(gap);
      gaps.sort((x, y) => x - y);
      this.gap = gaps[gaps.length >> 1] ?? Infinity;
      this.gapVersion = this.run.version;
    }
    return this.gap;
  }

  /** First token, preemptions, end. */
  drawMoments(g, life, y, h, scale) {
    const p = paint.palette();
    const inside = (n) => n !== null && n >= scale.a && n <= scale.b;
    if (inside(life.firstToken)) {
      const x = scale.x2(life.firstToken);
      if (h > 4) { g.fillStyle = p.s1; g.fillRect(x - 2, y - 1, 3, h + 2); }
      g.fillStyle = p.ink; g.fillRect(x - 1, y - (h > 4 ? 1 : 0), 1, h + (h > 4 ? 2 : 0));
    }
    if (life.end !== null && inside(life.lastRow)) {
      g.fillStyle = paint.hueOf(life.id);
      g.fillRect(scale.x2(life.lastRow) - 2, y - 1, 2, h + 2);
    }
    for (const n of life.preempted) {
      if (!inside(n)) continue;
      const x = scale.x(n), tall = Math.max(6, h + 2);
      g.fillStyle = p.s1; g.fillRect(x, y, 6, h);
      paint.triangle(g, x, y + h / 2 - tall / 2, Math.min(6, Math.max(4, scale.w * 0.4)), tall);
    }
  }

  /** Windows of many steps: phases from the life alone. */
  drawWide(g, life, y, h, scale) {
    const [from, to] = this.run.span(life);
    const clip = (n) => Math.max(scale.a, Math.min(scale.b + 1, n));
    const x = (n) => scale.x(clip(n));
    this.line(g, life, x(from), x(life.firstRow ?? to + 1), y, h);
    if (life.firstRow === null) return;
    const spoke = life.firstToken ?? life.lastRow;
    const back = [...life.resumed];
    let at = life.firstRow;
    for (const away of [...life.preempted, null]) {
      const until = away ?? life.lastRow + 1;
      this.stretch(g, life, at, until, spoke, x, y, h);
      if (away === null) break;
      at = back.find((n) => n > away) ?? to + 1;
      this.line(g, life, x(away), x(at), y, h);
    }
    this.drawMoments(g, life, y, h, scale);
  }

  stretch(g, life, from, until, spoke, x, y, h) {
    const middle = Math.max(from, Math.min(until, spoke + 1));
    if (x(middle) > x(from)) { g.fillStyle = paint.prefillFill(life.id); g.fillRect(x(from), y, x(middle) - x(from), h); }
    const w = x(until) - x(middle);
    if (w > 0) { g.fillStyle = paint.hueOf(life.id); g.fillRect(x(middle), y, w, h); paint.stripeBar(g, life.id, x(middle), y, w, h); }
  }

  drawWaiting(g, scale, p) {
    const n = this.waiting.length;
    if (!n) return;
    const top = this.yOf(this.rows.length) + 4, room = Math.min(WAITING, this.height - top - 2);
    const pitch = Math.max(0.25, Math.min(2, room / n));
    paint.label(g, t('lives.more', { n: count(n) }), GUTTER - 8, top + 5, { align: 'right', size: 10 });
    this.waiting.forEach((life, i) => {
      const [from, to] = this.run.span(life);
      const x = scale.x(Math.max(scale.a, from)), x2 = scale.x2(Math.min(scale.b, to));
      g.fillStyle = paint.mix(paint.hueOf(life.id), p.s1, 0.42);
      g.fillRect(x, Math.floor(top + i * pitch), Math.max(1, x2 - x), 1);
    });
    this.waitingTop = top;
    this.waitingPitch = pitch;
  }

  // -- pointing --------------------------------------------------------------------------------------

  lifeAt(y) {
    const i = Math.floor((y - TOP) / this.pitch);
    if (i >= 0 && i < this.rows.length) return this.rows[i];
    const w = Math.floor((y - this.waitingTop) / this.waitingPitch);
    return this.waiting[w] || null;
  }

  hit(x, y, scale) {
    const life = this.lifeAt(y);
    if (!life) return null;
    if (x < GUTTER) return { view: 'lives', kind: 'row', step: life.firstRow ?? this.run.span(life)[0], request: life.id };
    const n = scale.at(x);
    return { view: 'lives', ...this.what(life, n, x, scale), request: life.id };
  }

  /** What a life is doing in a step. */
  what(life, n, x, scale) {
    const near = (m) => m !== null && Math.abs(x - scale.x(m)) < 8 && m >= scale.a && m <= scale.b;
    const away = life.preempted.find((m) => m === n || near(m));
    if (away !== undefined) return { kind: 'preempt', step: away };
    const [from, to] = this.run.span(life);
    if (life.firstToken === n && x > scale.x2(n) - 5) return { kind: 'first_token', step: n };
    if (n < from || n > to) return { kind: 'row', step: Math.max(from, Math.min(to, n)) };
    if (life.end !== null && n === life.lastRow && x > scale.x2(n) - 4) return { kind: 'end', step: n };
    const ran = scale.isWide || this.run.step(n)?.rows.some((row) => row.id === life.id);
    return { kind: ran ? 'row' : 'wait', step: n };
  }

  rect(mark, scale) {
    const i = this.rows.findIndex((life) => life.id === mark.request);
    if (i < 0 || mark.step < scale.a || mark.step > scale.b) return null;
    const y = this.yOf(i), h = this.barHeight(), x = scale.x(mark.step);
    if (mark.kind === 'preempt') return [x - 1, y, 8, h];
    return [x, y, Math.max(3, scale.x2(mark.step) - x), h];
  }

  marksAt(n) {
    return this.rows.filter((life) => { const [from, to] = this.run.span(life); return n >= from && n <= to; })
      .map((life) => {
        const away = life.preempted.includes(n);
        const ran = this.run.step(n)?.rows.some((row) => row.id === life.id);
        return { view: 'lives', kind: away ? 'preempt' : ran ? 'row' : 'wait', step: n, request: life.id };
      });
  }
}

const ttft = (life) => (life.firstTokenMs ?? Infinity) - life.arrival;
