/* V3, the KV block map: one cell per physical block, in the order of their ids, for the whole run.
 *
 *   hue        who holds it; bands and a number: how many share it       height   tokens in it, the rest hatched
 *   pale       free, but its contents are still cached; the small number is its place in the queue
 *   ring       written in this step         red corner   its request was preempted in this step
 *
 * Hovering a request lights its blocks, numbers them in logical order and joins them by a line.
 */

import * as paint from './paint.mjs';
import { CACHED, FREE, USED } from './pool.mjs';
import { t } from './words.mjs';

const SIZES = [[40, 4], [28, 4], [20, 3], [14, 3], [8, 1], [5, 1], [3, 0], [2, 0]];

export class BlocksView {
  constructor(run) {
    this.run = run;
    this.name = 'blocks';
    this.num = run.numBlocks;
  }

  /** The largest cells that fit into a width and a height. */
  arrange(width, maxHeight) {
    const cells = Math.max(1, this.num - 1);
    for (const [size, gap] of SIZES) {
      const columns = Math.max(1, Math.floor((width + gap) / (size + gap)));
      const rows = Math.ceil(cells / columns);
      if (rows * (size + gap) <= maxHeight || size === 2) {
        // Cells that can be told apart fill the width.
        const wide = size >= 14 && cells >= columns ? Math.floor((width + gap) / columns) - gap : size;
        Object.assign(this, { size: wide, gap, columns, rows, width, height: rows * (wide + gap) });
        return;
      }
    }
  }

  at(b) {
    const i = b - 1, pitch = this.size + this.gap;
    return [(i % this.columns) * pitch, Math.floor(i / this.columns) * pitch];
  }

  /** Draw the pool after `step`, with what was done to blocks of late (`pool.touched`). */
  draw(g, pool, step, marks, state) {
    const p = paint.palette();
    Object.assign(this, { pool, step, marks });
    this.queue = pool.queue();
    this.place = new Map(this.queue.map((b, i) => [b, i + 1]));
    const lit = state.get('lit'), chosen = lit ?? state.get('req');
    const isTheirs = (b) => (pool.holders[b] || []).some(([id]) => id === chosen);
    // Somebody who holds nothing now leaves the map as it is.
    const holds = chosen !== null && pool.holders.some((held) => held?.some(([id]) => id === chosen));
    this.dim = (b) => holds && !isTheirs(b);
    for (let b = 1; b < pool.num; b += 1) this.cell(g, b, p);
    g.globalAlpha = 1;
    for (const b of this.size >= 8 ? this.marks.written : []) this.ring(g, b, p);
    for (const b of this.size >= 8 ? this.marks.lost : []) this.corner(g, b, p);
    if (lit !== null) this.path(g, lit, p);
  }

  cell(g, b, p) {
    const [x, y] = this.at(b), s = this.size, held = this.pool.holders[b];
    g.globalAlpha = this.dim(b) ? 0.35 : 1;
    if (s < 14) { this.dot(g, b, x, y, p); return; }
    g.save();
    g.beginPath(); g.roundRect(x, y, s, s, s >= 20 ? 3 : 2); g.clip();
    if (this.pool.state[b] === USED) this.used(g, b, held || [], x, y, p);
    else if (this.pool.state[b] === CACHED) this.cached(g, b, x, y, p);
    g.restore();
    if (this.pool.state[b] === FREE) {
      g.strokeStyle = p.line2; g.lineWidth = 1;
      g.beginPath(); g.roundRect(x + 0.5, y + 0.5, s - 1, s - 1, 3); g.stroke();
    }
    if (s >= 26) this.write(g, b, held || [], x, y, p);
  }

  dot(g, b, x, y, p) {
    const held = this.pool.holders[b], s = this.size;
    const owner = this.pool.owner[b];
    if (this.pool.state[b] === USED) g.fillStyle = held ? paint.hueOf(held[0][0]) : p.ink3;
    else if (this.pool.state[b] === CACHED) g.fillStyle = paint.mix(owner >= 0 ? paint.hueOf(owner) : p.ink3, p.s1, 0.28);
    else g.fillStyle = p.s3;
    g.fillRect(x, y, s, s);
    if (held && held.length > 1 && s >= 5) { g.fillStyle = paint.hueOf(held[1][0]); g.fillRect(x + Math.ceil(s / 2), y, Math.floor(s / 2), s); }
  }

  used(g, b, held, x, y, p) {
    const s = this.size, size = this.run.blockSize;
    g.fillStyle = paint.hatch(p.line2, p.s1, 5);
    g.fillRect(x, y, s, s);
    const owners = held.slice(0, 4), w = s / Math.max(1, owners.length);
    owners.forEach(([id, idx], i) => {
      const filled = Math.round((this.pool.fill(id, idx, size) / size) * s);
      const left = Math.round(x + i * w), right = Math.round(x + (i + 1) * w);
      g.fillStyle = paint.hueOf(id); g.fillRect(left, y + s - filled, right - left, filled);
      if (owners.length === 1 && filled > s * 0.5) paint.stripeCell(g, id, x, y, s, s);
    });
    if (!owners.length) { g.fillStyle = p.ink3; g.fillRect(x, y, s, s); }
  }

  cached(g, b, x, y, p) {
    const owner = this.pool.owner[b], s = this.size, hue = owner >= 0 ? paint.hueOf(owner) : p.ink3;
    g.fillStyle = paint.mix(hue, p.s1, 0.16); g.fillRect(x, y, s, s);
    g.strokeStyle = paint.mix(hue, p.s1, 0.55); g.lineWidth = 1;
    g.beginPath(); g.roundRect(x + 0.5, y + 0.5, s - 1, s - 1, 3); g.stroke();
  }

