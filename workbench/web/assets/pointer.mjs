/* The mouse on the pictures: what is under it, what a click opens, what a drag selects.
 *
 * Every mark that the mouse reaches, the keyboard reaches too (`keys.mjs`); both end in `state.card`.
 */

import { duration } from './scale.mjs';
import { nameOf } from './paint.mjs';
import { t, count } from './words.mjs';

const TIP_MS = 100, DRAG_PX = 5;

export class Pointer {
  constructor(root, timeline, map, state, go) {
    Object.assign(this, { root, timeline, map, state, go, run: timeline.run });
    this.tip = root.querySelector('.tip');
    this.bound = new AbortController();
    for (const view of [...timeline.views, map.view]) this.listen(view);
    const axis = timeline.axis.parentElement;
    axis.addEventListener('pointerdown', (event) => this.down(event, null), { signal: this.bound.signal });
    axis.addEventListener('pointermove', (event) => this.move(event, null), { signal: this.bound.signal });
    axis.addEventListener('pointerup', (event) => this.up(event, null), { signal: this.bound.signal });
  }

  stop() { this.bound.abort(); clearTimeout(this.timer); }

  listen(view) {
    const on = (name, use, options = {}) => view.plot.addEventListener(name, use, { signal: this.bound.signal, ...options });
    on('pointerdown', (event) => this.down(event, view));
    on('pointermove', (event) => this.move(event, view));
    on('pointerup', (event) => this.up(event, view));
    on('pointerleave', () => this.leave());
    if (view !== this.map.view) on('wheel', (event) => this.wheel(event, view), { passive: false });
  }

  place(event, view) {
    const box = (view ? view.plot : this.timeline.axis.parentElement).getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  down(event, view) {
    if (event.button !== 0) return;
    const [x] = this.place(event, view);
    this.start = { x, view, step: view === this.map.view ? null : this.timeline.scale.at(x) };
    event.currentTarget.setPointerCapture(event.pointerId);
  }

  move(event, view) {
    const [x, y] = this.place(event, view);
    if (this.start?.step !== null && this.start && Math.abs(x - this.start.x) > DRAG_PX) {
      const n = this.timeline.scale.at(x);
      this.state.set({ from: Math.min(n, this.start.step), to: Math.max(n, this.start.step), hover: null });
      this.brushed = true;
      this.hide();
      return;
    }
    if (!view) return;
    const mark = view.hit(x, y, this.timeline.scale);
    if (same(mark, this.state.get('hover'))) return;
    this.state.set({ hover: mark, lit: mark?.request ?? null });
    view.plot.style.cursor = mark ? 'pointer' : '';
    this.hide();
    if (mark) this.timer = setTimeout(() => this.show(mark, view, y), TIP_MS);
  }

  up(event, view) {
    const [x, y] = this.place(event, view), { start, brushed } = this;
    this.start = null;
    this.brushed = false;
    if (!start || brushed) return;
    if (!view) { this.go.step(this.timeline.scale.at(x)); return; }
    const mark = view.hit(x, y, this.timeline.scale);
    if (view !== this.map.view && x >= 60) this.go.step(this.timeline.scale.at(x));
    if (mark) this.state.set({ card: mark });
  }

  leave() { this.hide(); this.state.set({ hover: null, lit: null }); }

  wheel(event, view) {
    const [x] = this.place(event, view), { scale, lives } = this.timeline;
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      this.go.zoom(event.deltaY > 0 ? 1.25 : 0.8, scale.at(x));
    } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey) {
      event.preventDefault();
      this.go.pan(((event.deltaX || event.deltaY) / scale.width) * (scale.b - scale.a + 1));
    } else if (view === lives && lives.total > lives.rows.length) {
      event.preventDefault();
      lives.scroll = Math.max(0, lives.scroll + Math.sign(event.deltaY) * 2);
      this.state.set({ scrolled: true });
      this.state.touch('rows');
    }
  }

  // -- the tip -----------------------------------------------------------------------------------------

  show(mark, view, y) {
    const [head, line] = view.tip ? view.tip(mark) : this.words(mark);
    this.tip.replaceChildren(Object.assign(document.createElement('b'), { textContent: head }),
      Object.assign(document.createElement('span'), { textContent: line }));
    const rect = view.rect(mark, this.timeline.scale), box = view.plot.getBoundingClientRect();
    const outer = this.root.getBoundingClientRect();
    this.tip.hidden = false;
    const x = box.left - outer.left + (rect ? rect[0] + rect[2] / 2 : 0), top = box.top - outer.top + (rect ? rect[1] : y);
    const left = Math.max(8, Math.min(outer.width - this.tip.offsetWidth - 8, x - this.tip.offsetWidth / 2));
    const above = top - this.tip.offsetHeight - 8;
    this.tip.style.transform = `translate(${Math.round(left)}px, ${Math.round(above > 0 ? above : top + (rect ? rect[3] : 0) + 10)}px)`;
  }

  hide() { clearTimeout(this.timer); this.tip.hidden = true; }

  /** Two lines: who and what, then one number. */
  words(mark) {
    const step = this.run.step(mark.step), who = mark.request === undefined ? '' : nameOf(mark.request);
    if (mark.kind === 'step' || !step) {
      const cost = step ? duration(step.end - step.start) : '–';
      return [t('axis.step', { n: mark.step }), t('tip.step', { tokens: count(step?.num), rows: step?.rows.length ?? 0, cost })];
    }
    if (mark.kind === 'gap') {
      const gap = step.tokens.find((token) => token.id === mark.request)?.gap;
      return [t('tip.gap', { who, n: mark.step }), t('tip.gapline', { gap: duration(gap) })];
    }
    const row = step.rows.find((found) => found.id === mark.request);
    const kind = mark.kind !== 'row' ? mark.kind : !row ? 'wait' : row.prefill ? 'prefill' : 'decode';
    const head = t(`tip.${kind}`, { who, n: mark.step });
    if (row) return [head, t('tip.row', { n: row.n, all: step.num, computed: row.computed, len: row.len })];
    return [head, t('tip.waits', { n: step.waiting })];
  }
}

function same(m, n) {
  return m === n || (m && n && m.view === n.view && m.kind === n.kind && m.step === n.step && m.request === n.request && m.block === n.block);
}
