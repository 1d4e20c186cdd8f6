/* Moving through a run: every way to change cursor and window goes through here.
 *
 * Invariant: after any move the window contains the cursor; it pages when the cursor passes 80 % of it.
 */

import { ask } from './fetch.mjs';

const MIN_STEPS = 8;

export class Go {
  constructor(run, state) { Object.assign(this, { run, state }); }

  get length() { return this.state.get('b') - this.state.get('a') + 1; }
  clamp(n) { return Math.max(this.run.first, Math.min(this.run.last, n)); }

  /** To a step. `keep`: a cursor that is still inside the window moves alone. */
  step(n, { keep = true, live = false } = {}) {
    const to = this.clamp(Math.round(n)), { a, b } = this.state.values;
    const patch = { step: to };
    if (!live) patch.following = false;
    const isInside = to >= a && to <= b;
    if (!isInside || (!keep && this.isOff(to))) Object.assign(patch, this.around(to, live ? 0.8 : 0.35));
    this.state.set(patch);
  }

  /** Dragging the scrubber: the window goes along once the cursor leaves its middle. */
  isOff(n) {
    const share = (n - this.state.get('a')) / this.length;
    return share < 0.05 || share > 0.95;
  }

  /** While playing: the window pages when the cursor passes 80 %. */
  play(n) {
    const to = this.clamp(n), share = (to - this.state.get('a')) / this.length;
    this.state.set({ step: to, ...(share > 0.8 || share < 0 ? this.around(to, 0.2) : {}) });
  }

  /** A window of the same length, with the step at a share of it. */
  around(n, share, length = this.length) {
    const total = this.run.last - this.run.first + 1, size = Math.min(length, Math.max(total, 1));
    const a = Math.max(this.run.first, Math.min(this.run.last - size + 1, Math.round(n - share * size)));
    return { a, b: a + size - 1 };
  }

  /** The window a..b; the cursor is pushed along if it would be outside. */
  window(a, b) {
    const lo = this.clamp(Math.min(a, b)), hi = this.clamp(Math.max(b, lo + Math.min(MIN_STEPS, this.run.last - this.run.first)));
    this.state.set({ a: Math.min(lo, hi), b: hi, step: Math.max(lo, Math.min(hi, this.state.get('step'))), following: false });
  }

  /** Narrower or wider around a step that stays where it is on the screen. */
  zoom(factor, around = this.state.get('step')) {
    const { a } = this.state.values, total = this.run.last - this.run.first + 1;
    const size = Math.max(Math.min(MIN_STEPS, total), Math.min(total, Math.round(this.length * factor)));
    const share = (around - a + 0.5) / this.length;
    const { a: from, b: to } = this.around(around, share, size);
    this.state.set({ a: from, b: to, step: Math.max(from, Math.min(to, this.state.get('step'))), following: false });
  }

  pan(steps) {
    const { a, b } = this.state.values;
    const by = Math.max(this.run.first - a, Math.min(this.run.last - b, Math.round(steps)));
    if (by) this.state.set({ a: a + by, b: b + by, step: Math.max(a + by, Math.min(b + by, this.state.get('step'))), following: false });
  }

  /** To the next event of a kind, or the one before; resolves to the event, or null if there is none. */
  async event(kind, back) {
    const card = this.state.get('card');
    const { step } = this.state.values;
    const isHere = card && card.event === kind && card.step === step;
    const seq = isHere ? card.seq : back ? 0 : Number.MAX_SAFE_INTEGER;
    const { event } = await ask(this.run.path('next'), { engine: this.run.engine, kind, step, seq, back });
    if (!event) return null;
    const kinds = { preemption: 'preempt', eviction: 'block', miss: 'row', first_token: 'first_token' };
    this.step(event.step);
    this.state.set({ card: {
      view: kind === 'eviction' ? 'blocks' : 'lives', kind: kinds[kind], step: event.step, request: event.request_id,
      block: event.block_id, event: kind, seq: event.seq, place: event.place, count: event.count } });
    return event;
  }
}