  write(g, b, held, x, y, p) {
    const s = this.size;
    if (this.pool.state[b] === CACHED) {
      const place = this.place.get(b), owner = this.pool.owner[b];
      if (place && place <= 99) paint.label(g, String(place), x + 4, y + 8, { colour: p.ink, bold: true });
      if (owner >= 0) paint.label(g, paint.shortName(owner), x + s - 4, y + s - 8, { align: 'right', colour: p.ink2 });
      return;
    }
    if (held.length > 1) {
      g.fillStyle = p.s1; g.beginPath(); g.arc(x + s / 2, y + s / 2, 7, 0, 7); g.fill();
      paint.label(g, String(held.length), x + s / 2, y + s / 2 + 0.5, { align: 'center', colour: p.ink, bold: true });
      return;
    }
    if (!held.length) return;
    const [id, idx] = held[0], size = this.run.blockSize;
    const share = this.pool.fill(id, idx, size) / size, text = paint.shortName(id);
    if (share > 0.75) paint.label(g, text, x + s / 2, y + s / 2 + 0.5, { align: 'center', colour: paint.inkOn(paint.hueOf(id)), bold: true });
    else {
      const top = share > 0.45 ? y + 8 : y + s / 2 - 2;
      g.font = `600 11px ${p.font}`;
      const w = g.measureText(text).width + 4;
      g.fillStyle = p.s1; g.fillRect(x + s / 2 - w / 2, top - 6, w, 12);
      paint.label(g, text, x + s / 2, top + 0.5, { align: 'center', colour: p.ink, bold: true });
    }
  }

  ring(g, b, p) {
    const [x, y] = this.at(b), s = this.size;
    g.globalAlpha = this.dim(b) ? 0.35 : 1;
    g.lineWidth = 1; g.strokeStyle = p.s1; if (s >= 14) g.strokeRect(x + 2, y + 2, s - 4, s - 4);
    g.lineWidth = s >= 14 ? 1.5 : 1; g.strokeStyle = p.ink;
    g.beginPath(); g.roundRect(x + 0.5, y + 0.5, s - 1, s - 1, s >= 14 ? 4 : 1); g.stroke();
  }

  corner(g, b, p) {
    const [x, y] = this.at(b), s = this.size, c = Math.min(9, s / 2);
    g.globalAlpha = this.dim(b) ? 0.35 : 1;
    g.fillStyle = p.red;
    g.beginPath(); g.moveTo(x + s - c, y); g.lineTo(x + s, y); g.lineTo(x + s, y + c); g.fill();
  }

  /** A request's blocks in logical order. */
  path(g, id, p) {
    g.globalAlpha = 1;
    const table = this.pool.tableOf(id), half = this.size / 2;
    if (this.size < 8) return;
    g.strokeStyle = p.ink; g.lineWidth = 1;
    g.beginPath();
    table.forEach((b, i) => { const [x, y] = this.at(b); if (i) g.lineTo(x + half, y + half); else g.moveTo(x + half, y + half); });
    g.stroke();
    if (this.size < 20) return;
    table.forEach((b, i) => {
      const [x, y] = this.at(b);
      g.fillStyle = p.s1; g.beginPath(); g.arc(x + half, y + half, 8, 0, 7); g.fill();
      g.strokeStyle = p.ink; g.stroke();
      paint.label(g, String(i), x + half, y + half + 0.5, { align: 'center', colour: p.ink, size: 10 });
    });
  }

  hit(x, y) {
    if (!this.pool) return null;
    const pitch = this.size + this.gap, column = Math.floor(x / pitch), row = Math.floor(y / pitch);
    const b = row * this.columns + column + 1;
    if (column < 0 || column >= this.columns || b < 1 || b >= this.pool.num) return null;
    return { view: 'blocks', kind: 'block', step: this.step.step, block: b, request: this.pool.holders[b]?.[0]?.[0] ?? null };
  }

  rect(mark) {
    if (mark.block === null || mark.block >= this.num || !this.columns) return null;
    const [x, y] = this.at(mark.block);
    return [x, y, this.size, this.size];
  }

  marksAt() {
    const marks = [];
    for (let b = 1; this.pool && b < this.pool.num; b += 1) {
      marks.push({ view: 'blocks', kind: 'block', step: this.step.step, block: b,
        request: this.pool.holders[b]?.[0]?.[0] ?? null });
    }
    return marks;
  }

  /** Two lines about a block. */
  tip(mark) {
    const b = mark.block, held = this.pool.holders[b] || [], size = this.run.blockSize;
    if (held.length) {
      const fill = Math.max(...held.map(([id, idx]) => this.pool.fill(id, idx, size)));
      return [t('tip.block', { b }), t('tip.held', { who: held.map(([id]) => paint.nameOf(id)).join(', '), fill, size })];
    }
    const place = this.place.get(b);
    const owner = this.pool.owner[b];
    if (this.pool.state[b] === CACHED && owner >= 0) {
      return [t('tip.block', { b }), place ? t('tip.cached', { who: paint.nameOf(owner), place }) : t('tip.tree', { who: paint.nameOf(owner) })];
    }
    return [t('tip.block', { b }), t('tip.free', { place: place ?? '–' })];
  }
}
